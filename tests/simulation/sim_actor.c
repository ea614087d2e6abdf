/* SPDX-License-Identifier: Apache-2.0 */
/* An attempt, as the gateway makes it: begin, the send check, send, the answer or none, now and
 * then further tries under the same token, the write, and again while the record says so. */
#include "sim.h"

#include "base/crypto/random.h"
#include "base/mem.h"
#include <stdio.h>

#define LEASE (3 * SECOND)
#define TIMEOUT SECOND
#define ROUNDS_MOST 6
#define UNWOKEN_MOST (300 * MS)
#define WAIT_MOST (4 * SECOND)

static struct sim *sim_running; /* for parkers, which carry nothing of their own */

static void wake(struct parker *parker)
{
    (void)parker;
}

/* A begin that blocks: meanwhile the process does what is due, and time goes on. */
static bool park(struct parker *parker, int64_t deadline_us)
{
    struct sim *sim = sim_running;
    for (size_t i = 0; i < SIM_ACTORS; i++)
        if (parker == &sim->actors[i].parker)
            proc_step(sim, sim->actors[i].proc);
    sim_advance(sim, MS);
    if (sim->participant)
        upstream_move(sim); /* what it waits for may be a transaction */
    return sim->boot < deadline_us;
}

static void go_idle(struct actor *actor)
{
    attempt_fini(&actor->attempt);
    outcome_unref(actor->act.outcome);
    actor->act.outcome = NULL;
    actor->phase = ACTOR_IDLE;
}

void actor_drop(struct sim *sim, size_t at)
{
    struct actor *actor = &sim->actors[at];
    bool open = actor->phase == ACTOR_BEGINNING || actor->phase == ACTOR_WRITING;
    if (open) {
        proc_end(sim, actor->proc, &actor->attempt.op);
        store_result_fini(&actor->attempt.op.result, &actor->attempt.op.room);
    }
    go_idle(actor);
}

/* ---- begin ---- */

/* Today's policy of a rule whose config changes. Participants are not probed. */
static enum record_unknown draw_policy(struct sim *sim, const struct sim_rule *rule)
{
    const enum record_unknown policies[] = {rule->unknown, RECORD_UNKNOWN_HOLD,
                                            RECORD_UNKNOWN_PROBE};
    return policies[sim_below(sim, sim->participant ? 2 : 3)];
}

static void fill_attempt(struct sim *sim, struct actor *actor)
{
    const struct sim_rule *rule = sim_rule(sim, actor->rule);
    actor->attempt = (struct attempt){.key_hash = sim_key(actor->rule),
                                      .tenant = SLICE("t"),
                                      .rule = SLICE("r"),
                                      .key = SLICE("k"),
                                      .recipe = SLICE("v"),
                                      .begin = {.payload_hash = {{2}},
                                                .target_hash = {{4}},
                                                .lease_us = LEASE,
                                                .ttl_us = rule->ttl,
                                                .least_us = WAIT_MOST,
                                                .doubted_us = 10 * SECOND,
                                                .window = rule->window,
                                                .tombstone_us = rule->tombstone,
                                                .settle_us = rule->settle,
                                                .hold_us = rule->hold,
                                                .unknown = rule->unknown}};
    if (sim->mutant == SIM_MUTANT_NO_SETTLE_TIME)
        actor->attempt.begin.settle_us = 0;
    if (sim->mutant == SIM_MUTANT_BORN_EXPIRED)
        actor->attempt.begin.least_us = 0;
    if (rule->changes)
        actor->attempt.begin.unknown = draw_policy(sim, rule);
    actor->attempt.begin.paced = sim_below(sim, 4) == 0;
    if (!sim->once && sim_below(sim, 8) == 0) /* a probe in the background: it names no value */
        actor->attempt.begin.probes_token = sim->shadow[actor->rule].record.token;
    if (sim_below(sim, 30) == 0)
        actor->attempt.begin.payload_hash.bytes[0] = 1;
    if (sim->step % 8 == 0) { /* a key that says when it was made, and is too old, or is not */
        actor->attempt.begin.key_max_age_us = SECOND / 2;
        actor->attempt.begin.key_at = sim->read.now - (sim->step % 16 ? SECOND : 0);
    }
    actor->parker = (struct parker){.park = park, .wake = wake};
}

