/* SPDX-License-Identifier: Apache-2.0 */
/* What a store tells of itself to whoever watches it, on every backend. Stepped by hand under a
 * clock of its own. */
#include "store_bed.h"

#include "base/buf.h"
#include "base/mem.h"

#ifdef PAWL_HOOKS
static int64_t now;

static void set_clock(int64_t to)
{
    now = to;
    clock_test_set(now, now);
}

static void open_by_hand(struct bed *bed)
{
    set_clock(clock_wall_us());
    bed->config.no_thread = true;
    bed_open(bed);
}

static int set_up(void **state)
{
    int failed = bed_set_up_closed(state);
    open_by_hand(*state);
    return failed;
}

static struct store_counts counts_after(struct bed *bed, int64_t span_us)
{
    set_clock(now + span_us);
    while (store_step(bed->store))
        ;
    return store_counts(bed->store);
}

static void the_gauge_of_unknown_records_is_the_time_of_the_oldest(void **state)
{
    struct bed *bed = *state;
    assert_int_equal(counts_after(bed, 6 * SECOND).unknown_oldest, 0);
    int64_t tokens[2], since[2];
    for (uint64_t key = 0; key < 2; key++) {
        struct store_op op = begin_on(key);
        op.begin.settle_us = (int64_t)(2 - key) * TTL;
        run(bed, &op);
        tokens[key] = op.result.record.token;
        set_clock(now + SECOND);
        since[key] = now;
        act(bed, key, STORE_DOUBT, tokens[key]);
    }
    assert_int_equal(counts_after(bed, 6 * SECOND).unknown_oldest, since[0]);
    finish(bed, 0, tokens[0], "late");
    assert_int_equal(counts_after(bed, 6 * SECOND).unknown_oldest, since[1]);
    finish(bed, 1, tokens[1], "late");
    assert_int_equal(counts_after(bed, 6 * SECOND).unknown_oldest, 0);
}

/* found: that batch looks at no gauge, and all were 0 until the next look */
static void a_batch_that_says_that_the_store_went_back_leaves_the_gauges(void **state)
{
    struct bed *bed = *state;
    if (bed->kind != BED_TOY)
        return;
    act(bed, 1, STORE_DOUBT, proceed(bed, 1));
    int64_t since = counts_after(bed, 6 * SECOND).unknown_oldest;
    assert_true(since > 0);
    bed->backend->back =
        (struct backend_back){.times = 1, .incidents = 1, .since = now, .seen_at = now};
    (void)look(bed, 1);
    bed->backend->back.untold = true;
    (void)look(bed, 1);
    struct store_counts counts = counts_after(bed, 0);
    assert_int_equal(counts.went_back, 1);
    assert_true(store_terms(bed->store).went_back_at > 0);
    assert_int_equal(counts.unknown_oldest, since);
}

static void leases_that_lapsed_are_counted_and_live_ones_are_not(void **state)
{
    struct bed *bed = *state, other;
    open_other(bed, &other);
    for (uint64_t key = 0; key < 3; key++)
        proceed(&other, key);
    close_other(&other);
    set_clock(now + LEASE / 2);
    open_other(bed, &other);
    proceed(&other, 3);
    close_other(&other);
    proceed(bed, 4);
    assert_int_equal(counts_after(bed, LEASE / 2 - SECOND).stale, 0);
    assert_int_equal(counts_after(bed, 6 * SECOND).stale, 3);
    assert_int_equal(verdict(bed, 1), RECORD_OUTCOME_UNKNOWN);
    assert_int_equal(counts_after(bed, 6 * SECOND).stale, 2);
    assert_int_equal(counts_after(bed, LEASE).stale, 3);
}

/* found: C-M6 */
static void released_records_are_counted_apart_from_running_ones(void **state)
{
    struct bed *bed = *state;
    int64_t first = proceed(bed, 1), second = proceed(bed, 2);
    proceed(bed, 3);
    act(bed, 1, STORE_RELEASE, first);
    assert_int_equal(store_counts(bed->store).released, 1);
    assert_int_equal(store_counts(bed->store).pending, 2);
    act(bed, 2, STORE_RELEASE, second);
    assert_int_equal(store_counts(bed->store).released, 2);
    finish(bed, 2, second, "late");
    proceed(bed, 1);
    assert_int_equal(store_counts(bed->store).released, 0);
    assert_int_equal(check_counts(bed), 3);
    act(bed, 1, STORE_RELEASE, look(bed, 1).token);
    assert_int_equal(counts_after(bed, TTL + SECOND).released, 0);
    assert_int_equal(store_counts(bed->store).pending, 1);
}

