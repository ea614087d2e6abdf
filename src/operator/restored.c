/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/restored.h"

#include "operator/keys.h"

#define TRIES_MOST 100 /* somebody else set the terms each time */

static struct slice state_of(const struct terms *terms)
{
    return terms->went_back_at  ? SLICE("went back")
           : terms->restored_at ? SLICE("restored")
                                : SLICE("open");
}

static struct terms wanted_by(const struct restored_act *act, int64_t now)
{
    struct terms terms = act->before;
    terms.restored_since = act->since;
    terms.restored_at = act->since ? now : 0;
    terms.restored_until = act->until;
    if (act->since)
        terms.went_back_at = 0;
    return terms;
}

static enum store_status try_mark(struct store *store, const struct restored_act *act,
                                  struct parker *parker)
{
    int64_t now = store_now(store);
    struct terms_change terms = {
        .expected = act->before, .wanted = wanted_by(act, now), .above = act->above};
    struct store_task_audit audit = {.at = now,
                                     .actor = act->actor,
                                     .act = act->since ? SLICE("restored") : SLICE("clear"),
                                     .kind = SLICE(RESTORED_KIND),
                                     .from = state_of(&terms.expected),
                                     .to = state_of(&terms.wanted)};
    struct table_change change = store_audit_change(&audit);
    struct store_op op = {.kind = STORE_ROWS, .brings = &change, .n_brings = 1, .terms = &terms};
    store_run(store, &op, parker, clock_after(clock_boot_us(), KEYS_TIMEOUT_US));
    return op.status;
}

/* Any operation reads the terms. */
static enum store_status read_terms(struct store *store, struct parker *parker)
{
    struct store_op op = {.kind = STORE_LOOK, .record_alone = true};
    store_run(store, &op, parker, clock_after(clock_boot_us(), KEYS_TIMEOUT_US));
    return op.status;
}

enum store_status restored_mark(struct store *store, struct restored_act *act,
                                struct parker *parker)
{
    enum store_status status = STORE_CONFLICT;
    for (int try = 0; try < TRIES_MOST && status == STORE_CONFLICT; try++) {
        status = read_terms(store, parker);
        if (status != STORE_DONE)
            return status;
        act->before = store_terms(store);
        if (act->since == 0 && act->before.went_back_at != 0)
            return STORE_CONFLICT;
        status = try_mark(store, act, parker);
    }
    return status == STORE_CONFLICT ? STORE_DOWN : status;
}