/* engine_begin without its wait: a simulated process must not block for as long as waiters do. */
static void begin(struct sim *sim, struct actor *actor)
{
    struct attempt *attempt = &actor->attempt;
    int64_t wait = sim_below(sim, 3) == 0 ? 0 : (int64_t)sim_below(sim, WAIT_MOST);
    for (size_t i = 0; i < RECORD_ATTEMPT_ID_SIZE; i++)
        attempt->begin.attempt_id[i] = (unsigned char)sim_below(sim, 256);
    attempt_fini(attempt);
    attempt->result = (struct store_result){0};
    if (sim->once)
        once_name(sim, actor);
    attempt->token = 0;
    attempt->record_hash = attempt->key_hash;
    attempt->send_by = sim->boot + LEASE - LEASE / 10;
    attempt->op = (struct store_op){.kind = STORE_BEGIN,
                                    .key_hash = attempt->key_hash,
                                    .arrival.former = attempt->former,
                                    .arrival.n_former = attempt->n_former,
                                    .arrival.once = attempt->has_once ? &attempt->once : NULL,
                                    .arrival.tenant = attempt->tenant,
                                    .arrival.rule = attempt->rule,
                                    .arrival.key = attempt->key,
                                    .arrival.recipe = attempt->recipe,
                                    .begin = attempt->begin,
                                    .arrival.wait_until = wait ? sim->boot + wait : 0,
                                    .parker = &actor->parker};
    actor->give_up_at = sim->boot + wait + (int64_t)sim_below(sim, 2 * SECOND);
    actor->began_at = sim->boot;
    actor->wait_until = attempt->op.arrival.wait_until;
    actor->phase = ACTOR_BEGINNING;
    actor->unwoken_at = 0;
    actor->rounds++;
    store_submit(sim->procs[actor->proc].store, &attempt->op);
}

static void tell_replay(struct sim *sim, struct actor *actor)
{
    struct slice body = actor->attempt.result.found->body;
    uint64_t row = 0;
    SIM_CHECK(sim, body.len > 1 && slice_to_u64(slice_skip(body, 1), INT64_MAX, &row));
    shadow_told(sim, actor->rule, (int64_t)row, body);
    sim->reached[SIM_REPLAY]++;
    sim->reached[SIM_CACHED] += actor->attempt.result.decided_at == 0;
    sim->reached[SIM_WOKEN_REPLAY] += actor->attempt.op.own.waits;
    sim->reached[SIM_OWN_ANSWER] += body.at[0] == 'C';
    sim->reached[SIM_WOKEN_PROVISIONAL] +=
        actor->attempt.op.own.waits && sim->participant && body.at[0] == 'E';
    go_idle(actor);
}

/* It woke up in its own time to no record, and nobody deleted the one that it waited for. */
static bool waited_in_vain(const struct sim *sim, const struct actor *actor)
{
    const struct attempt *attempt = &actor->attempt;
    return !sim->once && attempt->op.own.waits && attempt->result.record.attempts == 1 &&
           sim->boot <= actor->wait_until && actor->began_at > sim->deleted_at[actor->rule];
}

static void hold(struct sim *sim, struct actor *actor, bool probing)
{
    SIM_HOLDS(sim, SIM_WAITED, !waited_in_vain(sim, actor));
    shadow_acquired(sim, &actor->attempt);
    actor->row = actor->attempt.result.row;
    if (sim->once)
        once_acquired(sim, actor);
    attempt_fini(&actor->attempt);
    actor->probing = probing;
    actor->tries = 0;
    actor->doubted = false;
    actor->phase = ACTOR_HOLDING;
    /* Now and then it is slow: longer than its lease. */
    int64_t slow = sim_below(sim, 40) == 0 ? 2 * LEASE : 20 * MS;
    actor->not_before = sim->boot + (int64_t)sim_below(sim, (uint64_t)slow);
    const struct record *record = &actor->attempt.result.record;
    bool after_lapse = actor->attempt.result.store_now == sim->lapsed_at[actor->rule];
    sim->reached[probing ? SIM_ASK : SIM_PROCEED]++;
    sim->reached[SIM_WOKEN_PROCEED] += actor->attempt.op.own.waits && !probing && !after_lapse;
    sim->reached[SIM_WOKEN_LAPSE] += actor->attempt.op.own.waits && after_lapse;
    sim->reached[SIM_SAME_TOKEN] += record->started_at < actor->attempt.result.store_now;
    SIM_CHECK(sim, digest_eq(&record->payload_hash, &actor->attempt.begin.payload_hash));
}

