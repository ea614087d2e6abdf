/* SPDX-License-Identifier: Apache-2.0 */
/* What another process commits between the load and the save of a batch: that of the batch which
 * does not fit any more is decided again, and the rest of it stands. Over the toy, which holds no
 * lock between the two. */
#include "once_bed.h"

/* Two processes; what the second does runs behind the next load of the first. */
struct pair {
    struct bed first;
    struct bed second;
    struct store_op between;
};

static int set_up(void **state)
{
    struct pair *pair = mem_zalloc(1, sizeof *pair);
    assert_non_null(pair);
    bed_init(&pair->first, BED_TOY);
    pair->first.config.no_thread = true;
    bed_open(&pair->first);
    open_other(&pair->first, &pair->second);
    *state = pair;
    return 0;
}

static int tear_down(void **state)
{
    struct pair *pair = *state;
    close_other(&pair->second);
    bed_fini(&pair->first);
    mem_free(pair);
    return 0;
}

static void run_between(void *argument)
{
    struct pair *pair = argument;
    run(&pair->second, &pair->between);
    assert_int_equal(pair->between.result.status, STORE_DONE);
}

static void meanwhile(struct pair *pair, struct store_op op)
{
    struct hostile_faults *faults = hostile_faults(pair->first.backend);
    pair->between = op;
    faults->loaded = run_between;
    faults->argument = pair;
}

static void of_two_begins_on_one_key_one_proceeds(void **state)
{
    struct pair *pair = *state;
    meanwhile(pair, begin_on(1));
    struct store_op op = begin_on(1);
    run(&pair->first, &op);
    assert_int_equal(pair->between.result.verdict, RECORD_PROCEED);
    assert_int_equal(op.result.verdict, RECORD_IN_PROGRESS);
    assert_int_equal(check_counts(&pair->first), 1);
}

static void two_begins_on_two_keys_proceed_under_two_tokens(void **state)
{
    struct pair *pair = *state;
    meanwhile(pair, begin_on(2));
    struct store_op op = begin_on(1);
    run(&pair->first, &op);
    assert_int_equal(pair->between.result.verdict, RECORD_PROCEED);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    assert_int_not_equal(op.result.record.token, pair->between.result.record.token);
    assert_int_not_equal(op.result.row, pair->between.result.row);
    assert_int_equal(check_counts(&pair->first), 2);
}

static void of_two_begins_with_one_value_one_proceeds(void **state)
{
    struct pair *pair = *state;
    meanwhile(pair, begin(&pair->first, 2, 5, &rejects));
    struct store_op op = begin(&pair->first, 1, 5, &rejects);
    run(&pair->first, &op);
    assert_int_equal(pair->between.result.verdict, RECORD_PROCEED);
    assert_int_equal(op.result.verdict, RECORD_IN_PROGRESS);
    assert_int_equal(check_counts(&pair->first), 1);
}

static void a_begin_under_the_old_name_is_seen_by_one_under_the_new(void **state)
{
    struct pair *pair = *state;
    const struct digest former[] = {key_of(1)};
    meanwhile(pair, begin_on(1));
    struct store_op op = begin_on(2);
    op.arrival.former = former;
    op.arrival.n_former = 1;
    run(&pair->first, &op);
    assert_int_equal(pair->between.result.verdict, RECORD_PROCEED);
    assert_int_equal(op.result.verdict, RECORD_IN_PROGRESS);
    assert_int_equal(check_counts(&pair->first), 1);
}

static void a_begin_whose_key_is_the_value_is_seen_by_one_with_that_value(void **state)
{
    struct pair *pair = *state;
    struct store_op op = begin(&pair->first, 1, 5, &rejects);
    struct store_op as_key = begin_on(9);
    as_key.key_hash = op.arrival.once->as_key;
    meanwhile(pair, as_key);
    run(&pair->first, &op);
    assert_int_equal(pair->between.result.verdict, RECORD_PROCEED);
    assert_int_equal(op.result.verdict, RECORD_IN_PROGRESS);
    assert_int_equal(check_counts(&pair->first), 1);
}

