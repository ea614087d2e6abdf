/* SPDX-License-Identifier: Apache-2.0 */
/* Commits that fail in every way: what is retried, what is refused, and what nobody is told. */
#include "store_bed.h"

#include <sched.h>

static void fail_next(struct bed *bed, enum backend_status how)
{
    atomic_store(&hostile_faults(bed->backend)->next_save, how);
}

static void a_commit_that_failed_is_tried_again_and_reported_once(void **state)
{
    struct bed *bed = *state;
    fail_next(bed, BACKEND_BUSY);
    int64_t token = proceed(bed, 1);
    fail_next(bed, BACKEND_BUSY);
    assert_int_equal(finish(bed, 1, token, "x"), RECORD_WRITTEN);
    assert_int_equal(verdict(bed, 1), RECORD_REPLAY);
    assert_int_equal(check_counts(bed), 1);
}

static void a_commit_that_was_done_after_all_gives_no_second_token(void **state)
{
    struct bed *bed = *state;
    fail_next(bed, BACKEND_UNSURE);
    int64_t token = proceed(bed, 1);
    assert_int_equal(look(bed, 1).attempts, 1);
    fail_next(bed, BACKEND_UNSURE);
    assert_int_equal(finish(bed, 1, token, "x"), RECORD_ALREADY);
    assert_int_equal(check_counts(bed), 1);
}

static void step_all(struct bed *bed, struct store_op **ops, size_t n)
{
    for (size_t i = 0; i < n; i++)
        store_submit(bed->store, ops[i]);
    store_step(bed->store);
}

static void without_space_outcomes_wait_replays_go_on_and_begins_are_refused(void **state)
{
    struct bed *bed = *state;
    bed_close(bed);
    bed->config.no_thread = true;
    bed_open(bed);
    struct store_op first = begin_on(1), second = begin_on(2);
    step_all(bed, (struct store_op *[]){&first, &second}, 2);
    struct outcome *outcome = outcome_new(201, false, SLICE(""), SLICE("kept"));
    struct store_op done = write_on(1, STORE_FINISH, first.result.record.token), op = done;
    done.writing.outcome = outcome;
    done.writing.keeps = true;
    step_all(bed, (struct store_op *[]){&done}, 1);
    op.key_hash = second.key_hash;
    op.writing.token = second.result.record.token;
    fail_next(bed, BACKEND_FULL);
    step_all(bed, (struct store_op *[]){&op}, 1);
    assert_false(store_op_ended(&op));
    struct store_op fresh = begin_on(3), replay = begin_on(1);
    step_all(bed, (struct store_op *[]){&fresh, &replay}, 2);
    assert_true(store_op_ended(&fresh) && store_op_ended(&replay));
    assert_int_equal(fresh.result.status, STORE_FULL);
    assert_int_equal(replay.result.verdict, RECORD_REPLAY);
    outcome_unref(replay.result.found);
    assert_false(store_op_ended(&op));
    while (!store_op_ended(&op))
        store_step(bed->store);
    assert_int_equal(op.result.write, RECORD_WRITTEN);
    fresh = begin_on(3);
    store_submit(bed->store, &fresh);
    while (!store_op_ended(&fresh))
        store_step(bed->store);
    assert_int_equal(fresh.result.verdict, RECORD_PROCEED);
    outcome_unref(outcome);
}

#ifdef PAWL_HOOKS
static void a_heartbeat_that_failed_is_repeated_before_the_lease_lapses(void **state)
{
    struct bed *bed = *state, other;
    bed_close(bed);
    int64_t now = clock_wall_us();
    clock_test_set(now, now);
    bed->config.no_thread = true;
    bed_open(bed);
    open_other(bed, &other);
    proceed(bed, 1);
    for (int i = 1; i <= 6; i++) {
        fail_next(bed, i % 2 ? BACKEND_BUSY : BACKEND_FULL);
        now += LEASE * 2 / 3;
        for (int j = 0; j < 3; j++, now += SECOND) {
            clock_test_set(now, now);
            store_step(bed->store);
        }
        assert_int_equal(verdict(&other, 1), RECORD_IN_PROGRESS);
    }
    close_other(&other);
    bed_close(bed);
    clock_test_set(0, 0);
}
#endif

