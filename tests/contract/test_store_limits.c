/* SPDX-License-Identifier: Apache-2.0 */
/* Limits that change while the store runs, and an operation's own time, on every backend. */
#include "store_bed.h"

#include "base/mem.h"
#include "engine/engine.h"
#include "store/backend.h"
#include "store/committer/op_list.h"
#include <sched.h>

static void configure(struct bed *bed, const struct store_limits *limits)
{
    assert_true(store_make_room(bed->store, limits));
    store_configure(bed->store, limits);
}

static void check_refused(struct bed *bed, uint64_t key)
{
    struct store_op op = wait_on(key);
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_LIMITED);
}

static void more_may_wait_once_the_limits_are_raised(void **state)
{
    struct bed *bed = *state;
    enum { N = 12 };
    static struct store_op waiters[N];
    struct store_limits limits = bed->config.limits;
    limits.max_waiting = 3;
    limits.max_waiting_per_key = 2;
    configure(bed, &limits);
    int64_t token = proceed(bed, 1);
    for (size_t i = 0; i < 2; i++) {
        waiters[i] = wait_on(1);
        submit(bed, &waiters[i]);
    }
    await_waiting(bed, 2);
    check_refused(bed, 1);
    limits.max_waiting = 20000;
    limits.max_waiting_per_key = N;
    configure(bed, &limits);
    for (size_t i = 2; i < N; i++) {
        waiters[i] = wait_on(1);
        submit(bed, &waiters[i]);
    }
    await_waiting(bed, N);
    check_refused(bed, 1);
    finish(bed, 1, token, "done");
    for (size_t i = 0; i < N; i++) {
        await(bed, &waiters[i]);
        assert_int_equal(waiters[i].result.verdict, RECORD_REPLAY);
        outcome_unref(waiters[i].result.found);
    }
}

static void waiters_stay_when_the_limits_are_lowered(void **state)
{
    struct bed *bed = *state;
    int64_t token = proceed(bed, 1);
    struct store_op waiters[3];
    for (size_t i = 0; i < 3; i++) {
        waiters[i] = wait_on(1);
        submit(bed, &waiters[i]);
    }
    await_waiting(bed, 3);
    struct store_limits limits = bed->config.limits;
    limits.max_waiting = 1;
    configure(bed, &limits);
    proceed(bed, 2);
    check_refused(bed, 2);
    finish(bed, 1, token, "done");
    for (size_t i = 0; i < 3; i++) {
        await(bed, &waiters[i]);
        assert_int_equal(waiters[i].result.verdict, RECORD_REPLAY);
        outcome_unref(waiters[i].result.found);
    }
}

static void without_memory_the_limits_stay_as_they_were(void **state)
{
#ifdef PAWL_HOOKS
    struct bed *bed = *state;
    struct store_limits limits = bed->config.limits;
    limits.max_waiting = 1000000;
    limits.max_waiting_per_key = 0;
    mem_fail_nth(1);
    assert_false(store_make_room(bed->store, &limits));
    mem_fail_nth(0);
    proceed(bed, 1);
    struct store_op waiter = wait_on(1);
    submit(bed, &waiter);
    await_waiting(bed, 1);
    assert_true(store_withdraw(bed->store, &waiter, false));
#else
    (void)state;
#endif
}

static void a_new_disk_reserve_and_timeout_hold_from_the_next_look(void **state)
{
    struct bed *bed = *state;
    if (bed->kind != BED_TOY)
        return;
    struct hostile_faults *faults = hostile_faults(bed->backend);
    atomic_store(&faults->space_free, 1000);
    atomic_store(&faults->space_size, 1000000);
    struct store_limits limits = bed->config.limits;
    limits.disk_reserve = 2000;
    configure(bed, &limits);
    struct store_op op;
    uint64_t key = 1;
    do {
        op = begin_on(key++);
        run(bed, &op);
    } while (op.result.status == STORE_DONE);
    assert_int_equal(op.result.status, STORE_FULL);
    limits.disk_reserve = 500;
    configure(bed, &limits);
    do {
        op = begin_on(key++);
        run(bed, &op);
    } while (op.result.status == STORE_FULL);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    limits.timeout_us = 10 * CLOCK_US_PER_MS;
    configure(bed, &limits);
    atomic_store(&faults->gone, true);
    struct store_op done = write_on(key - 1, STORE_RELEASE, op.result.record.token);
    submit(bed, &done);
    while (store_is_up(bed->store))
        sched_yield();
    atomic_store(&faults->gone, false);
    await(bed, &done);
}

