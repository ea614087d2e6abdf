/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits, many at once, two processes, and the passing of time, on every backend. */
#include "store_bed.h"

#include "base/check.h"
#include "base/mem.h"

/* ---- waiting ---- */

static void a_waiter_is_woken_by_the_outcome_and_replays_it(void **state)
{
    struct bed *bed = *state;
    int64_t token = proceed(bed, 1);
    struct store_op waiter = wait_on(1);
    submit(bed, &waiter);
    await_waiting(bed, 1);
    assert_false(store_op_ended(&waiter));
    finish(bed, 1, token, "done");
    await(bed, &waiter);
    assert_int_equal(waiter.result.verdict, RECORD_REPLAY);
    assert_true(slice_eq(waiter.result.found->body, SLICE("done")));
    outcome_unref(waiter.result.found);
    assert_int_equal(store_counts(bed->store).waiting, 0);
}

static void a_thousand_waiters_replay_one_outcome(void **state)
{
    struct bed *bed = *state;
    enum { N = 1000 };
    struct store_op *waiters = mem_zalloc(N, sizeof *waiters);
    assert_non_null(waiters);
    int64_t token = proceed(bed, 1);
    for (size_t i = 0; i < N; i++) {
        waiters[i] = wait_on(1);
        submit(bed, &waiters[i]);
    }
    await_waiting(bed, N);
    finish(bed, 1, token, "done");
    for (size_t i = 0; i < N; i++) {
        await(bed, &waiters[i]);
        assert_int_equal(waiters[i].result.verdict, RECORD_REPLAY);
        outcome_unref(waiters[i].result.found);
    }
    mem_free(waiters);
}

static void after_a_release_the_oldest_waiter_proceeds_and_the_others_wait_on(void **state)
{
    struct bed *bed = *state;
    int64_t token = proceed(bed, 1);
    struct store_op waiters[3];
    for (size_t i = 0; i < 3; i++) {
        waiters[i] = wait_on(1);
        submit(bed, &waiters[i]);
        await_waiting(bed, i + 1);
    }
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(act(bed, 1, STORE_RELEASE, token), RECORD_WRITTEN);
        await(bed, &waiters[i]);
        assert_int_equal(waiters[i].result.verdict, RECORD_PROCEED);
        token = waiters[i].result.record.token;
        await_waiting(bed, 2 - i);
    }
}

static void a_newcomer_in_the_same_batch_does_not_overtake_a_waiter(void **state)
{
    struct bed *bed = *state;
    bed_close(bed);
    bed->config.no_thread = true;
    bed_open(bed);
    struct store_op first = begin_on(1), waiter = wait_on(1), newcomer = wait_on(1);
    store_submit(bed->store, &first);
    store_submit(bed->store, &waiter);
    store_step(bed->store);
    struct store_op release = write_on(1, STORE_RELEASE, first.result.record.token);
    store_submit(bed->store, &release);
    store_submit(bed->store, &newcomer);
    while (store_step(bed->store))
        continue;
    assert_true(store_op_ended(&waiter));
    assert_int_equal(waiter.result.verdict, RECORD_PROCEED);
    assert_false(store_op_ended(&newcomer));
    bed_close(bed);
    assert_int_equal(newcomer.result.verdict, RECORD_IN_PROGRESS);
}

static void doubt_ends_the_waiters_as_unknown(void **state)
{
    struct bed *bed = *state;
    int64_t token = proceed(bed, 1);
    struct store_op waiter = wait_on(1);
    submit(bed, &waiter);
    await_waiting(bed, 1);
    act(bed, 1, STORE_DOUBT, token);
    await(bed, &waiter);
    assert_int_equal(waiter.result.verdict, RECORD_OUTCOME_UNKNOWN);
}

