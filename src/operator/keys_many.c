/* SPDX-License-Identifier: Apache-2.0 */
/* Acts on all records of a rule that are in doubt, in the order of their rows. */
#include "base/check.h"
#include "base/text/nearest.h"
#include "operator/keys.h"

#define NAMES_MOST 1000 /* records looked at for a rule of a similar name */

struct walk {
    struct store *store;
    const struct keys_many *many;
    struct parker *parker;
    struct keys_tally *tally;
    bool stopped; /* by the caller */
};

static void count_act(const struct keys_act *act, struct keys_tally *tally)
{
    int64_t left = clock_seconds_left(act->now, act->record.quiet_at);
    if (act->end == KEYS_DONE || act->end == KEYS_SAME) {
        tally->settled++;
    } else if (act->end == KEYS_EARLY) {
        tally->too_early++;
        tally->seconds = left > tally->seconds ? left : tally->seconds;
    } else if (act->end == KEYS_LIVE) {
        tally->in_use++;
    } else if (act->end == KEYS_OTHER) {
        tally->other++;
    } else {
        tally->changed++;
    }
}

static enum store_status act_on(struct walk *walk, const struct keys_row *row)
{
    KEYS_ACT_AUTO struct keys_act act = walk->many->act;
    act.row = row;
    act.token = row->store.record.token;
    enum store_status status = keys_act(walk->store, &act, walk->parker);
    if (status != STORE_DONE)
        return status;
    count_act(&act, walk->tally);
    walk->tally->next = row->store.id;
    walk->stopped = !walk->many->each(walk->many->argument, &act);
    return STORE_DONE;
}

enum store_status keys_act_on_many(struct store *store, const struct keys_many *many,
                                   struct parker *parker, struct keys_tally *ret_tally)
{
    KEYS_FOUND_AUTO struct keys_found found = {0};
    struct walk walk = {store, many, parker, ret_tally, false};
    struct keys_wanted wanted = {.tenant = many->tenant,
                                 .rule = many->rule,
                                 .doubted_before = many->before,
                                 .after = many->after,
                                 .limit = many->limit,
                                 .scans = many->scans};
    CHECK(many->limit > 0 && many->limit <= KEYS_MANY_MOST && many->before > 0);
    *ret_tally = (struct keys_tally){.next = many->after};
    enum store_status status = keys_list(store, &wanted, parker, &found);
    const struct keys_row *row = found.first;
    for (; row && status == STORE_DONE && !walk.stopped; row = row->next)
        status = act_on(&walk, row);
    if (status == STORE_DONE && !walk.stopped)
        ret_tally->next = found.next;
    return status;
}

/* ---- the rule ---- */

/* Of the oldest records' rules the one that is nearest; empty: none is near. */
static struct slice nearest_rule(const struct keys_found *found, struct slice rule)
{
    struct nearest nearest = {.given = rule};
    for (const struct keys_row *row = found->first; row; row = row->next)
        nearest_try(&nearest, row->store.rule);
    return nearest_name(&nearest);
}

enum store_status keys_know_rule(struct store *store, struct slice rule, size_t scans,
                                 struct parker *parker, struct buf *problem)
{
    KEYS_FOUND_AUTO struct keys_found of_rule = {0};
    KEYS_FOUND_AUTO struct keys_found any = {0};
    struct keys_wanted wanted = {.rule = rule, .limit = 1, .scans = scans};
    enum store_status status = keys_list(store, &wanted, parker, &of_rule);
    if (status != STORE_DONE || of_rule.n > 0 || of_rule.next != 0)
        return status;
    wanted = (struct keys_wanted){.limit = NAMES_MOST, .scans = scans};
    status = keys_list(store, &wanted, parker, &any);
    struct slice meant = nearest_rule(&any, rule);
    buf_printf(problem, "no record belongs to the rule `%.*s`", SLICE_QUOTED(rule));
    if (meant.len > 0)
        buf_printf(problem, "; did you mean `%.*s`?", SLICE_QUOTED(meant));
    return status;
}
