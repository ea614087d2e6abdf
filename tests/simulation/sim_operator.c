/* SPDX-License-Identifier: Apache-2.0 */
/* An operator: looks at a record and at the upstream, and acts some time later on what was seen. */
#include "sim.h"

#include <stdio.h>

static void plan(struct sim *sim, enum store_op_kind kind, bool force)
{
    struct operator_act *act = &sim->operator;
    act->planned = true;
    bool slow = sim->mutant == SIM_MUTANT_UNNAMED_TOKEN;
    act->at = sim->boot + (int64_t)sim_below(sim, slow ? 20 * SECOND : 2 * SECOND);
    act->op = (struct store_op){.kind = kind,
                                .key_hash = sim->shadow[act->rule].key_hash,
                                .writing.token = sim->shadow[act->rule].record.token,
                                .writing.http_status = 201,
                                .writing.force = force};
    if (kind != STORE_RESOLVE)
        return;
    char body[24];
    snprintf(body, sizeof body, "D%lld", (long long)sim->shadow[act->rule].id);
    act->op.writing.outcome = outcome_new(201, false, SLICE(""), slice_of(body));
    SIM_CHECK(sim, act->op.writing.outcome);
}

static void forget_plan(struct operator_act *act)
{
    outcome_unref(act->op.writing.outcome);
    *act = (struct operator_act){0};
}

/* `serve`, which knows the rule. */
static void end_hold(struct sim *sim)
{
    const struct sim_rule *rule = sim_rule(sim, sim->operator.rule);
    plan(sim, STORE_END_HOLD, false);
    sim->operator.op.begin =(struct record_begin){
        .unknown = rule->unknown, .hold_us = rule->hold, .settle_us = rule->settle};
}

/* "It did not happen" is concluded only from a look after the record's quiet_at, and never where
 * fencing replaces the settle time: this look carries no token. */
static void look(struct sim *sim)
{
    struct operator_act *act = &sim->operator;
    act->rule = (int)sim_below(sim, SIM_RULES);
    const struct store_row *row = &sim->shadow[act->rule];
    if (row->record.status == RECORD_ABSENT)
        return;
    if (sim_below(sim, 20) == 0) {
        plan(sim, STORE_FORGET, sim_below(sim, 2));
        return;
    }
    if (row->record.status != RECORD_UNKNOWN)
        return;
    if (sim_rule(sim, act->rule)->hold > 0 && sim_below(sim, 2)) {
        end_hold(sim);
        return;
    }
    if (life_of(sim, act->rule, row->id)->effects > 0)
        plan(sim, STORE_RESOLVE, false);
    else if (sim_rule(sim, act->rule)->upstream != UPSTREAM_FENCE &&
             sim->read.now >= row->record.quiet_at)
        plan(sim, STORE_RELEASE_SETTLED, false);
}

static void submit(struct sim *sim)
{
    struct operator_act *act = &sim->operator;
    act->proc = sim_below(sim, SIM_PROCS);
    if (!proc_runs(sim, act->proc))
        return;
    act->submitted = true;
    if (sim->mutant == SIM_MUTANT_UNNAMED_TOKEN)
        act->op.writing.token = sim->shadow[act->rule].record.token;
    sim->reached[SIM_FORGOTTEN_LIVE] += act->op.kind == STORE_FORGET && act->op.writing.force &&
                                        row_is_held(&sim->shadow[act->rule]);
    store_submit(sim->procs[act->proc].store, &act->op);
}

static void judge(struct sim *sim)
{
    const struct store_op *op = &sim->operator.op;
    if (op->result.status != STORE_DONE)
        return;
    if (op->result.write == RECORD_STALE)
        sim->reached[SIM_OPERATOR_STALE]++;
    if (op->result.write != RECORD_WRITTEN)
        return;
    sim->reached[SIM_RESOLVED] += op->kind == STORE_RESOLVE;
    sim->reached[SIM_OPERATOR_RELEASED] += op->kind == STORE_RELEASE_SETTLED;
    sim->reached[SIM_HOLD_ENDED_ALONE] += op->kind == STORE_END_HOLD;
    sim->reached[SIM_FORGOTTEN] += op->kind == STORE_FORGET;
}

void operator_move(struct sim *sim)
{
    struct operator_act *act = &sim->operator;
    if (!act->planned) {
        if (sim_chance(sim, 5000))
            look(sim);
        return;
    }
    if (!act->submitted) {
        if (sim->boot >= act->at)
            submit(sim);
        return;
    }
    if (!store_op_ended(&act->op))
        return;
    judge(sim);
    forget_plan(act);
}

void operator_drop(struct sim *sim, size_t proc)
{
    struct operator_act *act = &sim->operator;
    if (!act->submitted || act->proc != proc)
        return;
    proc_end(sim, proc, &act->op);
    forget_plan(act);
}
