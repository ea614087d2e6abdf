/* SPDX-License-Identifier: Apache-2.0 */
/* kind: what kinds of tasks (struct courier_kind) say of a claim. */
#ifndef PAWL_COURIER_KIND_H
#define PAWL_COURIER_KIND_H

#include "courier/courier.h"
#include "store/op.h"

static const struct courier_verdict courier_down = {.claim = COURIER_DOWN};

static inline struct courier_verdict courier_settle(enum task_state state, enum task_reason reason)
{
    return (struct courier_verdict){.claim = COURIER_SETTLED, .state = state, .reason = reason};
}

/* By what became of the claim's commit. */
static inline struct courier_verdict courier_claimed(enum store_status saved)
{
    return (struct courier_verdict){.claim = saved == STORE_DONE       ? COURIER_CLAIMED
                                             : saved == STORE_CONFLICT ? COURIER_TAKEN
                                                                       : COURIER_DOWN};
}

#endif