static void a_forget_lets_the_oldest_waiter_proceed(void **state)
{
    struct bed *bed = *state;
    int64_t token = proceed(bed, 1);
    struct store_op waiter = wait_on(1);
    submit(bed, &waiter);
    await_waiting(bed, 1);
    struct store_op forget = write_on(1, STORE_FORGET, token);
    forget.writing.force = true;
    run(bed, &forget);
    await(bed, &waiter);
    assert_int_equal(waiter.result.verdict, RECORD_PROCEED);
}

static void a_waiter_whose_own_time_is_over_is_in_progress(void **state)
{
    struct bed *bed = *state;
    proceed(bed, 1);
    struct store_op waiter = begin_on(1);
    waiter.arrival.wait_until = clock_boot_us() + 20 * CLOCK_US_PER_MS;
    run(bed, &waiter);
    assert_int_equal(waiter.result.verdict, RECORD_IN_PROGRESS);
    assert_true(clock_boot_us() >= waiter.arrival.wait_until);
    assert_int_equal(store_counts(bed->store).waiting, 0);
}

static void waiters_are_limited_for_a_key_and_in_all(void **state)
{
    struct bed *bed = *state;
    bed_close(bed);
    bed->config.limits.max_waiting = 3;
    bed->config.limits.max_waiting_per_key = 2;
    bed_open(bed);
    proceed(bed, 1);
    proceed(bed, 2);
    struct store_op waiters[5] = {wait_on(1), wait_on(1), wait_on(1), wait_on(2), wait_on(2)};
    for (size_t i = 0; i < 5; i++)
        submit(bed, &waiters[i]);
    await(bed, &waiters[2]);
    await(bed, &waiters[4]);
    assert_int_equal(waiters[2].result.status, STORE_LIMITED);
    assert_int_equal(waiters[4].result.status, STORE_LIMITED);
    await_waiting(bed, 3);
    bed_close(bed);
    assert_int_equal(waiters[0].result.verdict, RECORD_IN_PROGRESS);
    assert_int_equal(waiters[3].result.verdict, RECORD_IN_PROGRESS);
}

static void a_full_queue_refuses_begins_but_never_outcomes(void **state)
{
    struct bed *bed = *state;
    bed_close(bed);
    bed->config.no_thread = true;
    bed->config.max_queued = 2;
    bed_open(bed);
    struct store_op begins[3] = {begin_on(1), begin_on(2), begin_on(3)};
    for (size_t i = 0; i < 3; i++)
        store_submit(bed->store, &begins[i]);
    assert_true(store_op_ended(&begins[2]));
    assert_int_equal(begins[2].result.status, STORE_LIMITED);
    struct store_op outcome = write_on(9, STORE_FINISH, 1);
    store_submit(bed->store, &outcome);
    assert_false(store_op_ended(&outcome));
    store_step(bed->store);
    assert_int_equal(outcome.result.write, RECORD_STALE);
    assert_int_equal(begins[1].result.verdict, RECORD_PROCEED);
}

static void what_is_queued_or_waits_can_be_withdrawn_and_was_not_applied(void **state)
{
    struct bed *bed = *state;
    bed_close(bed);
    bed->config.no_thread = true;
    bed_open(bed);
    struct store_op queued = begin_on(1);
    store_submit(bed->store, &queued);
    assert_true(store_withdraw(bed->store, &queued, false));
    assert_int_equal(queued.result.status, STORE_WITHDRAWN);
    struct store_op first = begin_on(1), waiter = wait_on(1);
    store_submit(bed->store, &first);
    store_submit(bed->store, &waiter);
    store_step(bed->store);
    assert_int_equal(first.result.verdict, RECORD_PROCEED);
    assert_int_equal(store_counts(bed->store).waiting, 1);
    assert_true(store_withdraw(bed->store, &waiter, false));
    assert_int_equal(store_counts(bed->store).waiting, 0);
    assert_false(store_withdraw(bed->store, &waiter, false));
    assert_false(store_withdraw(bed->store, &first, false));
}

