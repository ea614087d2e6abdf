/* SPDX-License-Identifier: Apache-2.0 */
/* `first:`: an acquisition that asks before it sends is stored as one, and what becomes of it is.
 */
#include "store_bed.h"

static struct store_op asks(uint64_t key, enum record_first first)
{
    struct store_op op = begin_on(key);
    op.begin.unknown = RECORD_UNKNOWN_PROBE;
    op.begin.first = first;
    return op;
}

static int64_t inquire(struct bed *bed, uint64_t key)
{
    struct store_op op = asks(key, RECORD_FIRST_ALWAYS);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_INQUIRE);
    struct record record = look(bed, key);
    assert_true(record_is_asking(&record) && record.asking == op.result.record.token);
    assert_int_equal(record.quiet_at, 0);
    return op.result.record.token;
}

static enum record_verdict verdict_of(struct bed *bed, uint64_t key)
{
    struct store_op op = asks(key, RECORD_FIRST_ALWAYS);
    run(bed, &op);
    outcome_unref(op.result.found);
    return op.result.verdict;
}

static void set(struct bed *bed, struct terms wanted)
{
    struct terms_change terms = {store_terms(bed->store), wanted};
    struct store_op op = {.kind = STORE_ROWS, .rows.terms = &terms};
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
}

static void what_turns_is_sent_under_the_token_that_asked(void **state)
{
    struct bed *bed = *state;
    int64_t token = inquire(bed, 1);
    int64_t began_at = look(bed, 1).started_at;
    assert_int_equal(act(bed, 1, STORE_TURN, token - 1), RECORD_STALE);
    assert_int_equal(act(bed, 1, STORE_TURN, token), RECORD_WRITTEN);
    struct record record = look(bed, 1);
    assert_true(record.asking == 0 && record.token == token && record.lease_until > 0);
    assert_true(record.started_at >= began_at && record.attempts == 1);
    assert_int_equal(act(bed, 1, STORE_TURN, token), RECORD_ALREADY);
    assert_int_equal(finish(bed, 1, token, "done"), RECORD_WRITTEN);
    assert_int_equal(verdict_of(bed, 1), RECORD_REPLAY);
    check_counts(bed);
}

static void what_was_found_is_replayed(void **state)
{
    struct bed *bed = *state;
    assert_int_equal(finish(bed, 1, inquire(bed, 1), "found"), RECORD_WRITTEN);
    assert_int_equal(verdict_of(bed, 1), RECORD_REPLAY);
    assert_int_equal(act(bed, 2, STORE_RELEASE, inquire(bed, 2)), RECORD_WRITTEN);
    assert_int_equal(verdict_of(bed, 2), RECORD_INQUIRE);
    check_counts(bed);
}

static void of_what_lapsed_while_it_asked_another_process_asks(void **state)
{
    struct bed *bed = *state;
    struct store_op op = asks(1, RECORD_FIRST_ALWAYS);
    if (bed->kind == BED_TOY) /* has no other process */
        return;
    op.begin.lease_us = 1;
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_INQUIRE);
    bed_close(bed);
    bed_open(bed);
    struct record record = look(bed, 1);
    assert_true(record_is_asking(&record) && !record_in_doubt(&record, RECORD_LEASE_LAPSED));
    assert_int_equal(verdict_of(bed, 1), RECORD_INQUIRE);
    assert_true(look(bed, 1).asking > op.result.record.token);
    assert_int_equal(act(bed, 1, STORE_TURN, op.result.record.token), RECORD_STALE);
}

static void where_nothing_begins_nothing_turns(void **state)
{
    struct bed *bed = *state;
    int64_t token = inquire(bed, 1);
    set(bed, (struct terms){.frozen = 1, .frozen_at = 1});
    assert_int_equal(act(bed, 1, STORE_TURN, token), RECORD_EARLY);
    struct record record = look(bed, 1);
    assert_true(record_is_released(&record) && record_is_asking(&record));
    set(bed, (struct terms){0});
    assert_int_equal(verdict_of(bed, 1), RECORD_INQUIRE);
}

static void while_records_may_be_missing_a_begin_asks(void **state)
{
    struct bed *bed = *state;
    struct store_op op = asks(1, RECORD_FIRST_RESTORED);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    assert_false(op.result.unproved);
    assert_int_equal(act(bed, 1, STORE_RELEASE, op.result.record.token), RECORD_WRITTEN);
    bed->config.accepts_weaker = true;
    set(bed, (struct terms){.restored_since = 1, .restored_at = store_now(bed->store)});
    op = asks(1, RECORD_FIRST_RESTORED); /* released before the mark */
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_INQUIRE);
    struct store_op turn = write_on(1, STORE_TURN, op.result.record.token);
    turn.writing.looked_at = store_terms(bed->store).restored_at;
    run(bed, &turn);
    assert_int_equal(turn.result.write, RECORD_EARLY);
    op = begin_on(2); /* under `hold` */
    run(bed, &op);
    assert_true(op.result.verdict == RECORD_PROCEED && op.result.unproved);
    op = begin_on(3);
    op.begin.key_at = 1;
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_UNPROVED);
    set(bed, (struct terms){0});
    op = asks(4, RECORD_FIRST_RESTORED);
    run(bed, &op);
    assert_true(op.result.verdict == RECORD_PROCEED && !op.result.unproved);
    check_counts(bed);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        BED_TEST(what_turns_is_sent_under_the_token_that_asked),
        BED_TEST(what_was_found_is_replayed),
        BED_TEST(of_what_lapsed_while_it_asked_another_process_asks),
        BED_TEST(where_nothing_begins_nothing_turns),
        BED_TEST(while_records_may_be_missing_a_begin_asks),
    };
    return bed_run_in_peace(tests, sizeof tests / sizeof *tests);
}