/* Nothing was acquired: what there is to send bears no token. */
static void send_unclaimed(struct sim *sim, struct actor *actor)
{
    actor->row = sim->shadow[actor->rule].id;
    actor->probing = false;
    upstream_send(sim, (size_t)(actor - sim->actors));
}

static void count_undecided(struct sim *sim, const struct store_result *result)
{
    sim->reached[SIM_LIMITED] += result->status == STORE_LIMITED;
    sim->reached[SIM_FULL] += result->status == STORE_FULL;
    sim->reached[SIM_WITHDRAWN] += result->status == STORE_WITHDRAWN;
}

static void decided(struct sim *sim, struct actor *actor)
{
    struct store_op *op = &actor->attempt.op;
    struct store_result *result = &actor->attempt.result;
    *result = op->result;
    op->result = (struct store_result){0};
    if (result->status != STORE_DONE) {
        count_undecided(sim, result);
        if (sim->mutant == SIM_MUTANT_ERROR_SENDS && result->status == STORE_FULL)
            send_unclaimed(sim, actor);
        go_idle(actor);
        return;
    }
    actor->attempt.record_hash = op->key_hash;
    if (sim->once)
        once_count(sim, actor);
    switch (result->verdict) {
    case RECORD_PROCEED:
    case RECORD_PROBE:
        SIM_CHECK(sim, result->verdict == RECORD_PROBE || op->begin.probes_token == 0);
        sim->reached[SIM_BACKGROUND_ASK] += op->begin.probes_token > 0;
        actor->attempt.token = result->record.token;
        actor->attempt.asked_at = result->store_now;
        hold(sim, actor, result->verdict == RECORD_PROBE);
        return;
    case RECORD_REPLAY:
        tell_replay(sim, actor);
        return;
    case RECORD_MISMATCH:
        SIM_CHECK(sim, !digest_eq(&result->record.payload_hash, &op->begin.payload_hash));
        sim->reached[SIM_MISMATCH]++;
        break;
    case RECORD_IN_PROGRESS:
        sim->reached[SIM_TIME_OVER] += op->own.waits;
        sim->reached[SIM_LOCKED_BEGIN] += result->record.token == 0;
        break;
    case RECORD_DUPLICATE:
        SIM_CHECK(sim, sim->once);
        break;
    case RECORD_KEY_EXPIRED: /* nothing that lives was hidden by it */
        SIM_CHECK(sim, op->begin.key_at + op->begin.key_max_age_us < result->store_now);
        SIM_CHECK(sim, result->by_once ||
                           record_key_is_absent(&result->record, result->store_now) ||
                           record_held_until(&result->record, &op->begin, result->lease) <=
                               result->store_now);
        sim->reached[SIM_KEY_EXPIRED]++;
        break;
    case RECORD_RESULT_EXPIRED:
        sim->reached[SIM_EXPIRED]++;
        break;
    case RECORD_OUTCOME_UNKNOWN:
        sim->reached[SIM_WOKEN_UNKNOWN] += op->own.waits && result->record.status == RECORD_UNKNOWN;
        sim->reached[SIM_SPENT] += result->record.status != RECORD_UNKNOWN;
        break;
    default:
        SIM_CHECK(sim, false);
    }
    go_idle(actor);
}

/* The real engine_begin, with its cache, for an attempt that does not wait. */
static void begin_by_engine(struct sim *sim, struct actor *actor)
{
    if (sim->once)
        once_name(sim, actor);
    actor->attempt.wait_us = 0;
    actor->rounds++;
    enum engine_verdict verdict =
        engine_begin(sim->procs[actor->proc].engine, &actor->attempt, &actor->parker,
                     sim->boot + (int64_t)sim_below(sim, 400 * MS));
    if (verdict == ENGINE_PROCEED || verdict == ENGINE_PROBE)
        hold(sim, actor, verdict == ENGINE_PROBE);
    else if (verdict == ENGINE_REPLAY)
        tell_replay(sim, actor);
    else
        go_idle(actor);
}