static void an_outcome_that_another_process_stored_first_is_replayed(void **state)
{
    struct pair *pair = *state;
    int64_t token = proceed(&pair->first, 1);
    meanwhile(pair, write_on(1, STORE_FINISH, token));
    pair->between.writing.http_status = 409;
    pair->between.writing.final = RECORD_FAILED;
    struct store_op op = write_on(1, STORE_FINISH, token);
    run(&pair->first, &op);
    assert_int_equal(pair->between.result.write, RECORD_WRITTEN);
    assert_int_equal(op.result.write, RECORD_ALREADY);
    assert_int_equal(op.result.record.http_status, 409);
}

static void what_does_not_fit_leaves_the_rest_of_its_batch_as_it_is(void **state)
{
    struct pair *pair = *state;
    int64_t mine = proceed(&pair->first, 1), taken = proceed(&pair->first, 2);
    struct store_op ops[] = {write_on(1, STORE_FINISH, mine), write_on(2, STORE_FINISH, taken)};
    meanwhile(pair, write_on(2, STORE_RELEASE, taken));
    submit(&pair->first, &ops[0]);
    submit(&pair->first, &ops[1]);
    store_step(pair->first.store);
    assert_true(store_op_ended(&ops[0]));
    assert_false(store_op_ended(&ops[1]));
    assert_int_equal(ops[0].result.write, RECORD_WRITTEN);
    await(&pair->first, &ops[1]);
    assert_int_equal(ops[1].result.write, RECORD_WRITTEN); /* a late answer is the truth */
    assert_int_equal(check_counts(&pair->first), 2);
}

/* Who looked at two changed records ties them together: neither is told without the other. */
static void of_what_is_saved_together_nothing_unsaved_is_reported(void **state)
{
    struct pair *pair = *state;
    int64_t gone = proceed(&pair->first, 1), done = proceed(&pair->first, 2);
    struct store_op ops[] = {write_on(1, STORE_FORGET, gone), write_on(2, STORE_FINISH, done),
                             begin_on(3)};
    const struct digest former[] = {key_of(1), key_of(2)};
    ops[0].writing.force = true;
    ops[2].arrival.former = former;
    ops[2].arrival.n_former = 2;
    meanwhile(pair, write_on(2, STORE_FINISH, done));
    for (size_t i = 0; i < 3; i++)
        submit(&pair->first, &ops[i]);
    for (size_t i = 0; i < 3; i++)
        await(&pair->first, &ops[i]);
    assert_int_equal(ops[0].result.write, RECORD_WRITTEN);
    assert_int_equal(look(&pair->second, 1).status, RECORD_ABSENT);
    assert_int_equal(ops[1].result.write, RECORD_ALREADY);
    assert_int_equal(ops[2].result.verdict, RECORD_RESULT_NOT_KEPT);
    assert_int_equal(check_counts(&pair->first), 1);
}

/* What is decided again is counted once: caches compare the number. */
static void a_forget_that_does_not_fit_is_counted_once(void **state)
{
    struct pair *pair = *state;
    int64_t before = store_counts(pair->first.store).forgets;
    struct store_op forget = write_on(2, STORE_FORGET, proceed(&pair->first, 2));
    forget.writing.force = true;
    meanwhile(pair, write_on(2, STORE_EXTEND, forget.writing.token));
    run(&pair->first, &forget);
    assert_int_equal(forget.result.write, RECORD_WRITTEN);
    assert_int_equal(store_counts(pair->first.store).forgets, before + 1);
    assert_int_equal(look(&pair->second, 2).status, RECORD_ABSENT);
    assert_int_equal(store_counts(pair->second.store).forgets, before + 1);
}

/* ---- what somebody's transaction holds ---- */

#ifdef PAWL_HOOKS

#define LOCKED RECORD_LOCKED_US
#define SOON (INT64_C(10) * CLOCK_US_PER_MS) /* between two tries of a begin */

static void hold(struct pair *pair, uint64_t key)
{
    now = clock_wall_us();
    clock_test_set(now, now);
    struct digest name = key_of(key);
    hostile_hold(pair->first.backend, &name, true);
}

