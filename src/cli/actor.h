/* SPDX-License-Identifier: Apache-2.0 */
/* Whom the audit names for what a command does. */
#ifndef PAWL_CLI_ACTOR_H
#define PAWL_CLI_ACTOR_H

#include "base/buf.h"

/* Appends `cli:USER`, or `cli:` and the uid. */
void actor_add(struct buf *buf);

#endif
