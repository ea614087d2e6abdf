/* SPDX-License-Identifier: Apache-2.0 */
/* An endpoint of `webhooks:` that is kept elsewhere than in a config, and read as one of it. */
#ifndef PAWL_CONFIG_WEBHOOK_VALUES_H
#define PAWL_CONFIG_WEBHOOK_VALUES_H

#include "webhook/settings.h"

/* A webhook_reader (webhook/settings.h), of texts that others may have written: nothing of the
 * environment gets in, and no file is read. */
const char *config_read_endpoint(struct slice map, struct arena *texts,
                                 struct webhook_endpoint *ret_endpoint);

#endif