static void let_go(struct pair *pair, uint64_t key)
{
    struct digest name = key_of(key);
    hostile_hold(pair->first.backend, &name, false);
}

/* Whether anything was due. */
static bool step_after(struct pair *pair, int64_t span)
{
    now += span;
    clock_test_set(now, now);
    return store_step(pair->first.store);
}

/* Until nothing is due. */
static void settle(struct pair *pair)
{
    while (store_step(pair->first.store))
        ;
}

/* How often it met a lock. */
static uint64_t try_for(struct pair *pair, int64_t span)
{
    uint64_t before = atomic_load(&hostile_faults(pair->first.backend)->locked);
    step_after(pair, span);
    settle(pair);
    return atomic_load(&hostile_faults(pair->first.backend)->locked) - before;
}

static void a_begin_on_what_a_transaction_holds_is_in_progress(void **state)
{
    struct pair *pair = *state;
    hold(pair, 1);
    struct store_op op = begin_on(1);
    submit(&pair->first, &op);
    assert_int_equal(try_for(pair, 0), 2);
    for (int64_t passed = SOON; passed < LOCKED; passed += SOON) {
        assert_int_equal(try_for(pair, SOON), 1);
        assert_false(store_op_ended(&op));
    }
    assert_int_equal(try_for(pair, SOON), 1);
    assert_true(store_op_ended(&op));
    assert_int_equal(op.result.verdict, RECORD_IN_PROGRESS);
    assert_int_equal(op.result.record.status, RECORD_PENDING);
    assert_int_equal(op.result.lease, RECORD_LEASE_LIVE);
    assert_int_equal(op.result.lease_left_us, LOCKED);
    assert_int_equal(check_counts(&pair->first), 0);
    assert_int_equal(verdict(&pair->first, 2), RECORD_PROCEED);
    let_go(pair, 1);
    assert_int_equal(verdict(&pair->first, 1), RECORD_PROCEED);
}

/* found: R27 */
static void a_begin_on_what_is_held_for_a_moment_is_not_in_progress(void **state)
{
    struct pair *pair = *state;
    struct store_op begins[] = {begin_on(2), begin_on(3)};
    for (size_t i = 0; i < 2; i++) {
        hold(pair, i + 2);
        submit(&pair->first, &begins[i]);
        assert_true(store_step(pair->first.store));
        if (i == 1)
            try_for(pair, 3 * SOON);
        assert_false(store_op_ended(&begins[i]));
        let_go(pair, i + 2);
        try_for(pair, i * SOON);
        assert_true(store_op_ended(&begins[i]));
        assert_int_equal(begins[i].result.verdict, RECORD_PROCEED);
    }
}

static void a_begin_behind_a_transaction_tries_again_and_proceeds_when_it_is_over(void **state)
{
    struct pair *pair = *state;
    hold(pair, 1);
    struct store_op op = wait_on(1);
    submit(&pair->first, &op);
    settle(pair);
    try_for(pair, LOCKED);
    assert_true(store_op_waits(&op));
    try_for(pair, LOCKED + 1);
    assert_true(store_op_waits(&op));
    let_go(pair, 1);
    step_after(pair, LOCKED + 1);
    assert_true(store_op_ended(&op));
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
}

static void an_owner_tries_again_to_write_what_a_transaction_holds_but_not_all_the_time(
    void **state)
{
    struct pair *pair = *state;
    int64_t token = proceed(&pair->first, 1);
    hold(pair, 1);
    struct store_op op = write_on(1, STORE_DOUBT, token);
    submit(&pair->first, &op);
    assert_true(store_step(pair->first.store));
    assert_false(store_step(pair->first.store));
    assert_false(step_after(pair, LOCKED - 1));
    assert_true(step_after(pair, 1));
    assert_false(store_op_ended(&op));
    let_go(pair, 1);
    assert_true(step_after(pair, LOCKED));
    assert_true(store_op_ended(&op));
    assert_int_equal(op.result.write, RECORD_WRITTEN);
}