static void close_ends_waiters_as_in_progress(void **state)
{
    struct bed *bed = *state;
    proceed(bed, 1);
    struct store_op waiter = wait_on(1);
    submit(bed, &waiter);
    await_waiting(bed, 1);
    bed_close(bed);
    assert_int_equal(waiter.result.status, STORE_DONE);
    assert_int_equal(waiter.result.verdict, RECORD_IN_PROGRESS);
}

/* ---- many at once ---- */

struct racer {
    struct thread thread;
    struct bed *bed;
    struct thread_parker parker;
    struct store_op op;
    bool proceeded;
};

static void race(void *argument)
{
    struct racer *racer = argument;
    struct store *store = racer->bed->store;
    racer->op = wait_on(1);
    store_run(store, &racer->op, &racer->parker.parker, CLOCK_NEVER);
    racer->proceeded = racer->op.result.verdict == RECORD_PROCEED;
    if (!racer->proceeded)
        return;
    struct outcome *outcome = outcome_new(200, false, SLICE(""), SLICE("one"));
    int64_t token = racer->op.result.record.token;
    racer->op = write_on(1, STORE_FINISH, token);
    racer->op.writing.outcome = outcome;
    racer->op.writing.http_status = 200;
    racer->op.writing.keeps = true;
    store_run(store, &racer->op, &racer->parker.parker, CLOCK_NEVER);
    outcome_unref(outcome);
}

static void of_a_hundred_threads_on_one_key_exactly_one_proceeds(void **state)
{
    struct bed *bed = *state;
    enum { N = 100 };
    struct racer *racers = mem_zalloc(N, sizeof *racers);
    assert_non_null(racers);
    for (size_t i = 0; i < N; i++) {
        racers[i].bed = bed;
        thread_parker_init(&racers[i].parker);
        assert_true(thread_start(&racers[i].thread, "racer", race, &racers[i]));
    }
    size_t proceeded = 0;
    for (size_t i = 0; i < N; i++) {
        thread_join(&racers[i].thread);
        proceeded += racers[i].proceeded;
        if (!racers[i].proceeded) {
            assert_int_equal(racers[i].op.result.verdict, RECORD_REPLAY);
            assert_true(slice_eq(racers[i].op.result.found->body, SLICE("one")));
            outcome_unref(racers[i].op.result.found);
        }
    }
    assert_int_equal(proceeded, 1);
    bed_close(bed);
    for (size_t i = 0; i < N; i++)
        thread_parker_fini(&racers[i].parker);
    mem_free(racers);
}

struct looker {
    struct thread thread;
    struct store *store;
};

/* Its parker is on its stack, and gone with each operation: a store that woke it then would write
 * into what came after it. */
static void look_often(void *argument)
{
    struct looker *looker = argument;
    for (uint64_t i = 0; i < 200; i++) {
        struct thread_parker own;
        struct store_op op = {.kind = STORE_LOOK, .key_hash = key_of(i)};
        thread_parker_init(&own);
        store_run(looker->store, &op, &own.parker, i % 3 ? CLOCK_NEVER : clock_boot_us() + 50);
        CHECK(op.result.status == STORE_DONE || op.result.status == STORE_WITHDRAWN);
        thread_parker_fini(&own);
        memset(&own, 0xff, sizeof own);
        memset(&op, 0xff, sizeof op);
    }
}

static void threads_that_wait_on_their_own_stacks_are_never_woken_after_they_went_on(void **state)
{
    struct bed *bed = *state;
    enum { N = 16 };
    struct looker lookers[N];
    for (size_t i = 0; i < N; i++) {
        lookers[i].store = bed->store;
        assert_true(thread_start(&lookers[i].thread, "looker", look_often, &lookers[i]));
    }
    for (size_t i = 0; i < N; i++)
        thread_join(&lookers[i].thread);
}