/* found: C-C3 */
static void a_store_low_on_space_is_not_up_and_says_why_and_replays_go_on(void **state)
{
    struct bed *bed = *state;
    if (bed->kind != BED_TOY)
        return;
    finish(bed, 1, proceed(bed, 1), "kept");
    struct hostile_faults *faults = hostile_faults(bed->backend);
    atomic_store(&faults->space_size, 1000000);
    atomic_store(&faults->space_free, 99999);
    struct store_counts counts = counts_after(bed, SECOND);
    assert_int_equal(counts.disk_reserve, 100000);
    assert_false(store_is_up(bed->store));
    struct buf why BUF_AUTO = buf_make(512);
    store_problem(bed->store, &why);
    buf_add(&why, "", 1);
    assert_non_null(strstr(why.at, "99999 bytes are free"));
    assert_int_equal(verdict(bed, 1), RECORD_REPLAY);
    atomic_store(&faults->space_free, 100000);
    counts_after(bed, SECOND);
    assert_true(store_is_up(bed->store));
}

/* found: C-C3 */
static void a_store_whose_writes_found_no_space_is_not_up_until_one_does(void **state)
{
    struct bed *bed = *state;
    if (bed->kind != BED_TOY)
        return;
    int64_t token = proceed(bed, 1);
    atomic_store(&hostile_faults(bed->backend)->next_save, BACKEND_FULL);
    struct store_op op = write_on(1, STORE_RELEASE, token);
    submit(bed, &op);
    store_step(bed->store);
    assert_false(store_is_up(bed->store));
    set_clock(now + SECOND);
    await(bed, &op);
    assert_true(store_is_up(bed->store));
}

static void what_is_past_its_time_and_still_there_is_counted(void **state)
{
    struct bed *bed = *state;
    enum { N = 3 * 256 };
    assert_int_equal(counts_after(bed, 6 * SECOND).expired, 0);
    int64_t first = now + TTL;
    for (uint64_t key = 0; key < N; key++)
        finish(bed, key, proceed(bed, key), "kept");
    act(bed, N, STORE_RELEASE, proceed(bed, N));
    set_clock(now + TTL + 6 * SECOND);
    store_step(bed->store);
    struct store_counts counts = store_counts(bed->store);
    assert_in_range(counts.expired, 1, N);
    assert_int_equal(counts.expired, counts.complete + counts.released);
    assert_int_equal(counts.expired_oldest, first);
    counts_after(bed, SECOND);
    counts = counts_after(bed, 6 * SECOND);
    assert_int_equal(counts.expired, 0);
    assert_int_equal(counts.expired_oldest, 0);
}

/* found: D-B16 */
static void a_wall_clock_past_2200_is_not_believed_and_that_is_said(void **state)
{
    struct bed *bed = *state;
    if (bed->kind != BED_SQLITE) /* the toy has a clock of its own */
        return;
    int64_t token = proceed(bed, 1);
    assert_false(store_counts(bed->store).clock_refused);
    clock_test_set((INT64_C(1) << 53) + SECOND, now += SECOND);
    finish(bed, 1, token, "kept");
    assert_in_range(proceed(bed, 2), token + 1, now + SECOND);
    assert_true(store_counts(bed->store).clock_refused);
    assert_true(store_now(bed->store) <= now + SECOND);
    set_clock(now + SECOND);
    assert_in_range(proceed(bed, 3), token + 2, now + SECOND);
    assert_false(store_counts(bed->store).clock_refused);
    assert_int_equal(verdict(bed, 1), RECORD_REPLAY);
}

