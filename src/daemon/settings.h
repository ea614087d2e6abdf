/* SPDX-License-Identifier: Apache-2.0 */
/* From the config as it was read to what the gateway serves by; at the start and at each reload. */
#ifndef PAWL_DAEMON_SETTINGS_H
#define PAWL_DAEMON_SETTINGS_H

#include "config/config.h"
#include "gateway/gateway.h"

/* Fills what a reload may change; the rules are the config's own reference. Resolves the upstream's
 * name, and blocks for that, until `stop_fd` (-1: none) is readable. False: `*ret_problem`
 * (mem_free) is one line that says why. */
bool settings_of(const struct config *config, int stop_fd, struct gateway_settings *ret_settings,
                 char **ret_problem);

/* How many loops it asks for. */
size_t loop_threads(const struct config *config);

/* Of the store, what a reload may change. */
struct store_limits limits_of(const struct config *config);

#endif
