/* SPDX-License-Identifier: Apache-2.0 */
/*
 * terms_act: an operator sets the terms of a store (store/tables/terms.h), in one commit with the
 * row of the audit that says who did it. Somebody else may set others meanwhile: then it is decided
 * again under those.
 */
#ifndef PAWL_OPERATOR_TERMS_ACT_H
#define PAWL_OPERATOR_TERMS_ACT_H

#include "store/store.h"
#include "store/tables/acts.h"

#define TERMS_ACT_KIND "store" /* store_task_audit.kind of such acts */

struct terms_act {
    const char *name; /* in the audit */
    const struct store_actor *actor;
    struct slice (*state)(const struct terms *terms); /* in the audit: before and afterwards */
    /* Makes of `change->wanted`, which is as expected, what is wanted at that store time. False:
     * nothing is to be changed. */
    bool (*want)(const void *argument, int64_t now, struct terms_change *change);
    const void *argument;
};

/* STORE_DONE with `*ret_changed` false: nothing was to be changed. */
enum store_status terms_act(struct store *store, const struct terms_act *act, struct parker *parker,
                            bool *ret_changed);

#endif
