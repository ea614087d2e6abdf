/* SPDX-License-Identifier: Apache-2.0 */
/* What operations of one batch make of each other: decided in memory, they come to what they would
 * come to one after the other. */
#include "once_bed.h"

#include <stdio.h>

#define NEW_RULE SLICE("new rule")

/* The oldest operation is not plain, so that all are loaded, and none is decided before them. */
static void in_one_batch(struct bed *bed, struct store_op *ops, size_t n)
{
    struct store_op first = {.kind = STORE_LOOK, .record_alone = true};
    submit(bed, &first);
    for (size_t i = 0; i < n; i++)
        submit(bed, &ops[i]);
    store_step(bed->store);
    for (size_t i = 0; i < n; i++) {
        assert_true(store_op_ended(&ops[i]));
        assert_int_equal(ops[i].result.status, STORE_DONE);
    }
    assert_true(store_op_ended(&first));
}

static void a_key_bound_to_a_record_that_is_forgotten_begins_a_life_of_its_own(void **state)
{
    struct bed *bed = *state;
    int64_t token = take(bed, 1, 5, &replays);
    finish(bed, 1, token, "done");
    struct store_op ops[] = {begin(bed, 2, 5, &replays), write_on(1, STORE_FORGET, token),
                             begin(bed, 2, 5, &replays)};
    in_one_batch(bed, ops, 3);
    assert_int_equal(ops[0].result.verdict, RECORD_REPLAY);
    assert_int_equal(ops[2].result.verdict, RECORD_PROCEED);
    drop(&ops[0]);
    assert_int_equal(ask(bed, 2, 5, &replays), RECORD_IN_PROGRESS);
    assert_int_equal(check_counts(bed), 1);
}

/* A rule was renamed; one configuration is old, the other new. */
static void a_value_held_for_a_record_of_the_old_rule_name_is_seen_under_that_name(void **state)
{
    struct bed *bed = *state;
    act(bed, 1, STORE_RELEASE, proceed(bed, 1));
    const struct digest former[] = {key_of(1)};
    struct store_op ops[] = {begin(bed, 3, 5, &rejects), begin(bed, 2, 5, &rejects)};
    struct store_once *once = (struct store_once *)(uintptr_t)ops[0].arrival.once;
    ops[0].arrival.rule = NEW_RULE;
    ops[0].arrival.former = former;
    ops[0].arrival.n_former = 1;
    once->former[0] = once->hash;
    once->former_as_key[0] = once->as_key;
    once->n_former = 1;
    once->hash = store_once_hash(store_digest_key(bed->store), TENANT, NEW_RULE, text_of(5));
    once->as_key = key_of(2005);
    in_one_batch(bed, ops, 2);
    assert_int_equal(ops[0].result.verdict, RECORD_PROCEED);
    drop(&ops[0]);
    assert_int_equal(ops[1].result.verdict, RECORD_IN_PROGRESS);
    assert_int_equal(check_counts(bed), 1);
}

static void a_record_resolved_with_a_status_alone_is_replayed_in_its_batch(void **state)
{
    struct bed *bed = *state;
    struct store_op ops[] = {write_on(1, STORE_RESOLVE, proceed(bed, 1)), begin_on(1)};
    ops[0].writing.force = true;
    in_one_batch(bed, ops, 2);
    assert_int_equal(ops[1].result.verdict, RECORD_REPLAY);
    assert_int_equal(ops[1].result.found->status, 201);
    drop(&ops[1]);
}

static bool note_row(void *argument, const struct store_row *row, enum record_lease lease)
{
    (void)lease;
    *(int64_t *)argument = row->id;
    return true;
}

/* Else the next page would begin behind a row that was on none. */
static void a_list_says_that_it_looked_no_further_than_it_did(void **state)
{
    struct bed *bed = *state;
    int64_t seen = 0;
    struct store_list list = {.most = 1, .each = note_row, .argument = &seen};
    proceed(bed, 1);
    struct store_op ops[] = {begin_on(2), {.kind = STORE_LIST, .list = &list}};
    in_one_batch(bed, ops, 2);
    assert_in_range(ops[1].result.row, 0, seen);
    assert_true(seen < ops[0].result.row);
}

/* More of them than one statement takes, and some by another one. */
static void each_of_many_rows_of_one_batch_is_kept_as_it_is(void **state)
{
    struct bed *bed = *state;
    enum { MANY = 21 };
    static struct store_op ops[MANY];
    for (int i = 0; i < MANY; i++)
        ops[i] = i % 5 == 4 ? begin(bed, (uint64_t)i, i / 5, &replays) : begin_on((uint64_t)i);
    in_one_batch(bed, ops, MANY);
    assert_int_equal(check_counts(bed), MANY);
    for (int i = 0; i < MANY; i++) {
        char body[16];
        snprintf(body, sizeof body, "answer %d", i);
        assert_int_equal(ops[i].result.verdict, RECORD_PROCEED);
        ops[i] = write_on((uint64_t)i, STORE_FINISH, ops[i].result.record.token);
        ops[i].writing.outcome = outcome_new(201, false, SLICE("A: b\r\n"), slice_of(body));
        ops[i].writing.keeps = true;
    }
    in_one_batch(bed, ops, MANY);
    assert_int_equal(check_counts(bed), MANY);
    for (int i = 0; i < MANY; i++) {
        struct store_op shown = write_on((uint64_t)i, STORE_LOOK, 0);
        run(bed, &shown);
        assert_int_equal(shown.result.record.status, RECORD_COMPLETE);
        assert_int_equal(shown.result.record.token, ops[i].writing.token);
        assert_true(slice_eq(shown.result.found->body, ops[i].writing.outcome->body));
        outcome_unref(shown.result.found);
        outcome_unref(ops[i].writing.outcome);
    }
}

#define T(name) BED_TEST_AFTER(name, bed_set_up_by_hand)

int main(void)
{
    struct CMUnitTest tests[] = {
        T(a_key_bound_to_a_record_that_is_forgotten_begins_a_life_of_its_own),
        T(a_value_held_for_a_record_of_the_old_rule_name_is_seen_under_that_name),
        T(a_record_resolved_with_a_status_alone_is_replayed_in_its_batch),
        T(a_list_says_that_it_looked_no_further_than_it_did),
        T(each_of_many_rows_of_one_batch_is_kept_as_it_is),
    };
    return bed_run_in_peace(tests, sizeof tests / sizeof *tests);
}