/* The record of the key, or one that its value may wait for. */
static bool is_held(const struct sim *sim, int rule)
{
    int first = sim->once ? rule - rule % SIM_KEYS : rule;
    int last = sim->once ? first + SIM_KEYS - 1 : rule;
    for (int i = first; i <= last; i++)
        if (row_is_held(&sim->shadow[i]))
            return true;
    return false;
}

/* Who waits is woken soon after nobody holds the record any more: no wake-up is lost. */
static void check_unwoken(struct sim *sim, struct actor *actor)
{
    bool waits =
        actor->attempt.op.own.waits && store_counts(sim->procs[actor->proc].store).queued == 0;
    if (!waits || is_held(sim, actor->rule) || participant_holds(sim, actor->rule)) {
        actor->unwoken_at = 0;
        return;
    }
    if (actor->unwoken_at == 0)
        actor->unwoken_at = sim->boot;
    SIM_CHECK(sim, sim->boot - actor->unwoken_at < UNWOKEN_MOST);
}

static void move_beginning(struct sim *sim, struct actor *actor)
{
    if (store_op_ended(&actor->attempt.op)) {
        decided(sim, actor);
        return;
    }
    if (sim->boot < actor->give_up_at) {
        check_unwoken(sim, actor);
        return;
    }
    if (store_withdraw(sim->procs[actor->proc].store, &actor->attempt.op, false)) {
        decided(sim, actor);
        return;
    }
    SIM_CHECK(sim, actor->attempt.op.own.unsure);
    sim->reached[SIM_UNSURE]++;
}

/* ---- the exchange and its write ---- */

static void write_act(struct sim *sim, struct actor *actor, enum store_op_kind kind)
{
    actor->act.kind = kind;
    actor->phase = ACTOR_WRITING;
    actor->errors = sim->procs[actor->proc].errors;
    engine_write(sim->procs[actor->proc].engine, &actor->attempt, &actor->act, &actor->parker);
}

static void write_outcome(struct sim *sim, struct actor *actor)
{
    bool refused = actor->answer == ANSWER_REFUSED;
    int status = refused ? 422 : actor->answer == ANSWER_OTHER ? 202 : 201;
    char body[24];
    char first = refused ? 'F' : actor->probing ? 'P' : 'E';
    snprintf(body, sizeof body, "%c%lld", first, (long long)actor->row);
    actor->act =
        (struct engine_act){.final = refused ? RECORD_FAILED : RECORD_COMPLETE,
                            .http_status = status,
                            .outcome = outcome_new(status, refused, SLICE(""), slice_of(body))};
    SIM_CHECK(sim, actor->act.outcome);
    sim->reached[SIM_PROBE_FOUND] += actor->probing;
    if (sim->mutant == SIM_MUTANT_TOLD_EARLY)
        shadow_told(sim, actor->rule, actor->row, actor->act.outcome->body);
    write_act(sim, actor, STORE_FINISH);
}

static void move_holding(struct sim *sim, struct actor *actor, size_t at)
{
    if (sim->boot < actor->not_before)
        return;
    if (!engine_may_send(&actor->attempt) && sim->mutant != SIM_MUTANT_SEND_UNCHECKED) {
        sim->reached[SIM_SEND_CHECK]++;
        sim->reached[SIM_TRY_LATE] += actor->tries > 0;
        bool in_doubt = actor->probing || actor->doubted;
        write_act(sim, actor, in_doubt ? STORE_DOUBT : STORE_RELEASE);
        return;
    }
    actor->tries++;
    actor->answer = ANSWER_NONE;
    actor->phase = ACTOR_EXCHANGE;
    actor->timeout = sim->boot + TIMEOUT;
    upstream_send(sim, at);
}

