/* SPDX-License-Identifier: Apache-2.0 */
/* state: what the store says of endpoints. One that has no row is enabled, and does not fail. */
#ifndef PAWL_WEBHOOK_STATE_H
#define PAWL_WEBHOOK_STATE_H

#include "store/events.h"
#include "store/find.h"

/* The rows of all endpoints (struct store_endpoint), in the arena of `found`. */
enum store_status webhook_states(struct store *store, struct parker *parker,
                                 struct store_found *found);

/* An operator enables or disables an endpoint. `*ret_changed`: it was not so already. */
enum store_status webhook_state_set(struct store *store, struct parker *parker, struct slice name,
                                    bool disabled, bool *ret_changed);

#endif
