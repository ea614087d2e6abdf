/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/terms_act.h"

#include "operator/keys.h"

/* Any operation reads the terms. */
static enum store_status read_terms_now(struct store *store, struct parker *parker)
{
    struct store_op op = {.kind = STORE_LOOK, .record_alone = true};
    return store_run(store, &op, parker, clock_after(clock_boot_us(), KEYS_TIMEOUT_US));
}

static enum store_status save_terms(struct rows *rows, const struct terms_act *act, int64_t now)
{
    struct store_task_audit audit = {.at = now,
                                     .actor = act->actor->name,
                                     .act = slice_of(act->name),
                                     .kind = SLICE(TERMS_ACT_KIND),
                                     .from = act->state(&rows->terms->expected),
                                     .to = act->state(&rows->terms->wanted)};
    store_audit_put(&audit, act->actor, rows);
    return rows_save(rows);
}

enum store_status terms_act(struct store *store, const struct terms_act *act, struct parker *parker,
                            bool *ret_changed)
{
    struct terms_change terms;
    struct rows rows = {.store = store, .parker = parker, .terms = &terms};
    enum store_status status = STORE_CONFLICT;
    *ret_changed = false;
    while (rows_try_again(&rows, &status)) {
        status = read_terms_now(store, parker);
        int64_t now = store_now(store);
        terms.expected = terms.wanted = store_terms(store);
        if (status != STORE_DONE || !act->want(act->argument, now, &terms))
            return status;
        status = save_terms(&rows, act, now);
        *ret_changed = status == STORE_DONE;
    }
    return status;
}
