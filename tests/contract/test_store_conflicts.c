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
    bed_share(&pair->first, &pair->second);
    pair->second.config.no_thread = true;
    bed_open(&pair->second);
    *state = pair;
    return 0;
}

static int tear_down(void **state)
{
    struct pair *pair = *state;
    bed_close(&pair->second);
    thread_parker_fini(&pair->second.parker);
    bed_fini(&pair->first);
    mem_free(pair);
    return 0;
}

static void run_between(void *argument)
{
    struct pair *pair = argument;
    run(&pair->second, &pair->between);
    assert_int_equal(pair->between.status, STORE_DONE);
}

static void meanwhile(struct pair *pair, struct store_op op)
{
    struct toy_faults *faults = toy_faults(pair->first.backend);
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
    assert_int_equal(pair->between.verdict, RECORD_PROCEED);
    assert_int_equal(op.verdict, RECORD_IN_PROGRESS);
    assert_int_equal(check_counts(&pair->first), 1);
}

static void two_begins_on_two_keys_proceed_under_two_tokens(void **state)
{
    struct pair *pair = *state;
    meanwhile(pair, begin_on(2));
    struct store_op op = begin_on(1);
    run(&pair->first, &op);
    assert_int_equal(pair->between.verdict, RECORD_PROCEED);
    assert_int_equal(op.verdict, RECORD_PROCEED);
    assert_int_not_equal(op.record.token, pair->between.record.token);
    assert_int_not_equal(op.row, pair->between.row);
    assert_int_equal(check_counts(&pair->first), 2);
}

static void of_two_begins_with_one_value_one_proceeds(void **state)
{
    struct pair *pair = *state;
    meanwhile(pair, begin(&pair->first, 2, 5, &rejects));
    struct store_op op = begin(&pair->first, 1, 5, &rejects);
    run(&pair->first, &op);
    assert_int_equal(pair->between.verdict, RECORD_PROCEED);
    assert_int_equal(op.verdict, RECORD_IN_PROGRESS);
    assert_int_equal(check_counts(&pair->first), 1);
}

static void a_begin_under_the_old_name_is_seen_by_one_under_the_new(void **state)
{
    struct pair *pair = *state;
    const struct digest former[] = {key_of(1)};
    meanwhile(pair, begin_on(1));
    struct store_op op = begin_on(2);
    op.former = former;
    op.n_former = 1;
    run(&pair->first, &op);
    assert_int_equal(pair->between.verdict, RECORD_PROCEED);
    assert_int_equal(op.verdict, RECORD_IN_PROGRESS);
    assert_int_equal(check_counts(&pair->first), 1);
}

static void a_begin_whose_key_is_the_value_is_seen_by_one_with_that_value(void **state)
{
    struct pair *pair = *state;
    struct store_op op = begin(&pair->first, 1, 5, &rejects);
    struct store_op as_key = begin_on(9);
    as_key.key_hash = op.once->as_key;
    meanwhile(pair, as_key);
    run(&pair->first, &op);
    assert_int_equal(pair->between.verdict, RECORD_PROCEED);
    assert_int_equal(op.verdict, RECORD_IN_PROGRESS);
    assert_int_equal(check_counts(&pair->first), 1);
}

static void an_outcome_that_another_process_stored_first_is_told_as_it_is(void **state)
{
    struct pair *pair = *state;
    int64_t token = proceed(&pair->first, 1);
    meanwhile(pair, write_on(1, STORE_FINISH, token));
    pair->between.http_status = 409;
    pair->between.final = RECORD_FAILED;
    struct store_op op = write_on(1, STORE_FINISH, token);
    run(&pair->first, &op);
    assert_int_equal(pair->between.write, RECORD_WRITTEN);
    assert_int_equal(op.write, RECORD_ALREADY);
    assert_int_equal(op.record.http_status, 409);
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
    assert_int_equal(ops[0].write, RECORD_WRITTEN);
    await(&pair->first, &ops[1]);
    assert_int_equal(ops[1].write, RECORD_WRITTEN); /* a late answer is the truth */
    assert_int_equal(check_counts(&pair->first), 2);
}

/* Who looked at two changed records ties them together: neither is told without the other. */
static void of_what_is_saved_together_nobody_is_told_what_was_not_saved(void **state)
{
    struct pair *pair = *state;
    int64_t gone = proceed(&pair->first, 1), done = proceed(&pair->first, 2);
    struct store_op ops[] = {write_on(1, STORE_FORGET, gone), write_on(2, STORE_FINISH, done),
                             begin_on(3)};
    const struct digest former[] = {key_of(1), key_of(2)};
    ops[0].force = true;
    ops[2].former = former;
    ops[2].n_former = 2;
    meanwhile(pair, write_on(2, STORE_FINISH, done));
    for (size_t i = 0; i < 3; i++)
        submit(&pair->first, &ops[i]);
    for (size_t i = 0; i < 3; i++)
        await(&pair->first, &ops[i]);
    assert_int_equal(ops[0].write, RECORD_WRITTEN);
    assert_int_equal(look(&pair->second, 1).status, RECORD_ABSENT);
    assert_int_equal(ops[1].write, RECORD_ALREADY);
    assert_int_equal(ops[2].verdict, RECORD_RESULT_NOT_KEPT);
    assert_int_equal(check_counts(&pair->first), 1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(of_two_begins_on_one_key_one_proceeds),
        T(two_begins_on_two_keys_proceed_under_two_tokens),
        T(of_two_begins_with_one_value_one_proceeds),
        T(a_begin_under_the_old_name_is_seen_by_one_under_the_new),
        T(a_begin_whose_key_is_the_value_is_seen_by_one_with_that_value),
        T(an_outcome_that_another_process_stored_first_is_told_as_it_is),
        T(what_does_not_fit_leaves_the_rest_of_its_batch_as_it_is),
        T(of_what_is_saved_together_nobody_is_told_what_was_not_saved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
