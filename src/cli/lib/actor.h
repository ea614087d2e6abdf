/* SPDX-License-Identifier: Apache-2.0 */
/* Whom the audit names for what a command does. */
#ifndef PAWL_CLI_ACTOR_H
#define PAWL_CLI_ACTOR_H

#include "store/tables/acts.h"

/* Who acts, and why; `name` gets the text of the first: `cli:USER`, or `cli:` and the uid. */
struct store_actor actor_of(struct slice reason, struct buf *name);

#endif
