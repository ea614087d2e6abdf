/* SPDX-License-Identifier: Apache-2.0 */
/* Further tries under one token (`retry:` of a rule), between the answer to one and the send check
 * of the next. */
#include "sim.h"

#define TRIES_MOST 3

static bool is_in_doubt(enum answer answer)
{
    return answer == ANSWER_DOUBT || answer == ANSWER_NONE;
}

/* What may have happened in an earlier try is not undone by a later one that was not done. */
static void keep_doubt(struct sim *sim, struct actor *actor)
{
    bool not_done = actor->answer == ANSWER_NOT_DONE || actor->answer == ANSWER_ELSEWHERE;
    actor->doubted |= is_in_doubt(actor->answer);
    if (!not_done || !actor->doubted || sim->mutant == SIM_MUTANT_TRY_WASHES)
        return;
    sim->reached[SIM_DOUBT_KEPT]++;
    actor->answer = ANSWER_DOUBT;
}

/* In doubt only under `unknown: retry`. A participant would not notice a second try. */
static bool may_try_again(const struct sim *sim, const struct actor *actor)
{
    enum record_unknown policy =
        record_policy(&actor->attempt.result.record, actor->attempt.begin.unknown);
    bool repeats = policy == RECORD_UNKNOWN_RETRY || sim->mutant == SIM_MUTANT_TRY_STRICT;
    if (sim->participant || actor->tries >= TRIES_MOST)
        return false;
    return is_in_doubt(actor->answer) ? repeats : actor->answer == ANSWER_NOT_DONE;
}

bool retry_follows(struct sim *sim, struct actor *actor)
{
    keep_doubt(sim, actor);
    if (!may_try_again(sim, actor) || sim_below(sim, 3) == 0)
        return false;
    sim->reached[is_in_doubt(actor->answer) ? SIM_TRIED_IN_DOUBT : SIM_TRIED_AGAIN]++;
    actor->attempt.begin.spent = actor->doubted;
    actor->phase = ACTOR_HOLDING;
    actor->not_before = sim->boot + (int64_t)sim_below(sim, SECOND);
    return true;
}