static void what_is_queued_together_is_committed_together(void **state)
{
    struct bed *bed = *state;
    bed_close(bed);
    bed->config.no_thread = true;
    bed_open(bed);
    enum { N = 100 };
    struct store_op *ops = mem_zalloc(N, sizeof *ops);
    assert_non_null(ops);
    for (uint64_t i = 0; i < N; i++) {
        ops[i] = begin_on(i);
        store_submit(bed->store, &ops[i]);
    }
    uint64_t before = bed->backend ? hostile_faults(bed->backend)->commits : 0;
    assert_true(store_step(bed->store));
    for (size_t i = 0; i < N; i++) {
        assert_true(store_op_ended(&ops[i]));
        assert_int_equal(ops[i].result.verdict, RECORD_PROCEED);
        assert_true(i == 0 || ops[i].result.record.token > ops[i - 1].result.record.token);
    }
    if (bed->backend)
        assert_int_equal(hostile_faults(bed->backend)->commits, before + 1);
    mem_free(ops);
}

static void the_kept_counts_are_those_of_a_scan_after_any_acts(void **state)
{
    struct bed *bed = *state;
    uint64_t random = 12345;
    int64_t tokens[16] = {0};
    for (int i = 0; i < 600; i++) {
        random = random * 6364136223846793005U + 1442695040888963407U;
        uint64_t key = random >> 60;
        int kind = (int)(random >> 40) % (STORE_FORGET + 1);
        struct store_op op = kind == STORE_BEGIN
                                 ? begin_on(key)
                                 : write_on(key, (enum store_op_kind)kind, tokens[key]);
        if (kind != STORE_BEGIN)
            op.writing.force = (random >> 33) % 2;
        run(bed, &op);
        outcome_unref(op.result.found);
        assert_int_equal(op.result.status, STORE_DONE);
        tokens[key] = op.result.record.status == RECORD_ABSENT ? 0 : op.result.record.token;
        if (i % 20 == 0)
            check_counts(bed);
    }
    assert_true(check_counts(bed) > 0);
}

/* ---- time ---- */

#ifdef PAWL_HOOKS
static void set_clock(int64_t now)
{
    clock_test_set(now, now);
}

/* The clock stands, and the store is stepped: no batch is under way when the clock moves. */
static int64_t stop_clock(struct bed *bed)
{
    bed_close(bed);
    int64_t now = clock_wall_us();
    set_clock(now);
    bed->config.no_thread = true;
    bed_open(bed);
    return now;
}

static void let_clock_go(struct bed *bed)
{
    bed_close(bed);
    set_clock(0);
}

static void a_response_expires_then_its_tombstone_then_a_new_life_begins(void **state)
{
    struct bed *bed = *state;
    int64_t now = stop_clock(bed);
    struct store_op op = begin_on(1);
    op.begin.tombstone_us = SECOND;
    run(bed, &op);
    finish(bed, 1, op.result.record.token, "x");
    set_clock(now + TTL - 1);
    assert_int_equal(verdict(bed, 1), RECORD_REPLAY);
    set_clock(now + TTL);
    for (int i = 0; i < 3; i++, set_clock(now + TTL + SECOND - 1))
        assert_int_equal(verdict(bed, 1), RECORD_RESULT_EXPIRED);
    assert_int_equal(store_counts(bed->store).complete, 1);
    set_clock(now + TTL + SECOND);
    assert_int_equal(verdict(bed, 1), RECORD_PROCEED);
    assert_int_equal(look(bed, 1).attempts, 1);
    assert_int_equal(check_counts(bed), 1);
    let_clock_go(bed);
}

/* A begin that proceeds: when that was. */
static int64_t begun_at(struct bed *bed, uint64_t key)
{
    struct store_op op = begin_on(key);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    return op.result.store_now;
}

static void a_wall_clock_set_back_neither_freezes_nor_reverses_store_time(void **state)
{
    struct bed *bed = *state;
    if (bed->kind == BED_POSTGRES) /* time is the server's */
        return;
    int64_t now = stop_clock(bed);
    int64_t token = proceed(bed, 1);
    act(bed, 1, STORE_RELEASE, token);
    clock_test_set(now - 10 * TTL, now + 1);
    assert_int_equal(begun_at(bed, 1), now + 1);
    assert_true(look(bed, 1).token > token);
    clock_test_set(now - 10 * TTL, now + TTL);
    assert_int_equal(begun_at(bed, 2), now + TTL);
    assert_true(store_now(bed->store) >= now + TTL);
    let_clock_go(bed);
}

