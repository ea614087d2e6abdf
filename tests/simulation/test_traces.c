/* SPDX-License-Identifier: Apache-2.0 */
/* The model's counterexamples (docs/model, each rule taken away) as fixed traces: what each rule
 * is there to stop, step by step, over the real store and engine. */
#include "sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { HOLD, PROBE }; /* of sim_rules */

#define LEASE (3 * SECOND)
#define TIMEOUT SECOND
#define LATE (2 * SECOND - 100 * MS) /* a request arrives after its owner's timeout */

struct owner {
    struct parker parker; /* first: park gets back from it */
    struct sim *sim;
    size_t proc;
    int rule;
    int unsure; /* so many batches more end unsure, half a lease one after the other */
    struct attempt attempt;
};

static bool park(struct parker *parker, int64_t deadline_us)
{
    struct owner *owner = (struct owner *)parker;
    bool unsure = owner->unsure > 0;
    if (unsure) {
        owner->unsure--;
        atomic_store(&owner->sim->procs[owner->proc].faults->next_save, BACKEND_UNSURE);
    }
    proc_step(owner->sim, owner->proc);
    sim_advance(owner->sim, unsure ? LEASE / 2 : 0);
    return owner->sim->boot < deadline_us;
}

static void wake(struct parker *parker)
{
    (void)parker;
}

static struct owner owner_of(struct sim *sim, size_t proc, int rule)
{
    const struct sim_rule *r = &sim_rules[rule];
    struct owner owner = {.parker = {.park = park, .wake = wake},
                          .sim = sim,
                          .proc = proc,
                          .rule = rule,
                          .attempt = {.key_hash = sim_key(rule),
                                      .tenant = SLICE("t"),
                                      .rule = SLICE("r"),
                                      .key = SLICE("k"),
                                      .recipe = SLICE("v"),
                                      .begin = {.lease_us = LEASE,
                                                .ttl_us = r->ttl,
                                                .settle_us = r->settle,
                                                .unknown = r->unknown}}};
    return owner;
}

static enum engine_verdict begins(struct owner *owner)
{
    struct sim *sim = owner->sim;
    return engine_begin(sim->procs[owner->proc].engine, &owner->attempt, &owner->parker,
                        sim->boot + SECOND);
}

static void sends(struct owner *owner, int64_t delay)
{
    struct sim *sim = owner->sim;
    assert_true(engine_may_send(&owner->attempt));
    sim->flights[0] = (struct flight){.used = true,
                                      .rule = owner->rule,
                                      .row = owner->attempt.result.row,
                                      .token = owner->attempt.token,
                                      .arrive_at = sim->boot + delay};
}

static void passes(struct sim *sim, int64_t duration)
{
    sim_advance(sim, duration);
    upstream_move(sim);
}

static int effects(struct owner *owner)
{
    return life_of(owner->sim, owner->rule, owner->sim->shadow[owner->rule].id)->effects;
}

static enum engine_written writes(struct owner *owner, const struct engine_act *act)
{
    struct sim *sim = owner->sim;
    struct engine *engine = sim->procs[owner->proc].engine;
    engine_write(engine, &owner->attempt, act, &owner->parker);
    assert_true(engine_wait(&owner->attempt, &owner->parker, sim->boot + SECOND));
    return engine_written(engine, &owner->attempt);
}

static enum engine_written doubts(struct owner *owner)
{
    return writes(owner, &(struct engine_act){.kind = STORE_DOUBT});
}

static enum engine_written saw_nothing(struct owner *owner)
{
    return writes(owner, &(struct engine_act){.kind = STORE_RELEASE_SETTLED});
}

static enum engine_written finishes(struct owner *owner, const char *body)
{
    struct outcome *outcome = outcome_new(201, false, SLICE(""), slice_of(body));
    assert_non_null(outcome);
    enum engine_written written = writes(owner, &(struct engine_act){.kind = STORE_FINISH,
                                                                     .final = RECORD_COMPLETE,
                                                                     .http_status = 201,
                                                                     .outcome = outcome});
    outcome_unref(outcome);
    return written;
}