/* found: D-B16 */
static void a_store_whose_mark_is_past_2200_is_refused_with_a_way_out(void **state)
{
    struct bed *bed = *state;
    if (bed->kind != BED_SQLITE)
        return;
    finish(bed, 1, proceed(bed, 1), "kept");
    bed_close(bed);
    bed_exec(bed, "UPDATE pawl_state SET time = 9007199254740993");
    enum store_open_result result;
    char *problem MEM_AUTO = bed_refusal(bed, &result);
    assert_int_equal(result, STORE_OPEN_FAILED);
    assert_non_null(strstr(problem, "The clock was wrong"));
    bed_exec(bed, "UPDATE pawl_state SET time_boot = 0, boot_id = 0,"
                  " time = CAST(strftime('%s', 'now') AS INTEGER) * 1000000");
    bed_open(bed);
    assert_int_equal(verdict(bed, 1), RECORD_REPLAY);
    proceed(bed, 2);
}

/* found: D-P7 */
static void a_wall_clock_that_jumps_far_ahead_is_reported_once(void **state)
{
    struct bed *bed = *state;
    if (bed->kind != BED_SQLITE) /* the toy has a clock of its own */
        return;
    proceed(bed, 1);
    counts_after(bed, SECOND);
    int64_t boot = now;
    for (int i = 0; i < 3; i++, boot += SECOND) {
        clock_test_set(now + 30 * 86400 * SECOND, boot);
        look(bed, 1);
        proceed(bed, 10 + (uint64_t)i);
    }
    struct store_counts counts = store_counts(bed->store);
    assert_int_equal(counts.clock_jumps, 1);
    assert_in_range(counts.clock_jump_us, 29 * 86400 * SECOND, 31 * 86400 * SECOND);
}

/* found: D-B14 */
static void an_idle_store_writes_nothing_whatever_it_and_others_hold(void **state)
{
    struct bed *bed = *state, other;
    open_other(bed, &other);
    proceed(&other, 9);
    struct store_op op = begin_on(1);
    op.begin.lease_us = 150 * CLOCK_US_PER_MS;
    run(bed, &op);
    act(bed, 1, STORE_RELEASE, op.result.record.token);
    finish(bed, 2, proceed(bed, 2), "kept");
    counts_after(bed, LEASE);
    uint64_t before = store_counts(bed->store).work.batches;
    for (int i = 0; i < 20; i++)
        assert_int_equal(counts_after(bed, LEASE / 10).work.batches, before);
    proceed(bed, 3);
    for (int i = 0; i < 20; i++)
        counts_after(bed, LEASE / 10);
    assert_in_range(store_counts(bed->store).work.batches, before + 5, before + 8);
    close_other(&other);
}

enum { FULL_PAIRS = 128, FULL_ROUNDS = 100 };
#define FULL_LIFE RECORD_ROW_LEAST_US /* of a row: no shorter one is swept */

/* One full batch: what ends the records of the last round, and begins those of this one. */
static void full_batch(struct bed *bed, struct store_op *ops, uint64_t round)
{
    for (uint64_t i = 0; i < FULL_PAIRS; i++) {
        uint64_t key = round * FULL_PAIRS + i;
        struct store_op *begin = &ops[i], *end = &ops[FULL_PAIRS + i];
        *end = write_on(key - FULL_PAIRS, STORE_FINISH, begin->result.record.token);
        *begin = begin_on(key);
        begin->begin.ttl_us = begin->begin.tombstone_us = FULL_LIFE / 2;
        if (round > 0)
            store_submit(bed->store, end);
        store_submit(bed->store, begin);
    }
    store_step(bed->store);
    set_clock(now + FULL_LIFE / 20);
}

/* found: D-B4 */
static void the_sweep_keeps_up_with_full_batches_on_a_slow_disk(void **state)
{
    struct bed *bed = *state;
    struct store_op *ops = mem_zalloc((size_t)2 * FULL_PAIRS, sizeof *ops);
    for (uint64_t round = 0; round < FULL_ROUNDS; round++)
        full_batch(bed, ops, round);
    struct store_counts then = store_counts(bed->store);
    for (uint64_t round = FULL_ROUNDS; round < 2 * FULL_ROUNDS; round++)
        full_batch(bed, ops, round);
    struct store_counts counts = counts_after(bed, 0);
    assert_int_equal(counts.pending, FULL_PAIRS);
    assert_in_range(counts.complete, 1, then.complete + FULL_PAIRS * FULL_ROUNDS / 5);
    if (counts.expired_oldest > 0)
        assert_in_range(now - counts.expired_oldest, 0, (int64_t)6 * FULL_LIFE);
    mem_free(ops);
}

