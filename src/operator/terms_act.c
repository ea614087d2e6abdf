/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/terms_act.h"

#include "operator/keys.h"

#define TRIES_MOST 100 /* somebody else set the terms each time */

/* Any operation reads the terms. */
static enum store_status read_terms_now(struct store *store, struct parker *parker)
{
    struct store_op op = {.kind = STORE_LOOK, .record_alone = true};
    return store_run(store, &op, parker, clock_after(clock_boot_us(), KEYS_TIMEOUT_US));
}

static enum store_status save_terms(struct store *store, const struct terms_act *act,
                                    const struct terms_change *terms, int64_t now,
                                    struct parker *parker)
{
    struct store_task_audit audit = {.at = now,
                                     .actor = act->actor->name,
                                     .act = slice_of(act->name),
                                     .kind = SLICE(TERMS_ACT_KIND),
                                     .from = act->state(&terms->expected),
                                     .to = act->state(&terms->wanted)};
    struct table_change changes[STORE_AUDIT_CHANGES];
    size_t n = store_audit_add(&audit, act->actor, changes);
    struct store_op op = {
        .kind = STORE_ROWS, .brings = changes, .n_brings = n, .rows.terms = terms};
    return store_run(store, &op, parker, clock_after(clock_boot_us(), KEYS_TIMEOUT_US));
}

enum store_status terms_act(struct store *store, const struct terms_act *act, struct parker *parker,
                            bool *ret_changed)
{
    enum store_status status = STORE_CONFLICT;
    *ret_changed = false;
    for (int try = 0; try < TRIES_MOST && status == STORE_CONFLICT; try++) {
        status = read_terms_now(store, parker);
        int64_t now = store_now(store);
        struct terms_change terms = {.expected = store_terms(store)};
        terms.wanted = terms.expected;
        if (status != STORE_DONE || !act->want(act->argument, now, &terms))
            return status;
        status = save_terms(store, act, &terms, now, parker);
        *ret_changed = status == STORE_DONE;
    }
    return status == STORE_CONFLICT ? STORE_DOWN : status;
}