static void a_write_on_what_a_transaction_holds_can_be_taken_back(void **state)
{
    struct pair *pair = *state;
    int64_t token = proceed(&pair->first, 1);
    hold(pair, 1);
    struct store_op op = write_on(1, STORE_RELEASE, token);
    submit(&pair->first, &op);
    assert_true(store_step(pair->first.store));
    assert_true(store_withdraw(pair->first.store, &op, false));
    let_go(pair, 1);
    step_after(pair, LOCKED);
    assert_int_equal(look(&pair->first, 1).lease_until != 0, true);
}

/* Its claim may have been saved, and be saved still: somebody must look after it. */
static void a_begin_that_may_have_begun_is_not_in_progress_elsewhere(void **state)
{
    struct pair *pair = *state;
    struct store_op op = begin_on(1), forget = write_on(1, STORE_FORGET, 0);
    atomic_store(&hostile_faults(pair->first.backend)->next_save, BACKEND_UNSURE);
    submit(&pair->first, &op);
    assert_true(store_step(pair->first.store));
    forget.writing.force = true;
    run(&pair->second, &forget);
    assert_int_equal(forget.result.write, RECORD_WRITTEN);
    hold(pair, 1);
    step_after(pair, SECOND);
    settle(pair);
    assert_false(store_op_ended(&op));
    assert_false(store_withdraw(pair->first.store, &op, false));
    let_go(pair, 1);
    step_after(pair, LOCKED);
    assert_true(store_op_ended(&op));
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
}

/* Found by its attempt id: done again it would hit the next record of the key. */
static void an_act_that_may_be_done_is_not_done_to_the_next_record(void **state)
{
    struct pair *pair = *state;
    now = clock_wall_us();
    clock_test_set(now, now);
    finish(&pair->first, 1, proceed(&pair->first, 1), "old");
    struct store_op op = write_on(1, STORE_FORGET, 0);
    op.writing.actor = SLICE("me");
    op.begin.attempt_id[0] = 7;
    atomic_store(&hostile_faults(pair->first.backend)->next_save, BACKEND_UNSURE);
    submit(&pair->first, &op);
    assert_true(store_step(pair->first.store));
    assert_false(store_op_ended(&op));
    finish(&pair->second, 1, proceed(&pair->second, 1), "new");
    step_after(pair, SECOND);
    settle(pair);
    assert_true(store_op_ended(&op));
    assert_int_equal(op.result.write, RECORD_WRITTEN);
    assert_int_equal(op.result.record.status, RECORD_ABSENT);
    assert_int_equal(verdict(&pair->second, 1), RECORD_REPLAY);
}

/* Else its owner would be told that he came too late with what is stored. */
static void an_outcome_that_may_be_stored_is_found_however_short_it_lives(void **state)
{
    struct pair *pair = *state;
    now = clock_wall_us();
    clock_test_set(now, now);
    struct store_op begun = begin_on(1);
    begun.begin.ttl_us = 1;
    run(&pair->first, &begun);
    struct store_op op = write_on(1, STORE_FINISH, begun.result.record.token);
    atomic_store(&hostile_faults(pair->first.backend)->next_save, BACKEND_UNSURE);
    submit(&pair->first, &op);
    assert_true(store_step(pair->first.store));
    now += 30 * SECOND;
    clock_test_set(now, now);
    while (store_step(pair->second.store))
        ;
    settle(pair);
    assert_true(store_op_ended(&op));
    assert_int_equal(op.result.write, RECORD_ALREADY);
    step_after(pair, RECORD_ROW_LEAST_US);
    settle(pair);
    assert_int_equal(check_counts(&pair->first), 0);
}

static void a_store_that_closes_waits_for_what_a_transaction_holds(void **state)
{
    struct pair *pair = *state;
    int64_t token = proceed(&pair->first, 1);
    struct digest name = key_of(1);
    hostile_hold(pair->first.backend, &name, true);
    struct store_op op = write_on(1, STORE_RELEASE, token);
    submit(&pair->first, &op);
    assert_true(store_step(pair->first.store));
    hostile_hold(pair->second.backend, &name, false);
    bed_close(&pair->first);
    assert_true(store_op_ended(&op));
    assert_int_equal(op.result.write, RECORD_WRITTEN);
    assert_int_equal(look(&pair->second, 1).lease_until, 0);
}