static void replays(struct owner *owner, const char *body)
{
    assert_int_equal(begins(owner), ENGINE_REPLAY);
    struct outcome *found = owner->attempt.result.found;
    assert_true(slice_eq(found->body, slice_of(body)));
    attempt_fini(&owner->attempt);
}

/* Under `token`, as seen when the operator looked. */
static enum record_write operates(struct owner *owner, enum store_op_kind kind, int64_t token)
{
    struct store_op op = {.kind = kind,
                          .key_hash = sim_key(owner->rule),
                          .writing.token = token,
                          .writing.http_status = 201,
                          .parker = &owner->parker};
    if (kind == STORE_RESOLVE)
        op.writing.outcome = outcome_new(201, false, SLICE(""), SLICE("D"));
    store_run(owner->sim->procs[owner->proc].store, &op, &owner->parker, CLOCK_NEVER);
    outcome_unref(op.writing.outcome);
    assert_int_equal(op.result.status, STORE_DONE);
    return op.result.write;
}

static int start(void **state)
{
    *state = sim_new(&(struct sim_config){.seed = 1, .loads = true});
    return 0;
}

static int end(void **state)
{
    sim_free(*state);
    return 0;
}

/* Rule Q under probe. */
static void a_404_before_the_settle_time_releases_nothing(void **state)
{
    struct sim *sim = *state;
    struct owner first = owner_of(sim, 0, PROBE), second = owner_of(sim, 1, PROBE);
    assert_int_equal(begins(&first), ENGINE_PROCEED);
    sends(&first, LATE);
    passes(sim, TIMEOUT);
    assert_int_equal(doubts(&first), ENGINE_STORED);
    assert_int_equal(begins(&second), ENGINE_PROBE);
    assert_int_equal(effects(&second), 0);
    assert_int_equal(saw_nothing(&second), ENGINE_EARLY);
    passes(sim, LATE);
    assert_int_equal(effects(&second), 1);
    assert_int_equal(finishes(&second, "P"), ENGINE_STORED);
    replays(&first, "P");
}

/* Rule Q under hold. */
static void an_operator_who_saw_nothing_is_refused_before_the_settle_time(void **state)
{
    struct sim *sim = *state;
    struct owner owner = owner_of(sim, 0, HOLD);
    assert_int_equal(begins(&owner), ENGINE_PROCEED);
    int64_t token = owner.attempt.token;
    sends(&owner, LATE);
    passes(sim, TIMEOUT);
    assert_int_equal(doubts(&owner), ENGINE_STORED);
    assert_int_equal(effects(&owner), 0);
    assert_int_equal(operates(&owner, STORE_RELEASE_SETTLED, token), RECORD_EARLY);
    assert_int_equal(begins(&owner), ENGINE_OUTCOME_UNKNOWN);
    passes(sim, LATE);
    assert_int_equal(effects(&owner), 1);
    assert_int_equal(operates(&owner, STORE_RESOLVE, token), RECORD_WRITTEN);
    replays(&owner, "D");
}

/* The same look is believed once nothing can be in flight any more. */
static void an_operator_who_saw_nothing_releases_after_the_settle_time(void **state)
{
    struct sim *sim = *state;
    struct owner owner = owner_of(sim, 0, HOLD);
    assert_int_equal(begins(&owner), ENGINE_PROCEED);
    int64_t token = owner.attempt.token;
    assert_int_equal(doubts(&owner), ENGINE_STORED);
    passes(sim, sim_rules[HOLD].settle);
    assert_int_equal(operates(&owner, STORE_RELEASE_SETTLED, token), RECORD_WRITTEN);
    assert_int_equal(begins(&owner), ENGINE_PROCEED);
    assert_true(owner.attempt.token > token);
}