/* When the look began that found nothing. */
static void misdate(struct sim *sim, struct actor *actor)
{
    if (sim->mutant == SIM_MUTANT_NOT_FOUND_FINAL)
        actor->attempt.asked_at = CLOCK_NEVER;
    if (sim->mutant == SIM_MUTANT_LOOK_MISDATED)
        actor->attempt.asked_at = store_now(sim->procs[actor->proc].store);
}

static bool releases(const struct sim *sim, const struct actor *actor)
{
    return sim->mutant == SIM_MUTANT_DOUBT_RELEASES && actor->answer == ANSWER_DOUBT &&
           !actor->probing;
}

/* The owner probes in the same commit, as a client that waits for it has it done. */
static enum store_op_kind doubt(struct sim *sim, const struct actor *actor)
{
    bool asks = !actor->probing && actor->attempt.begin.unknown == RECORD_UNKNOWN_PROBE &&
                sim->mutant != SIM_MUTANT_OWN_PROBE && sim_below(sim, 4) != 0;
    return asks ? STORE_ASK : STORE_DOUBT;
}

static void answered(struct sim *sim, struct actor *actor)
{
    if (!actor->probing && retry_follows(sim, actor))
        return;
    switch (actor->answer) {
    case ANSWER_DONE:
    case ANSWER_OTHER:
    case ANSWER_REFUSED:
        write_outcome(sim, actor);
        return;
    case ANSWER_NOT_DONE:
        actor->attempt.begin.spent = false;
        write_act(sim, actor, STORE_RELEASE);
        return;
    case ANSWER_ELSEWHERE:
        actor->attempt.begin.spent = false;
        sim->dropping[actor->rule] = true;
        write_act(sim, actor, STORE_DROP);
        return;
    case ANSWER_NOT_FOUND:
        misdate(sim, actor);
        write_act(sim, actor, STORE_RELEASE_SETTLED);
        return;
    case ANSWER_FENCED:
        /* It says nothing of what was probed, nor of earlier tries. */
        actor->attempt.begin.spent &= actor->probing || actor->doubted;
        begin(sim, actor);
        return;
    case ANSWER_DOUBT:
    case ANSWER_NONE:
        sim->reached[SIM_INCONCLUSIVE] += actor->probing;
        write_act(sim, actor, releases(sim, actor) ? STORE_RELEASE : doubt(sim, actor));
        return;
    }
}

static void move_exchange(struct sim *sim, struct actor *actor)
{
    if (sim->boot < actor->not_before)
        return;
    bool leaves = sim->mutant == SIM_MUTANT_CANCEL_RELEASES && !actor->probing;
    if (leaves && sim_below(sim, 20) == 0)
        write_act(sim, actor, STORE_RELEASE);
    else if (actor->answer != ANSWER_NONE || sim->boot >= actor->timeout)
        answered(sim, actor);
}

/* No begin, no new token: the doubt's own token judges the request that bears it. */
static void probe_under_own_token(struct sim *sim, struct actor *actor)
{
    actor->probing = true;
    actor->attempt.asked_at = actor->attempt.result.store_now;
    actor->attempt.send_by = sim->boot + LEASE;
    actor->phase = ACTOR_HOLDING;
}

static void stored(struct sim *sim, struct actor *actor)
{
    bool again = false;
    switch (actor->act.kind) {
    case STORE_FINISH:
        sim->reached[SIM_FILLED_IN] +=
            actor->attempt.result.record.unknown == RECORD_UNKNOWN_PARTICIPANT;
        shadow_told(sim, actor->rule, actor->row, actor->act.outcome->body);
        break;
    case STORE_RELEASE_SETTLED:
        again = true;
        actor->attempt.begin.spent = false;
        sim->reached[SIM_SETTLED]++;
        break;
    case STORE_DOUBT:
        again = sim->mutant == SIM_MUTANT_OWN_PROBE && !actor->probing &&
                actor->attempt.begin.unknown == RECORD_UNKNOWN_PROBE;
        break;
    case STORE_DROP:
        sim->reached[SIM_DROP_IN_DOUBT] += actor->attempt.result.record.doubt;
        break;
    default:
        again = sim_below(sim, 2);
    }
    if (again && sim->mutant == SIM_MUTANT_OWN_PROBE && actor->act.kind == STORE_DOUBT)
        probe_under_own_token(sim, actor);
    else if (again && actor->rounds < ROUNDS_MOST)
        begin(sim, actor);
    else
        go_idle(actor);
}