#endif

static void an_extend_that_does_not_fit_is_no_renewal(void **state)
{
    struct pair *pair = *state;
    int64_t token = proceed(&pair->first, 1);
    struct store_op forget = write_on(1, STORE_FORGET, token);
    forget.writing.force = true;
    meanwhile(pair, forget);
    struct store_op op = write_on(1, STORE_EXTEND, token);
    run(&pair->first, &op);
    assert_int_equal(pair->between.result.write, RECORD_WRITTEN);
    assert_int_equal(op.result.write, RECORD_STALE);
}

static void an_extend_that_does_not_fit_is_loaded_again(void **state)
{
    struct pair *pair = *state;
    int64_t token = proceed(&pair->first, 1);
    meanwhile(pair, write_on(1, STORE_EXTEND, token));
    struct store_op op = write_on(1, STORE_EXTEND, token);
    run(&pair->first, &op);
    assert_int_equal(pair->between.result.write, RECORD_WRITTEN);
    assert_int_equal(op.result.write, RECORD_WRITTEN);
    assert_true(op.result.record.lease_until >= pair->between.result.record.lease_until);
}

/* ---- tokens ---- */

/* A restore or a failover may make a store draw what it drew before. */
static void a_token_that_is_not_above_the_record_s_is_not_taken(void **state)
{
    struct pair *pair = *state;
    struct bed *bed = &pair->first;
    int64_t token = proceed(bed, 1);
    act(bed, 1, STORE_RELEASE, token);
    for (int64_t i = 0; i < 2; i++) {
        struct store_op op = begin_on(1);
        atomic_store(&hostile_faults(bed->backend)->token, token - i);
        run(bed, &op);
        assert_int_equal(op.result.verdict, RECORD_PROCEED);
        assert_true(op.result.record.token > token);
        assert_int_equal(act(bed, 1, STORE_DOUBT, token), RECORD_STALE);
        token = op.result.record.token;
        act(bed, 1, STORE_RELEASE, token);
    }
}

static void a_probe_under_such_a_token_is_not_begun(void **state)
{
    struct pair *pair = *state;
    struct bed *bed = &pair->first;
    struct store_op op = write_on(1, STORE_ASK, proceed(bed, 1));
    op.begin = begin_on(1).begin;
    atomic_store(&hostile_faults(bed->backend)->token, op.writing.token);
    run(bed, &op);
    assert_int_equal(op.result.write, RECORD_WRITTEN);
    assert_true(op.result.record.token > op.writing.token && op.result.record.probing);
}