static void the_sweep_removes_in_slices_and_keeps_the_counts(void **state)
{
    struct bed *bed = *state;
    int64_t now = stop_clock(bed);
    enum { N = 200 };
    struct store_op *ops = mem_zalloc(N, sizeof *ops);
    for (uint64_t i = 0; i < N; i++) {
        ops[i] = begin_on(i);
        store_submit(bed->store, &ops[i]);
    }
    store_step(bed->store);
    for (uint64_t i = 0; i < N; i++) {
        int64_t token = ops[i].result.record.token;
        enum store_op_kind kind = i % 4 == 1 ? STORE_RELEASE : STORE_FINISH;
        ops[i] = write_on(i, i % 4 == 0 ? STORE_DOUBT : kind, token);
        ops[i].writing.final = i % 4 == 2 ? RECORD_FAILED : RECORD_COMPLETE;
        store_submit(bed->store, &ops[i]);
    }
    store_step(bed->store);
    set_clock(now + TTL);
    int64_t left = N, steps = 0;
    while (store_step(bed->store)) {
        struct store_counts counts = store_counts(bed->store);
        int64_t n =
            counts.pending + counts.released + counts.complete + counts.failed + counts.unknown;
        assert_true(left - n <= 64);
        left = n;
        steps++;
    }
    assert_int_equal(left, N / 4);
    assert_int_equal(store_counts(bed->store).unknown, N / 4);
    assert_true(steps >= 3);
    mem_free(ops);
    let_clock_go(bed);
}

static void the_heartbeat_keeps_a_lease_alive_in_the_eyes_of_another_process(void **state)
{
    struct bed *bed = *state, other;
    int64_t now = stop_clock(bed);
    open_other(bed, &other);
    struct store_op op = begin_on(1);
    store_submit(bed->store, &op);
    store_step(bed->store);
    for (int i = 1; i <= 9; i++) {
        set_clock(now + i * LEASE / 3);
        store_step(bed->store);
        assert_int_equal(verdict(&other, 1), RECORD_IN_PROGRESS);
    }
    set_clock(now + 3 * LEASE + LEASE);
    assert_int_equal(verdict(&other, 1), RECORD_OUTCOME_UNKNOWN);
    close_other(&other);
    let_clock_go(bed);
}

static void a_forget_uses_up_a_token(void **state)
{
    struct bed *bed = *state;
    stop_clock(bed);
    int64_t token = proceed(bed, 1);
    struct store_op forget = write_on(1, STORE_FORGET, token);
    forget.writing.force = true;
    run(bed, &forget);
    assert_true(proceed(bed, 1) > token + 1);
    let_clock_go(bed);
}

static void store_time_goes_on_in_a_process_that_starts_while_the_wall_clock_is_behind(void **state)
{
    struct bed *bed = *state, other;
    if (bed->kind == BED_POSTGRES) /* time is the server's */
        return;
    int64_t now = stop_clock(bed);
    int64_t token = proceed(bed, 1);
    act(bed, 1, STORE_RELEASE, token);
    clock_test_set(now - 10 * TTL, now + TTL / 2);
    open_other(bed, &other);
    assert_int_equal(begun_at(&other, 2), now + TTL / 2);
    assert_int_equal(begun_at(bed, 3), now + TTL / 2);
    close_other(&other);
    let_clock_go(bed);
}
#endif

