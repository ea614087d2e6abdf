/* SPDX-License-Identifier: Apache-2.0 */
/* Participants (`unknown: participant`): the upstream completes the record inside the transaction
 * that holds its effect. The transaction holds the key for as long as it is open, looks at its
 * token behind that, and commits effect and outcome together, or nothing. */
#include "sim.h"

#include <stdio.h>

#define LOCK_WAIT (5 * MS)

/* Nothing dedupes, and nothing settles. */
const struct sim_rule sim_participant_rules[SIM_RULES] = {
    {RECORD_UNKNOWN_PARTICIPANT, UPSTREAM_PARTICIPANT, 0, 2 * SECOND, SECOND / 2, 4 * SECOND},
    {RECORD_UNKNOWN_PARTICIPANT, UPSTREAM_PARTICIPANT, 0, SECOND, 0, 8 * SECOND},
    {RECORD_UNKNOWN_PARTICIPANT, UPSTREAM_PARTICIPANT, 0, SECOND, SECOND, SECOND},
    {RECORD_UNKNOWN_PARTICIPANT, UPSTREAM_PARTICIPANT, 0, 2 * SECOND, 0, 4 * SECOND, true},
    {RECORD_UNKNOWN_PARTICIPANT, UPSTREAM_PARTICIPANT, 0, SECOND, 0, 4 * SECOND, false, true},
    {RECORD_UNKNOWN_PARTICIPANT, UPSTREAM_PARTICIPANT, 0, 30 * SECOND, 0, 4 * SECOND},
};

bool participant_holds(const struct sim *sim, int rule)
{
    for (size_t i = 0; i < SIM_FLIGHTS; i++)
        if (sim->flights[i].used && sim->flights[i].inside && sim->flights[i].rule == rule)
            return true;
    return false;
}

static void run(struct sim *sim, struct store_op *op)
{
    store_submit(sim->participant, op);
    while (!store_op_ended(op))
        store_step(sim->participant);
    SIM_CHECK(sim, op->result.status == STORE_DONE);
    shadow_check(sim);
}

static struct store_op op_of(const struct flight *flight, enum store_op_kind kind)
{
    struct store_op op = {.kind = kind, .key_hash = sim_key(flight->rule), .row_hint = flight->row};
    if (kind != STORE_LOOK)
        op.writing.token = flight->token;
    return op;
}

/* Two mutants: its lock is no lock, or its effect is committed before its outcome. */
static bool is_unlocked(const struct sim *sim)
{
    return sim->mutant == SIM_MUTANT_PARTICIPANT_UNLOCKED;
}

static bool is_apart(const struct sim *sim)
{
    return sim->mutant == SIM_MUTANT_PARTICIPANT_APART;
}

/* True: it has ended. */
static bool open_transaction(struct sim *sim, struct flight *flight, enum answer *ret_answer)
{
    if (participant_holds(sim, flight->rule)) {
        flight->arrive_at = sim->boot + LOCK_WAIT;
        return false;
    }
    struct store_op look = op_of(flight, STORE_LOOK);
    run(sim, &look);
    outcome_unref(look.result.found);
    if (look.result.record.status == RECORD_ABSENT || look.result.record.token != flight->token) {
        sim->reached[SIM_PARTICIPANT_STALE]++;
        *ret_answer = ANSWER_FENCED;
        return true;
    }
    struct digest key = sim_key(flight->rule);
    if (!is_unlocked(sim))
        hostile_hold(sim->keeper, &key, true);
    if (is_apart(sim))
        upstream_execute(sim, flight);
    flight->inside = true;
    flight->arrive_at = sim->boot + upstream_delay(sim, flight->rule);
    return false;
}

/* Another answer than the one that the gateway will bring. */
static enum record_write complete(struct sim *sim, const struct flight *flight)
{
    char body[24];
    snprintf(body, sizeof body, "C%lld", (long long)flight->row);
    struct outcome *outcome = outcome_new(201, false, SLICE(""), slice_of(body));
    SIM_CHECK(sim, outcome);
    struct store_op op = op_of(flight, STORE_COMPLETE);
    op.writing.final = RECORD_COMPLETE;
    op.writing.http_status = 201;
    op.writing.outcome = outcome;
    op.writing.keeps = true;
    run(sim, &op);
    outcome_unref(op.result.found);
    outcome_unref(outcome);
    return op.result.write;
}

static enum answer end_transaction(struct sim *sim, struct flight *flight)
{
    struct digest key = sim_key(flight->rule);
    flight->inside = false;
    sim->deleted_at[flight->rule] = sim->boot; /* who waited for it waited for no record */
    if (!is_unlocked(sim))
        hostile_hold(sim->keeper, &key, false);
    if (sim_below(sim, 8) == 0) {
        sim->reached[SIM_PARTICIPANT_ROLLED_BACK]++;
        return ANSWER_DOUBT;
    }
    bool done = complete(sim, flight) == RECORD_WRITTEN;
    if ((done || is_unlocked(sim)) && !is_apart(sim))
        upstream_execute(sim, flight);
    if (!done)
        return ANSWER_FENCED; /* it was released, and has expired meanwhile */
    if (flight->end == FLIGHT_BAD_GATEWAY)
        return ANSWER_DOUBT;
    return sim_below(sim, 10) == 0 ? ANSWER_OTHER : ANSWER_DONE;
}

bool participant_serve(struct sim *sim, struct flight *flight, enum answer *ret_answer)
{
    if (!flight->inside)
        return open_transaction(sim, flight, ret_answer);
    *ret_answer = end_transaction(sim, flight);
    return true;
}