static void a_record_under_a_token_that_names_another_one_is_decided_again(void **state)
{
    struct pair *pair = *state;
    int64_t token = proceed(&pair->first, 1);
    atomic_store(&hostile_faults(pair->first.backend)->token, token);
    struct store_op op = begin_on(2);
    run(&pair->first, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    assert_true(op.result.row > token);
    assert_int_equal(look(&pair->second, 1).token, token);
    assert_int_equal(check_counts(&pair->first), 2);
}

static void a_batch_that_used_up_its_tokens_goes_on_in_the_next(void **state)
{
    enum { BEGINS = 20 };
    struct pair *pair = *state;
    struct bed *bed = &pair->first;
    static struct store_op ops[BEGINS];
    atomic_store(&hostile_faults(bed->backend)->n_tokens, 8);
    for (uint64_t i = 0; i < BEGINS; i++) {
        ops[i] = begin_on(i);
        submit(bed, &ops[i]);
    }
    for (size_t i = 0; i < BEGINS; i++) {
        await(bed, &ops[i]);
        assert_int_equal(ops[i].result.verdict, RECORD_PROCEED);
        assert_true(i == 0 || ops[i].result.record.token > ops[i - 1].result.record.token);
    }
    assert_in_range(store_counts(bed->store).work.batches, 4, BEGINS);
    assert_int_equal(check_counts(bed), BEGINS);
}

struct shown {
    size_t rows;
    size_t tries;
};

static void begin_to_show(void *argument)
{
    struct shown *shown = argument;
    shown->rows = 0;
    shown->tries++;
}

static bool show(void *argument, const struct store_row *row, enum record_lease lease)
{
    (void)row;
    (void)lease;
    return ++((struct shown *)argument)->rows > 0;
}

static void a_list_that_is_tried_again_says_that_it_starts_anew(void **state)
{
    struct pair *pair = *state;
    (void)proceed(&pair->first, 1);
    int64_t token = proceed(&pair->first, 2);
    struct shown shown = {0};
    struct store_list all = {
        .most = 10, .restart = begin_to_show, .each = show, .argument = &shown};
    struct store_op list = {.kind = STORE_LIST, .list = &all};
    struct store_op forget = write_on(2, STORE_FORGET, token), begin = begin_on(3);
    atomic_store(&hostile_faults(pair->first.backend)->next_save, BACKEND_BUSY);
    submit(&pair->first, &list);
    submit(&pair->first, &begin);
    assert_true(store_step(pair->first.store));
    assert_false(store_op_ended(&list));
    assert_int_equal(shown.rows, 2);
    forget.writing.force = true;
    run(&pair->second, &forget);
    assert_int_equal(forget.result.write, RECORD_WRITTEN);
    await(&pair->first, &list);
    assert_int_equal(shown.tries, 2);
    assert_int_equal(shown.rows, 1);
    await(&pair->first, &begin);
}

static void what_waits_for_a_begin_that_is_refused_fails_with_it(void **state)
{
    struct pair *pair = *state;
    struct store_op first = begin_on(1), waiter = begin_on(1);
    waiter.arrival.wait_until = CLOCK_NEVER;
    atomic_store(&hostile_faults(pair->first.backend)->refuses, true);
    submit(&pair->first, &first);
    submit(&pair->first, &waiter);
    await(&pair->first, &first);
    assert_int_equal(first.result.status, STORE_DOWN);
    assert_int_equal(store_counts(pair->first.store).waiting, 0);
    await(&pair->first, &waiter);
    assert_int_equal(waiter.result.status, STORE_DOWN);
    (void)proceed(&pair->first, 1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_list_that_is_tried_again_says_that_it_starts_anew),
        T(of_two_begins_on_one_key_one_proceeds),
        T(two_begins_on_two_keys_proceed_under_two_tokens),
        T(of_two_begins_with_one_value_one_proceeds),
        T(a_begin_under_the_old_name_is_seen_by_one_under_the_new),
        T(a_begin_whose_key_is_the_value_is_seen_by_one_with_that_value),
        T(an_outcome_that_another_process_stored_first_is_replayed),
        T(what_does_not_fit_leaves_the_rest_of_its_batch_as_it_is),
        T(of_what_is_saved_together_nothing_unsaved_is_reported),
        T(what_waits_for_a_begin_that_is_refused_fails_with_it),
        T(a_forget_that_does_not_fit_is_counted_once),
        T(an_extend_that_does_not_fit_is_no_renewal),
        T(an_extend_that_does_not_fit_is_loaded_again),
#ifdef PAWL_HOOKS
        T(a_begin_on_what_a_transaction_holds_is_in_progress),
        T(a_begin_on_what_is_held_for_a_moment_is_not_in_progress),
        T(a_begin_behind_a_transaction_tries_again_and_proceeds_when_it_is_over),
        T(an_owner_tries_again_to_write_what_a_transaction_holds_but_not_all_the_time),
        T(a_write_on_what_a_transaction_holds_can_be_taken_back),
        T(a_begin_that_may_have_begun_is_not_in_progress_elsewhere),
        T(an_act_that_may_be_done_is_not_done_to_the_next_record),
        T(an_outcome_that_may_be_stored_is_found_however_short_it_lives),
        T(a_store_that_closes_waits_for_what_a_transaction_holds),
#endif
        T(a_token_that_is_not_above_the_record_s_is_not_taken),
        T(a_probe_under_such_a_token_is_not_begun),
        T(a_record_under_a_token_that_names_another_one_is_decided_again),
        T(a_batch_that_used_up_its_tokens_goes_on_in_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
