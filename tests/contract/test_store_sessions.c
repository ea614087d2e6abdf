/* SPDX-License-Identifier: Apache-2.0 */
/* Several committers of one process (store/committer/sessions.h); a backend that has one session
 * has one of them. */
#include "once_bed.h"

#include "store/committer/state.h"

static void open_with(struct bed *bed, size_t sessions, bool no_thread)
{
    bed_close(bed);
    bed->config.role = STORE_SERVE;
    bed->config.sessions = sessions;
    bed->config.no_thread = no_thread;
    bed_open(bed);
}

static void each_key_has_one_record_whichever_session_has_it(void **state)
{
    struct bed *bed = *state;
    open_with(bed, 4, false);
    for (uint64_t key = 0; key < 40; key++) {
        int64_t token = proceed(bed, key);
        assert_int_equal(verdict(bed, key), RECORD_IN_PROGRESS);
        assert_int_equal(finish(bed, key, token, "done"), RECORD_WRITTEN);
        assert_int_equal(verdict(bed, key), RECORD_REPLAY);
    }
    assert_int_equal(check_counts(bed), 40);
    assert_true(store_counts(bed->store).work.operations >= 80); /* of whichever session */
}

static void waiters_of_each_key_are_woken(void **state)
{
    struct bed *bed = *state;
    static struct store_op waiters[8];
    int64_t tokens[8];
    open_with(bed, 4, false);
    for (uint64_t key = 0; key < 8; key++)
        tokens[key] = proceed(bed, key);
    for (uint64_t key = 0; key < 8; key++) {
        waiters[key] = wait_on(key);
        submit(bed, &waiters[key]);
        await_waiting(bed, key + 1);
    }
    for (uint64_t key = 0; key < 8; key++) {
        finish(bed, key, tokens[key], "done");
        await(bed, &waiters[key]);
        assert_int_equal(waiters[key].result.verdict, RECORD_REPLAY);
        drop(&waiters[key]);
    }
}

#ifdef PAWL_HOOKS

/* A key of the committer `at` of two. */
static uint64_t key_at(size_t at, uint64_t from)
{
    while (key_of(from).bytes[0] % 2 != at)
        from++;
    return from;
}

/* Until all take keys, where there is more than one. */
static void join(struct bed *bed)
{
    for (int i = 0; i < 8; i++)
        (void)store_step(bed->store);
    for (size_t i = 0; i < atomic_load(&bed->store->active); i++)
        assert_true(atomic_load(&bed->store->committers[i]->takes_keys));
}

/* With the clock held nobody looks at the store again: it is told, or it waits for ever. */
static void a_waiter_is_told_by_the_session_that_ends_its_record(void **state)
{
    static struct store_op first, waiter, end;
    struct bed *bed = *state;
    now = clock_wall_us();
    clock_test_set(now, now);
    open_with(bed, 2, true);
    join(bed);
    first = begin(bed, key_at(0, 1), 1, &replays);
    waiter = begin(bed, key_at(1, 1), 1, &replays);
    waiter.arrival.wait_until = CLOCK_NEVER;
    store_submit(bed->store, &first);
    while (!store_op_ended(&first))
        (void)store_step(bed->store);
    assert_int_equal(first.result.verdict, RECORD_PROCEED);
    store_submit(bed->store, &waiter);
    while (!store_op_waits(&waiter))
        (void)store_step(bed->store);
    (void)store_step(bed->store); /* the look that was due */
    assert_true(store_op_waits(&waiter));
    struct outcome *outcome = outcome_new(201, false, (struct slice){0}, SLICE("done"));
    end = write_on(key_at(0, 1), STORE_FINISH, first.result.record.token);
    end.writing.outcome = outcome;
    end.writing.final = RECORD_COMPLETE;
    end.writing.keeps = true;
    store_submit(bed->store, &end);
    for (int i = 0; i < 8; i++)
        (void)store_step(bed->store);
    assert_true(store_op_ended(&end));
    assert_true(store_op_ended(&waiter));
    assert_int_equal(waiter.result.verdict, RECORD_REPLAY);
    drop(&waiter);
    drop(&first);
    outcome_unref(outcome);
}

/* Found by the model: the end was acknowledged, and another session went on without it. */
static void a_session_that_noticed_a_loss_ends_nothing_before_the_store_says_so(void **state)
{
    static struct store_op end;
    struct bed *bed = *state;
    open_with(bed, 2, true);
    if (bed->store->n < 2)
        return;
    join(bed);
    uint64_t key = key_at(1, 1);
    struct committer *second = bed->store->committers[1];
    static struct store_op first;
    first = begin(bed, key, 1, &replays);
    store_submit(bed->store, &first);
    while (!store_op_ended(&first))
        (void)store_step(bed->store);
    assert_int_equal(first.result.verdict, RECORD_PROCEED);
    second->backend->back = (struct backend_back){.times = 1, .incidents = 1, .untold = true};
    second->back = second->backend->back;
    second->due[DUE_TELL] = CLOCK_NEVER; /* it said so in vain */
    end = write_on(key, STORE_RELEASE, first.result.record.token);
    store_submit(bed->store, &end);
    while (second->backend->back.untold) {
        assert_false(store_op_ended(&end));
        (void)store_step(bed->store);
    }
    while (!store_op_ended(&end))
        (void)store_step(bed->store);
    assert_int_equal(end.result.status, STORE_DONE);
    drop(&first);
    first = begin(bed, key_at(0, 1), 1, &replays);
    store_submit(bed->store, &first);
    while (!store_op_ended(&first))
        (void)store_step(bed->store);
    assert_int_equal(first.result.status, STORE_WENT_BACK);
    drop(&first);
}

#endif

/* Steps by hand: batches of so many begins. */
static void load_with(struct bed *bed, size_t in_flight, int rounds)
{
    static struct store_op ops[400];
    static uint64_t next = 100000;
    assert_true(in_flight <= sizeof ops / sizeof *ops);
    for (int round = 0; round < rounds; round++) {
        for (size_t i = 0; i < in_flight; i++) {
            ops[i] = begin_on(next++);
            store_submit(bed->store, &ops[i]);
        }
        for (size_t i = 0; i < in_flight; i++)
            while (!store_op_ended(&ops[i]))
                (void)store_step(bed->store);
    }
}

static void sessions_follow_what_is_in_flight(void **state)
{
    struct bed *bed = *state;
    open_with(bed, 0, true);
    const size_t many = bed->store->n;
    assert_int_equal(atomic_load(&bed->store->active), 1);
    load_with(bed, 1, 20);
    assert_int_equal(atomic_load(&bed->store->active), 1);
    load_with(bed, 400, 16);
    assert_in_range(atomic_load(&bed->store->active), many > 1 ? 2 : 1, many);
    load_with(bed, 1, 100);
    assert_int_equal(atomic_load(&bed->store->active), 1);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        BED_TEST(each_key_has_one_record_whichever_session_has_it),
        BED_TEST(waiters_of_each_key_are_woken),
#ifdef PAWL_HOOKS
        BED_TEST(a_waiter_is_told_by_the_session_that_ends_its_record),
        BED_TEST(a_session_that_noticed_a_loss_ends_nothing_before_the_store_says_so),
#endif
        BED_TEST(sessions_follow_what_is_in_flight),
    };
    return bed_run_in_peace(tests, sizeof tests / sizeof *tests);
}