static void under_the_disk_reserve_begins_are_refused_and_outcomes_stored(void **state)
{
    struct bed *bed = *state;
    bed_close(bed);
    bed->config.limits.disk_reserve = 1000;
    struct backend *backend = hostile_toy(NULL);
    atomic_store(&hostile_faults(backend)->space_size, 100000);
    atomic_store(&hostile_faults(backend)->space_free, 1000);
    struct backend *other = hostile_toy(backend);
    bed->backend = backend;
    bed_open(bed);
    int64_t done = proceed(bed, 1), held = proceed(bed, 2);
    finish(bed, 1, done, "x");
    bed_close(bed);
    atomic_store(&hostile_faults(other)->space_size, 100000);
    atomic_store(&hostile_faults(other)->space_free, 999);
    bed->backend = other;
    bed_open(bed);
    struct store_op op = begin_on(3);
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_FULL);
    assert_int_equal(verdict(bed, 1), RECORD_REPLAY);
    assert_int_equal(finish(bed, 2, held, "y"), RECORD_WRITTEN);
}

/* found: D-B15 */
static void a_serve_that_starts_on_a_full_disk_replays_and_begins_once_there_is_space(void **state)
{
    struct bed *bed = *state;
    int64_t done = proceed(bed, 1);
    finish(bed, 1, done, "kept");
    struct backend *backend = hostile_toy(bed->backend);
    bed_close(bed);
    bed->backend = backend;
    bed->config.role = STORE_SERVE;
    bed->config.no_thread = true;
    fail_next(bed, BACKEND_FULL);
    bed_open(bed);
    fail_next(bed, BACKEND_FULL);
    struct store_op replay = begin_on(1), fresh = begin_on(2);
    step_all(bed, (struct store_op *[]){&replay, &fresh}, 2);
    while (!store_op_ended(&replay) || !store_op_ended(&fresh))
        store_step(bed->store);
    assert_int_equal(replay.result.verdict, RECORD_REPLAY);
    outcome_unref(replay.result.found);
    assert_int_equal(fresh.result.status, STORE_FULL);
    while (fresh.result.status == STORE_FULL) {
        fresh = begin_on(2);
        step_all(bed, (struct store_op *[]){&fresh}, 1);
        while (!store_op_ended(&fresh))
            store_step(bed->store);
    }
    assert_int_equal(fresh.result.verdict, RECORD_PROCEED);
}

static void note(void *argument, const char *what)
{
    assert_non_null(what);
    atomic_fetch_add((atomic_int *)argument, 1);
}

static void after_an_io_error_nothing_is_acknowledged_any_more(void **state)
{
    struct bed *bed = *state;
    atomic_int stops = 0;
    bed_close(bed);
    bed->config.fail_stop = note;
    bed->config.fail_stop_argument = &stops;
    bed_open(bed);
    int64_t token = proceed(bed, 1);
    struct store_op waiter = wait_on(1);
    submit(bed, &waiter);
    await_waiting(bed, 1);
    fail_next(bed, BACKEND_FATAL);
    struct store_op op = write_on(1, STORE_FINISH, token);
    run(bed, &op);
    await(bed, &waiter);
    assert_int_equal(op.result.status, STORE_DEAD);
    assert_int_equal(waiter.result.status, STORE_DEAD);
    op = begin_on(1);
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DEAD);
    op = write_on(1, STORE_RELEASE, token);
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DEAD);
    assert_false(store_is_up(bed->store));
    bed_close(bed);
    assert_int_equal(stops, 1);
}