static void give_up_on_error(struct sim *sim, struct actor *actor)
{
    const struct proc *proc = &sim->procs[actor->proc];
    if (proc->errors == actor->errors || !store_withdraw(proc->store, &actor->attempt.op, false))
        return;
    outcome_unref(actor->act.outcome);
    actor->act.outcome = NULL;
    write_act(sim, actor, STORE_RELEASE);
}

/* What a participant stored stays. */
static void count_given_up(struct sim *sim, const struct actor *actor, bool finish)
{
    bool already = sim->participant && actor->attempt.result.write == RECORD_ALREADY;
    bool differs = finish && actor->act.http_status != actor->attempt.result.record.http_status;
    sim->reached[SIM_STATUS_DIFFERED] += already && differs;
    sim->reached[SIM_FILLED_LATE] += already && finish && !differs;
    sim->reached[SIM_FROZEN_BY_OWNER] += already && !finish;
}

/* A stale owner answers what the record says (invariant 12). */
static void stale(struct sim *sim, struct actor *actor)
{
    bool finish = actor->act.kind == STORE_FINISH;
    sim->reached[finish ? SIM_STALE_FINISH : SIM_STALE_OTHER]++;
    count_given_up(sim, actor, finish);
    if (finish && sim->mutant == SIM_MUTANT_STALE_TELLS) {
        shadow_told(sim, actor->rule, actor->row, actor->act.outcome->body);
        go_idle(actor);
        return;
    }
    begin(sim, actor);
}

static void move_writing(struct sim *sim, struct actor *actor)
{
    struct store_op *op = &actor->attempt.op;
    bool finish = actor->act.kind == STORE_FINISH;
    if (!store_op_ended(op)) {
        if (finish && sim->mutant == SIM_MUTANT_ERROR_RELEASES)
            give_up_on_error(sim, actor);
        return;
    }
    sim->reached[SIM_ALREADY] +=
        op->result.status == STORE_DONE && op->result.write == RECORD_ALREADY;
    switch (engine_written(sim->procs[actor->proc].engine, &actor->attempt)) {
    case ENGINE_STORED:
        stored(sim, actor);
        break;
    case ENGINE_ASKS:
        sim->reached[SIM_ASK_AT_ONCE]++;
        hold(sim, actor, true);
        break;
    case ENGINE_STALE:
        stale(sim, actor);
        break;
    case ENGINE_EARLY:
        sim->reached[SIM_EARLY]++;
        go_idle(actor);
        break;
    case ENGINE_LOST:
        go_idle(actor);
        break;
    }
    outcome_unref(actor->act.outcome);
    actor->act.outcome = NULL;
}

static void arrive(struct sim *sim, struct actor *actor)
{
    if (sim_below(sim, 10) != 0)
        return;
    actor->rule = (int)sim_below(sim, SIM_RULES);
    actor->proc = sim_below(sim, SIM_PROCS);
    actor->rounds = 0;
    actor->arrival++;
    actor->effects = 0;
    if (!proc_runs(sim, actor->proc))
        return;
    fill_attempt(sim, actor);
    if (sim_below(sim, 4) == 0)
        begin_by_engine(sim, actor);
    else
        begin(sim, actor);
}

void actor_move(struct sim *sim, size_t at)
{
    struct actor *actor = &sim->actors[at];
    sim_running = sim;
    if (actor->phase != ACTOR_IDLE && !proc_runs(sim, actor->proc)) {
        actor->unwoken_at = 0;
        return;
    }
    switch (actor->phase) {
    case ACTOR_IDLE:
        arrive(sim, actor);
        return;
    case ACTOR_BEGINNING:
        move_beginning(sim, actor);
        return;
    case ACTOR_HOLDING:
        move_holding(sim, actor, at);
        return;
    case ACTOR_EXCHANGE:
        move_exchange(sim, actor);
        return;
    case ACTOR_WRITING:
        move_writing(sim, actor);
        return;
    }
}
