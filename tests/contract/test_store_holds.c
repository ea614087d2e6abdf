/* SPDX-License-Identifier: Apache-2.0 */
/* `unknown: {hold: 10m}`: the end of a hold is stored with what acquires behind it, or by whoever
 * knows the rule, and is written into the audit. */
#include "once_bed.h"

#include "store/tables/audit.h"

#define AT_ONCE 1 /* microsecond: over by the next batch */

static struct store_op under(uint64_t key, int64_t hold_us)
{
    struct store_op op = begin_on(key);
    op.begin.hold_us = hold_us;
    return op;
}

static int64_t doubtful(struct bed *bed, uint64_t key, int64_t hold_us)
{
    struct store_op op = under(key, hold_us);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    assert_false(op.result.outlived_hold);
    assert_int_equal(act(bed, key, STORE_DOUBT, op.result.record.token), RECORD_WRITTEN);
    return op.result.record.token;
}

static struct store_op end_of(uint64_t key, int64_t token, int64_t hold_us)
{
    struct store_op op = write_on(key, STORE_END_HOLD, token);
    op.writing.actor = STORE_ACTOR_RULE;
    op.begin.hold_us = hold_us;
    return op;
}

static void count_hold(void *argument, const struct table_row *row)
{
    const struct store_audit *audit = (const struct store_audit *)row;
    assert_int_equal(audit->act, STORE_ACT_HOLD);
    assert_true(slice_eq(audit->actor, STORE_ACTOR_RULE));
    assert_int_equal(audit->to, RECORD_PENDING);
    ++*(size_t *)argument;
}

static size_t ends(struct bed *bed)
{
    size_t n = 0;
    struct table_query query = {
        .table = &audit_table, .limit = 100, .each = count_hold, .argument = &n};
    struct store_op op = {.kind = STORE_QUERY, .query = &query};
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
    return n;
}

static void behind_its_end_the_next_begin_proceeds_and_the_audit_says_why(void **state)
{
    struct bed *bed = *state;
    int64_t token = doubtful(bed, 1, AT_ONCE);
    struct store_op next = under(1, AT_ONCE);
    run(bed, &next);
    assert_int_equal(next.result.verdict, RECORD_PROCEED);
    assert_true(next.result.outlived_hold && next.result.record.token > token &&
                !next.result.record.doubt);
    assert_int_equal(look(bed, 1).cause, RECORD_CAUSE_HOLD_ENDED);
    assert_int_equal(ends(bed), 1);
    assert_int_equal(finish(bed, 1, token, "late"), RECORD_STALE);
    assert_int_equal(finish(bed, 1, next.result.record.token, "once more"), RECORD_WRITTEN);
    assert_int_equal(verdict(bed, 1), RECORD_REPLAY);
    check_counts(bed);
}

static void the_longer_one_is_kept_with_the_record(void **state)
{
    struct bed *bed = *state;
    doubtful(bed, 1, TTL);
    doubtful(bed, 2, 0);
    if (bed->kind != BED_TOY) {
        bed_close(bed);
        bed_open(bed);
    }
    assert_true(look(bed, 1).hold_us == TTL && look(bed, 2).hold_us == 0);
    for (uint64_t key = 1; key <= 2; key++) {
        struct store_op op = under(key, AT_ONCE);
        run(bed, &op);
        assert_int_equal(op.result.verdict, RECORD_OUTCOME_UNKNOWN);
    }
    assert_int_equal(ends(bed), 0);
}

static void what_is_acquired_anew_has_the_hold_of_its_begin(void **state)
{
    struct bed *bed = *state;
    static const int64_t holds[] = {TTL, 0, SECOND, SECOND, 0};
    for (size_t i = 0; i < sizeof holds / sizeof *holds; i++) {
        struct store_op op = under(1, holds[i]);
        run(bed, &op);
        assert_int_equal(op.result.verdict, RECORD_PROCEED);
        assert_true(look(bed, 1).hold_us == holds[i]);
        assert_int_equal(act(bed, 1, STORE_RELEASE, op.result.record.token), RECORD_WRITTEN);
        assert_true(look(bed, 1).hold_us == holds[i]);
    }
}