/* A new acquisition of what the others wait for. */
static void acquire_again(struct bed *bed, uint64_t key)
{
    struct store_op forget = write_on(key, STORE_FORGET, 0);
    forget.writing.token = look(bed, key).token;
    forget.writing.force = true;
    run(bed, &forget);
    proceed(bed, key);
}

/* found: D-P6 */
static void a_process_that_commits_all_the_time_does_not_keep_the_waiters_deciding(void **state)
{
    struct bed *bed = *state, other;
    enum { N = 2000 };
    open_other(bed, &other);
    proceed(&other, 1);
    struct store_op *ops = mem_zalloc(N, sizeof *ops);
    for (size_t i = 0; i < N; i++) {
        ops[i] = wait_on(1);
        store_submit(bed->store, &ops[i]);
    }
    counts_after(bed, SECOND);
    uint64_t before = counts_after(bed, SECOND).work.reads;
    for (uint64_t key = 3; key < 33; key++) {
        proceed(&other, key);
        counts_after(bed, 50 * CLOCK_US_PER_MS);
    }
    assert_int_equal(store_counts(bed->store).work.reads, before);
    for (int i = 0; i < 30; i++) {
        acquire_again(&other, 1);
        counts_after(bed, 10 * CLOCK_US_PER_MS);
    }
    assert_in_range(store_counts(bed->store).work.reads - before, 2 * N, 9 * N / 2);
    for (size_t i = 0; i < N; i++)
        assert_true(store_withdraw(bed->store, &ops[i], false));
    mem_free(ops);
    close_other(&other);
}

static void lapsed_leases_are_counted_without_a_look_at_them(void **state)
{
    struct bed *bed = *state, other;
    enum { N = 1200 };
    open_other(bed, &other);
    struct store_op *ops = mem_zalloc(N, sizeof *ops);
    assert_non_null(ops);
    for (uint64_t key = 0; key < N; key++) {
        ops[key] = begin_on(key);
        submit(&other, &ops[key]);
    }
    for (uint64_t key = 0; key < N; key++)
        await(&other, &ops[key]);
    mem_free(ops);
    close_other(&other);
    struct store_counts counts = counts_after(bed, 2 * LEASE);
    assert_int_equal(counts.pending, N);
    assert_int_equal(counts.stale, N);
}

static uint64_t sum(const uint64_t *buckets, size_t n)
{
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++)
        total += buckets[i];
    return total;
}

static void batches_are_counted_by_size_and_by_the_time_they_took(void **state)
{
    struct bed *bed = *state;
    struct store_op ops[5];
    struct store_work before = store_counts(bed->store).work;
    for (uint64_t key = 0; key < 5; key++) {
        ops[key] = begin_on(key);
        submit(bed, &ops[key]);
    }
    await(bed, &ops[4]);
    proceed(bed, 9);
    struct store_work work = store_counts(bed->store).work;
    assert_int_equal(work.batches - before.batches, 2);
    assert_int_equal(work.operations - before.operations, 6);
    assert_int_equal(work.batch_buckets[0] - before.batch_buckets[0], 1);
    assert_int_equal(store_batch_bounds[3], 8);
    assert_int_equal(work.batch_buckets[3] - before.batch_buckets[3], 1);
    assert_int_equal(sum(work.commit_buckets, STORE_COMMIT_BUCKETS + 1), work.batches);
    assert_int_equal(sum(work.batch_buckets, STORE_BATCH_BUCKETS + 1), work.batches);
    look(bed, 1);
    struct store_work after = store_counts(bed->store).work;
    assert_int_equal(after.batches, work.batches);
    assert_int_equal(after.reads - work.reads, 1);
}