static void two_processes_on_one_store_see_each_other_s_writes(void **state)
{
    struct bed *bed = *state, other;
    open_other(bed, &other);
    int64_t token = proceed(bed, 1);
    assert_int_equal(verdict(&other, 1), RECORD_IN_PROGRESS);
    struct store_op waiter = wait_on(1);
    submit(&other, &waiter);
    await_waiting(&other, 1);
    finish(bed, 1, token, "there");
    await(&other, &waiter);
    assert_int_equal(waiter.result.verdict, RECORD_REPLAY);
    assert_true(slice_eq(waiter.result.found->body, SLICE("there")));
    outcome_unref(waiter.result.found);
    assert_true(proceed(&other, 2) > token);
    assert_int_equal(check_counts(&other), 2);
    close_other(&other);
    assert_int_equal(check_counts(bed), 2);
}

/* ---- who is woken ---- */

struct counting_parker {
    struct parker parker; /* first: the two are cast into each other */
    atomic_int wakes;
};

static void count_wake(struct parker *parker)
{
    atomic_fetch_add(&((struct counting_parker *)parker)->wakes, 1);
}

/* The owner sees the end before it is woken, and its wrapping parker is gone by then: the wake goes
 * to the one behind it all the same. */
static void a_wrapping_parker_need_not_outlive_its_operation(void **state)
{
    struct bed *bed = *state;
    struct counting_parker behind = {.parker = {.wake = count_wake}};
    struct counting_parker late = {.parker = {.wake = count_wake}};
    const int n = bed->kind == BED_POSTGRES ? 300 : 30000; /* round trips */
    for (int i = 1; i <= n; i++) {
        struct parker wrapper = {.wake = count_wake, .waker = &behind.parker};
        struct store_op op = {.kind = STORE_LOOK, .key_hash = key_of(1), .parker = &wrapper};
        store_submit(bed->store, &op);
        while (!store_op_ended(&op))
            ;
        __atomic_store_n(&wrapper.waker, &late.parker, __ATOMIC_RELAXED);
        while (atomic_load(&behind.wakes) + atomic_load(&late.wakes) < i)
            ;
    }
    assert_int_equal(atomic_load(&late.wakes), 0);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        BED_TEST(a_wrapping_parker_need_not_outlive_its_operation),
        BED_TEST(a_waiter_is_woken_by_the_outcome_and_replays_it),
        BED_TEST(a_thousand_waiters_replay_one_outcome),
        BED_TEST(after_a_release_the_oldest_waiter_proceeds_and_the_others_wait_on),
        BED_TEST(a_newcomer_in_the_same_batch_does_not_overtake_a_waiter),
        BED_TEST(doubt_ends_the_waiters_as_unknown),
        BED_TEST(a_forget_lets_the_oldest_waiter_proceed),
        BED_TEST(a_waiter_whose_own_time_is_over_is_in_progress),
        BED_TEST(waiters_are_limited_for_a_key_and_in_all),
        BED_TEST(a_full_queue_refuses_begins_but_never_outcomes),
        BED_TEST(what_is_queued_or_waits_can_be_withdrawn_and_was_not_applied),
        BED_TEST(close_ends_waiters_as_in_progress),
        BED_TEST(of_a_hundred_threads_on_one_key_exactly_one_proceeds),
        BED_TEST(threads_that_wait_on_their_own_stacks_are_never_woken_after_they_went_on),
        BED_TEST(what_is_queued_together_is_committed_together),
        BED_TEST(the_kept_counts_are_those_of_a_scan_after_any_acts),
        BED_TEST(two_processes_on_one_store_see_each_other_s_writes),
#ifdef PAWL_HOOKS
        BED_TEST(a_response_expires_then_its_tombstone_then_a_new_life_begins),
        BED_TEST(a_wall_clock_set_back_neither_freezes_nor_reverses_store_time),
        BED_TEST(a_forget_uses_up_a_token),
        BED_TEST(store_time_goes_on_in_a_process_that_starts_while_the_wall_clock_is_behind),
        BED_TEST(the_sweep_removes_in_slices_and_keeps_the_counts),
        BED_TEST(the_heartbeat_keeps_a_lease_alive_in_the_eyes_of_another_process),
#endif
    };
    return bed_run_in_peace(tests, sizeof tests / sizeof *tests);
}