/* The gateway passes nothing by of which a first attempt was seen (`store_down: pass`). */
static void begins_that_end_with_a_lost_file_say_whether_they_waited(void **state)
{
    struct bed *bed = *state;
    bed_close(bed);
    bed->config.no_thread = true;
    bed_open(bed);
    struct store_op first = begin_on(1), waiter = wait_on(1), fresh = begin_on(2);
    step_all(bed, (struct store_op *[]){&first, &waiter}, 2);
    assert_true(waiter.own.waits && !store_op_ended(&waiter));
    fail_next(bed, BACKEND_BUSY);
    struct store_op done = write_on(1, STORE_FINISH, first.result.record.token);
    step_all(bed, (struct store_op *[]){&done, &fresh}, 2);
    atomic_store(&hostile_faults(bed->backend)->gone, true);
    while (!store_op_ended(&waiter))
        store_step(bed->store);
    assert_true(waiter.result.status == STORE_DOWN && waiter.own.waits);
    assert_true(fresh.result.status == STORE_DOWN && !fresh.own.waits);
    atomic_store(&hostile_faults(bed->backend)->gone, false);
    while (!store_op_ended(&done))
        store_step(bed->store);
    assert_int_equal(done.result.write, RECORD_WRITTEN);
}

static void a_store_without_its_file_refuses_begins_and_keeps_outcomes_until_it_is_back(
    void **state)
{
    struct bed *bed = *state;
    bed_close(bed);
    bed->config.limits.timeout_us = 20 * CLOCK_US_PER_MS;
    bed_open(bed);
    int64_t token = proceed(bed, 1);
    atomic_bool *gone = &hostile_faults(bed->backend)->gone;
    atomic_store(gone, true);
    struct store_op op = write_on(1, STORE_FINISH, token);
    submit(bed, &op);
    while (store_is_up(bed->store))
        sched_yield();
    struct store_op begin = begin_on(2);
    run(bed, &begin);
    assert_int_equal(begin.result.status, STORE_DOWN);
    assert_false(store_op_ended(&op));
    atomic_store(gone, false);
    await(bed, &op);
    assert_int_equal(op.result.write, RECORD_WRITTEN);
}

static void what_a_failed_batch_found_is_dropped_when_it_is_withdrawn(void **state)
{
    struct bed *bed = *state;
    bed_close(bed);
    bed->config.no_thread = true;
    bed_open(bed);
    struct store_op first = begin_on(1);
    store_submit(bed->store, &first);
    store_step(bed->store);
    struct outcome *outcome = outcome_new(201, false, SLICE(""), SLICE("x"));
    struct store_op op = write_on(1, STORE_FINISH, first.result.record.token);
    op.writing.outcome = outcome;
    op.writing.keeps = true;
    struct store_op replay = begin_on(1), other = begin_on(1);
    other.arrival.recipe = SLICE("another");
    fail_next(bed, BACKEND_BUSY);
    store_submit(bed->store, &op);
    store_submit(bed->store, &replay);
    store_submit(bed->store, &other);
    store_step(bed->store);
    assert_false(store_op_ended(&replay));
    assert_true(store_withdraw(bed->store, &replay, false));
    assert_true(store_withdraw(bed->store, &other, false));
    assert_null(replay.result.found);
    assert_null(other.result.found_recipe);
    while (!store_op_ended(&op))
        store_step(bed->store);
    outcome_unref(outcome);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        BED_TEST(a_commit_that_failed_is_tried_again_and_reported_once),
        BED_TEST(a_commit_that_was_done_after_all_gives_no_second_token),
        BED_TEST(without_space_outcomes_wait_replays_go_on_and_begins_are_refused),
#ifdef PAWL_HOOKS
        BED_TEST(a_heartbeat_that_failed_is_repeated_before_the_lease_lapses),
#endif
        BED_TEST(a_serve_that_starts_on_a_full_disk_replays_and_begins_once_there_is_space),
        BED_TEST(under_the_disk_reserve_begins_are_refused_and_outcomes_stored),
        BED_TEST(after_an_io_error_nothing_is_acknowledged_any_more),
        BED_TEST(begins_that_end_with_a_lost_file_say_whether_they_waited),
        BED_TEST(a_store_without_its_file_refuses_begins_and_keeps_outcomes_until_it_is_back),
        BED_TEST(what_a_failed_batch_found_is_dropped_when_it_is_withdrawn),
    };
    return bed_run_on(BED_TOY, tests, sizeof tests / sizeof *tests);
}