static void batches_that_were_rolled_back_are_counted_by_their_reason(void **state)
{
    struct bed *bed = *state;
    if (bed->kind != BED_TOY)
        return;
    atomic_int *next = &hostile_faults(bed->backend)->next_save;
    atomic_store(next, BACKEND_BUSY);
    struct store_op op = begin_on(1);
    submit(bed, &op);
    store_step(bed->store);
    assert_int_equal(store_counts(bed->store).work.retries_busy, 1);
    set_clock(now + SECOND);
    await(bed, &op);
    atomic_store(next, BACKEND_FULL);
    struct store_op release = write_on(1, STORE_RELEASE, op.result.record.token);
    submit(bed, &release);
    store_step(bed->store);
    assert_int_equal(store_counts(bed->store).work.retries_full, 1);
    set_clock(now + SECOND);
    await(bed, &release);
    assert_int_equal(store_counts(bed->store).work.retries_busy, 1);
}

static void checkpoints_are_counted(void **state)
{
    struct bed *bed = *state;
    if (bed->kind != BED_SQLITE)
        return;
    bed_close(bed);
    bed->config.checkpoint_pages = 1;
    bed_open(bed);
    uint64_t before = store_counts(bed->store).work.checkpoints;
    proceed(bed, 1);
    proceed(bed, 2);
    assert_in_range(store_counts(bed->store).work.checkpoints, before + 1, before + 2);
}

static void an_idle_store_shows_each_second_that_it_works(void **state)
{
    struct bed *bed = *state;
    for (int i = 0; i < 3; i++) {
        struct store_counts counts = counts_after(bed, SECOND);
        assert_int_equal(counts.last_ok_at, now);
    }
    if (bed->kind != BED_TOY)
        return;
    int64_t last = now;
    atomic_store(&hostile_faults(bed->backend)->gone, true);
    for (int i = 0; i < 6; i++)
        assert_int_equal(counts_after(bed, SECOND).last_ok_at, last);
    atomic_store(&hostile_faults(bed->backend)->gone, false);
    struct store_counts counts = counts_after(bed, SECOND);
    assert_int_equal(counts.last_ok_at, now);
}

static void free_space_is_reported_as_it_was_last_seen(void **state)
{
    struct bed *bed = *state;
    if (bed->kind == BED_SQLITE) {
        assert_in_range(counts_after(bed, SECOND).space_free, 1, UINT64_MAX - 1);
        return;
    }
    assert_true(counts_after(bed, SECOND).space_free == UINT64_MAX);
    if (bed->kind == BED_POSTGRES)
        return;
    struct hostile_faults *faults = hostile_faults(bed->backend);
    atomic_store(&faults->space_free, 12345);
    atomic_store(&faults->space_size, 100000);
    assert_int_equal(counts_after(bed, SECOND).space_free, 12345);
}

#define T(name) BED_TEST_AFTER(name, set_up)

int main(void)
{
    struct CMUnitTest tests[] = {
        T(the_gauge_of_unknown_records_is_the_time_of_the_oldest),
        T(a_batch_that_says_that_the_store_went_back_leaves_the_gauges),
        T(leases_that_lapsed_are_counted_and_live_ones_are_not),
        T(released_records_are_counted_apart_from_running_ones),
        T(a_store_low_on_space_is_not_up_and_says_why_and_replays_go_on),
        T(a_store_whose_writes_found_no_space_is_not_up_until_one_does),
        T(what_is_past_its_time_and_still_there_is_counted),
        T(a_wall_clock_past_2200_is_not_believed_and_that_is_said),
        T(a_store_whose_mark_is_past_2200_is_refused_with_a_way_out),
        T(a_wall_clock_that_jumps_far_ahead_is_reported_once),
        T(an_idle_store_writes_nothing_whatever_it_and_others_hold),
        T(the_sweep_keeps_up_with_full_batches_on_a_slow_disk),
        T(a_process_that_commits_all_the_time_does_not_keep_the_waiters_deciding),
        T(lapsed_leases_are_counted_without_a_look_at_them),
        T(batches_are_counted_by_size_and_by_the_time_they_took),
        T(batches_that_were_rolled_back_are_counted_by_their_reason),
        T(checkpoints_are_counted),
        T(an_idle_store_shows_each_second_that_it_works),
        T(free_space_is_reported_as_it_was_last_seen),
    };
    return bed_run_in_peace(tests, sizeof tests / sizeof *tests);
}
#else
/* Without the test clock nothing here can be shown. */
int main(void)
{
    return 0;
}
#endif