static void the_cache_of_an_engine_changes_its_size_while_it_is_used(void **state)
{
    struct bed *bed = *state;
    struct engine *engine = engine_new(bed->store, 0);
    struct attempt attempt = {.rule = SLICE("r"),
                              .key = SLICE("k"),
                              .recipe = SLICE("recipe"),
                              .begin = {.lease_us = LEASE, .ttl_us = TTL}};
    attempt.key_hash = engine_key_hash(engine, attempt.tenant, attempt.rule, attempt.key);
    struct store_op op = begin_on(1);
    op.key_hash = attempt.key_hash;
    run(bed, &op);
    struct outcome *outcome = outcome_new(201, false, SLICE(""), SLICE("done"));
    struct store_op finish = {.kind = STORE_FINISH,
                              .key_hash = attempt.key_hash,
                              .writing.token = op.result.record.token,
                              .writing.final = RECORD_COMPLETE,
                              .writing.http_status = 201,
                              .writing.outcome = outcome,
                              .writing.keeps = true};
    run(bed, &finish);
    outcome_unref(outcome);
    for (int i = 0; i < 4; i++) {
        engine_set_cache(engine, i % 2 ? 65536 : 0);
        for (int j = 0; j < 2; j++) {
            assert_int_equal(engine_begin(engine, &attempt, &bed->parker.parker, CLOCK_NEVER),
                             ENGINE_REPLAY);
            attempt_fini(&attempt);
        }
    }
    engine_free(engine);
}

/* found: D-B12 */
static void an_outcome_that_the_store_cannot_hold_is_reported_as_not_kept(void **state)
{
    struct bed *bed = *state;
    if (bed->kind != BED_TOY)
        return;
    int64_t fitting = proceed(bed, 1), larger = proceed(bed, 2);
    struct outcome *outcome = outcome_new(201, false, SLICE(""), SLICE("a body"));
    bed->backend->outcome_max = outcome_size(outcome);
    struct store_op op = write_on(1, STORE_FINISH, fitting);
    op.writing.outcome = outcome;
    op.writing.keeps = true;
    run(bed, &op);
    assert_true(op.result.kept && op.result.write == RECORD_WRITTEN);
    assert_int_equal(verdict(bed, 1), RECORD_REPLAY);
    bed->backend->outcome_max--;
    op = write_on(2, STORE_FINISH, larger);
    op.writing.outcome = outcome;
    op.writing.keeps = true;
    run(bed, &op);
    assert_true(!op.result.kept && op.result.write == RECORD_WRITTEN);
    assert_int_equal(verdict(bed, 2), RECORD_RESULT_NOT_KEPT);
    outcome_unref(outcome);
}

/* Whose time is over while its operation is being applied, which is then put back. */
struct late {
    struct parker parker; /* first: the two are cast into each other */
    struct store_op *op;
    int n_parks;
};

static bool park_until_late(struct parker *parker, int64_t deadline_us)
{
    struct late *late = (struct late *)parker;
    assert_int_not_equal(deadline_us, CLOCK_NEVER);
    atomic_store(&late->op->own.state, late->n_parks++ == 0 ? OP_TAKEN : OP_QUEUED);
    return false;
}

static void what_is_applied_at_its_deadline_is_taken_back_behind_it(void **state)
{
    struct bed *bed = *state;
    bed_close(bed);
    bed->config.no_thread = true;
    bed_open(bed);
    struct store_op op = begin_on(1);
    struct late late = {.parker.park = park_until_late, .op = &op};
    store_run(bed->store, &op, &late.parker, clock_boot_us());
    assert_int_equal(late.n_parks, 2);
    assert_int_equal(op.result.status, STORE_WITHDRAWN);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        BED_TEST(more_may_wait_once_the_limits_are_raised),
        BED_TEST(waiters_stay_when_the_limits_are_lowered),
        BED_TEST(without_memory_the_limits_stay_as_they_were),
        BED_TEST(an_outcome_that_the_store_cannot_hold_is_reported_as_not_kept),
        BED_TEST(a_new_disk_reserve_and_timeout_hold_from_the_next_look),
        BED_TEST(what_is_applied_at_its_deadline_is_taken_back_behind_it),
        BED_TEST(the_cache_of_an_engine_changes_its_size_while_it_is_used),
    };
    return bed_run(tests, sizeof tests / sizeof *tests);
}