/* Rule S. */
static void an_owner_paused_beyond_its_lease_before_it_sent_sends_nothing(void **state)
{
    struct sim *sim = *state;
    struct owner first = owner_of(sim, 1, PROBE), second = owner_of(sim, 0, PROBE);
    assert_int_equal(begins(&first), ENGINE_PROCEED);
    assert_true(engine_may_send(&first.attempt));
    passes(sim, LEASE + sim_rules[PROBE].settle);
    assert_int_equal(begins(&second), ENGINE_PROBE);
    assert_int_equal(saw_nothing(&second), ENGINE_STORED);
    assert_int_equal(begins(&second), ENGINE_PROCEED);
    sends(&second, MS);
    passes(sim, MS);
    assert_false(engine_may_send(&first.attempt));
    assert_int_equal(effects(&second), 1);
    assert_int_equal(finishes(&second, "E"), ENGINE_STORED);
    replays(&first, "E");
}

static void a_late_answer_settles_an_unknown_record(void **state)
{
    struct sim *sim = *state;
    struct owner first = owner_of(sim, 1, HOLD), second = owner_of(sim, 0, HOLD);
    assert_int_equal(begins(&first), ENGINE_PROCEED);
    sends(&first, MS);
    passes(sim, LEASE + MS);
    assert_int_equal(begins(&second), ENGINE_OUTCOME_UNKNOWN);
    assert_int_equal(finishes(&first, "E"), ENGINE_STORED);
    replays(&second, "E");
}

/* Stale owner. */
static void an_owner_overtaken_by_a_probe_answers_what_the_probe_found(void **state)
{
    struct sim *sim = *state;
    struct owner first = owner_of(sim, 1, PROBE), second = owner_of(sim, 0, PROBE);
    assert_int_equal(begins(&first), ENGINE_PROCEED);
    sends(&first, MS);
    passes(sim, LEASE + MS);
    assert_int_equal(begins(&second), ENGINE_PROBE);
    assert_int_equal(finishes(&first, "E"), ENGINE_STALE);
    assert_int_equal(finishes(&second, "P"), ENGINE_STORED);
    assert_int_equal(finishes(&first, "E"), ENGINE_STALE);
    replays(&first, "P");
}

/* Its process beat meanwhile, so that it holds its lease still: that allows no send. */
static void a_begin_that_was_unsure_for_longer_than_its_lease_sends_nothing(void **state)
{
    struct sim *sim = *state;
    struct owner owner = owner_of(sim, 0, HOLD), other = owner_of(sim, 1, HOLD);
    owner.unsure = 3;
    assert_int_equal(begins(&owner), ENGINE_PROCEED);
    assert_int_equal(begins(&other), ENGINE_IN_PROGRESS);
    assert_false(engine_may_send(&owner.attempt));
}

/* Resolve names its token. */
static void an_operator_s_old_look_settles_no_newer_acquisition(void **state)
{
    struct sim *sim = *state;
    struct owner first = owner_of(sim, 0, PROBE), second = owner_of(sim, 1, PROBE);
    assert_int_equal(begins(&first), ENGINE_PROCEED);
    int64_t seen = first.attempt.token;
    assert_int_equal(doubts(&first), ENGINE_STORED);
    passes(sim, sim_rules[PROBE].settle);
    assert_int_equal(begins(&second), ENGINE_PROBE);
    assert_int_equal(doubts(&second), ENGINE_STORED);
    assert_int_equal(operates(&first, STORE_RELEASE_SETTLED, seen), RECORD_STALE);
    assert_int_equal(operates(&first, STORE_RESOLVE, seen), RECORD_STALE);
    assert_int_equal(begins(&first), ENGINE_PROBE);
}

#define T(name) cmocka_unit_test_setup_teardown(name, start, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_404_before_the_settle_time_releases_nothing),
        T(an_operator_who_saw_nothing_is_refused_before_the_settle_time),
        T(an_operator_who_saw_nothing_releases_after_the_settle_time),
        T(an_owner_paused_beyond_its_lease_before_it_sent_sends_nothing),
        T(a_late_answer_settles_an_unknown_record),
        T(an_owner_overtaken_by_a_probe_answers_what_the_probe_found),
        T(an_operator_s_old_look_settles_no_newer_acquisition),
        T(a_begin_that_was_unsure_for_longer_than_its_lease_sends_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