static void whoever_knows_the_rule_ends_it_without_a_begin(void **state)
{
    struct bed *bed = *state;
    int64_t token = doubtful(bed, 1, AT_ONCE);
    struct store_op early = end_of(1, token, TTL);
    run(bed, &early);
    assert_int_equal(early.result.write, RECORD_EARLY);
    assert_int_equal(store_counts(bed->store).unknown, 1);
    struct store_op end = end_of(1, token, AT_ONCE);
    run(bed, &end);
    assert_int_equal(end.result.write, RECORD_WRITTEN);
    assert_int_equal(ends(bed), 1);
    assert_int_equal(store_counts(bed->store).unknown, 0);
    assert_int_equal(store_counts(bed->store).released, 1);
    struct store_op again = end_of(1, token, AT_ONCE);
    run(bed, &again);
    assert_int_equal(again.result.write, RECORD_ALREADY);
    struct store_op next = begin_on(1);
    run(bed, &next);
    assert_true(next.result.verdict == RECORD_PROCEED && !next.result.outlived_hold);
    check_counts(bed);
}

static void a_frozen_store_ends_no_hold(void **state)
{
    struct bed *bed = *state;
    struct terms_change freeze = {.wanted = {.frozen = 1}};
    struct store_op terms = {.kind = STORE_ROWS, .rows.terms = &freeze};
    if (bed->kind == BED_TOY || bed->kind == BED_HOSTILE)
        return;
    int64_t token = doubtful(bed, 1, AT_ONCE);
    freeze.expected = (struct terms){0};
    run(bed, &terms);
    assert_int_equal(terms.result.status, STORE_DONE);
    struct store_op end = end_of(1, token, AT_ONCE), next = under(1, AT_ONCE);
    run(bed, &end);
    run(bed, &next);
    assert_true(end.result.status == STORE_FROZEN && next.result.status == STORE_FROZEN);
    assert_int_equal(look(bed, 1).status, RECORD_UNKNOWN);
    assert_int_equal(ends(bed), 0);
}

static void a_once_value_is_free_for_another_request_behind_the_end(void **state)
{
    struct bed *bed = *state;
    struct store_op first = begin(bed, 1, 5, &rejects);
    first.begin.hold_us = AT_ONCE;
    run(bed, &first);
    assert_int_equal(first.result.verdict, RECORD_PROCEED);
    assert_int_equal(act(bed, 1, STORE_DOUBT, first.result.record.token), RECORD_WRITTEN);
    assert_int_equal(ask_other(bed, 2, 5, &rejects), RECORD_OUTCOME_UNKNOWN);
    struct store_op other = begin(bed, 2, 5, &rejects);
    other.begin.hold_us = AT_ONCE;
    other.begin.payload_hash.bytes[0] ^= 1;
    run(bed, &other);
    assert_true(other.result.verdict == RECORD_PROCEED && other.result.outlived_hold);
    drop(&other);
    assert_int_equal(ends(bed), 1);
    assert_int_equal(act(bed, 1, STORE_FINISH, first.result.record.token), RECORD_STALE);
    check_counts(bed);
}

/* From before the rule had `once`, and held itself where `held`. */
static void check_taken(struct bed *bed, uint64_t key, uint64_t value, bool held)
{
    size_t before = ends(bed);
    if (held)
        doubtful(bed, key, AT_ONCE);
    else
        act(bed, key, STORE_RELEASE, proceed(bed, key));
    struct store_op holder = begin(bed, key + 1, value, &rejects);
    holder.begin.hold_us = AT_ONCE;
    run(bed, &holder);
    assert_int_equal(holder.result.verdict, RECORD_PROCEED);
    assert_int_equal(act(bed, key + 1, STORE_DOUBT, holder.result.record.token), RECORD_WRITTEN);
    struct store_op op = begin(bed, key, value, &rejects);
    op.begin.hold_us = AT_ONCE;
    run(bed, &op);
    assert_true(op.result.verdict == RECORD_PROCEED && op.result.outlived_hold);
    drop(&op);
    assert_int_equal(ends(bed), before + 1 + held);
    assert_int_equal(act(bed, key + 1, STORE_FINISH, holder.result.record.token), RECORD_STALE);
    check_counts(bed);
}

static void a_record_that_takes_a_value_behind_the_end_says_so(void **state)
{
    check_taken(*state, 1, 5, false);
    check_taken(*state, 3, 6, true);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        BED_TEST(behind_its_end_the_next_begin_proceeds_and_the_audit_says_why),
        BED_TEST(the_longer_one_is_kept_with_the_record),
        BED_TEST(what_is_acquired_anew_has_the_hold_of_its_begin),
        BED_TEST(whoever_knows_the_rule_ends_it_without_a_begin),
        BED_TEST(a_frozen_store_ends_no_hold),
        BED_TEST(a_once_value_is_free_for_another_request_behind_the_end),
        BED_TEST(a_record_that_takes_a_value_behind_the_end_says_so),
    };
    return bed_run_in_peace(tests, sizeof tests / sizeof *tests);
}
