/* SPDX-License-Identifier: Apache-2.0 */
/* How long a lease lasts where its owner's process says that it lives in a row of its own
 * (docs/model/beats.pml), on every backend. Stepped by hand under a clock of its own. */
#include "store_bed.h"

#ifdef PAWL_HOOKS
static int64_t now;

static void set_clock(int64_t to)
{
    now = to;
    clock_test_set(now, now);
}

static int set_up(void **state)
{
    int failed = bed_set_up_closed(state);
    struct bed *bed = *state;
    set_clock(clock_wall_us());
    bed->config.no_thread = true;
    bed_open(bed);
    return failed;
}

static void after(struct bed *bed, int64_t span_us)
{
    set_clock(now + span_us);
    while (store_step(bed->store))
        ;
}

static int64_t proceed_again(struct bed *bed, uint64_t key)
{
    struct store_op op = begin_on(key);
    op.begin.unknown = RECORD_UNKNOWN_RETRY;
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    return op.result.record.token;
}

static void a_beat_writes_one_row_and_no_record(void **state)
{
    struct bed *bed = *state;
    enum { N = 50 };
    for (uint64_t key = 0; key < N; key++)
        proceed(bed, key);
    after(bed, LEASE / 3);
    assert_int_equal(check_counts(bed), N);
    if (bed->kind != BED_SQLITE)
        return;
    assert_int_equal(bed_number(bed, "SELECT count(*) FROM pawl_pending"
                                     " WHERE lease_until <> started_at + lease_us"),
                     0);
    assert_int_equal(bed_number(bed, "SELECT beat_at FROM pawl_owner"), now);
}

/* Long before the end of its lease. */
static void a_waiter_of_a_serve_that_died_is_woken_by_the_next_one(void **state)
{
    struct bed *bed = *state, waiting, next;
    if (bed->kind == BED_POSTGRES) /* there may be several: only beats tell of them */
        return;
    bed_close(bed);
    bed->config.role = STORE_SERVE;
    bed_open(bed);
    open_other(bed, &waiting);
    proceed_again(bed, 1);
    struct store_op op = wait_on(1);
    op.begin.unknown = RECORD_UNKNOWN_RETRY;
    submit(&waiting, &op);
    after(&waiting, SECOND);
    assert_true(store_op_waits(&op));
    bed_close(bed);
    bed_share(&waiting, &next);
    next.config.no_thread = true;
    next.config.role = STORE_SERVE;
    bed_open(&next);
    after(&waiting, SECOND);
    assert_true(store_op_ended(&op));
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    close_other(&next);
    close_other(&waiting);
}

static void a_lease_that_began_behind_the_last_beat_lasts_its_own_time(void **state)
{
    struct bed *bed = *state, other;
    open_other(bed, &other);
    proceed(&other, 1);
    after(&other, LEASE / 3);
    set_clock(now + LEASE / 4);
    proceed(&other, 2);
    close_other(&other);
    set_clock(now + LEASE - 1);
    assert_int_equal(verdict(bed, 2), RECORD_IN_PROGRESS);
    set_clock(now + 1);
    assert_int_equal(verdict(bed, 2), RECORD_OUTCOME_UNKNOWN);
}

static void a_late_beat_keeps_what_nobody_took_and_not_what_was_taken_over(void **state)
{
    struct bed *bed = *state, first, second;
    open_other(bed, &first);
    open_other(bed, &second);
    int64_t taken = proceed_again(&first, 1);
    proceed(&first, 2);
    set_clock(now + LEASE);
    proceed_again(&second, 1);
    after(&first, 0);
    assert_int_equal(act(&first, 1, STORE_EXTEND, taken), RECORD_STALE);
    assert_int_equal(verdict(bed, 2), RECORD_IN_PROGRESS);
    close_other(&second);
    for (int i = 0; i < 3; i++)
        after(&first, LEASE / 3);
    assert_int_equal(verdict(bed, 1), RECORD_OUTCOME_UNKNOWN);
    assert_int_equal(verdict(bed, 2), RECORD_IN_PROGRESS);
    assert_int_equal(check_counts(bed), 2);
    close_other(&first);
}

static void the_lease_of_an_owner_that_died_ends_a_lease_after_its_last_beat(void **state)
{
    struct bed *bed = *state, other;
    open_other(bed, &other);
    proceed(&other, 1);
    after(&other, LEASE / 2);
    int64_t beaten = now;
    after(&other, LEASE / 4);
    close_other(&other);
    struct record seen = look(bed, 1);
    assert_int_equal(seen.lease_until, beaten + LEASE);
    assert_int_equal(seen.lapsed_at, 0);
    set_clock(beaten + LEASE + SECOND);
    assert_int_equal(look(bed, 1).lapsed_at, beaten + LEASE);
    struct store_op op = begin_on(1);
    op.begin.settle_us = SECOND;
    run(bed, &op);
    assert_int_equal(op.result.record.quiet_at, beaten + LEASE + SECOND);
}

static void a_lease_that_is_taken_beside_a_beat_of_none_lasts(void **state)
{
    struct bed *bed = *state, other;
    open_other(bed, &other);
    finish(&other, 1, proceed(&other, 1), "done");
    set_clock(now + LEASE / 2); /* a beat is due, of no lease */
    proceed(&other, 2);
    after(&other, LEASE / 2);
    set_clock(now + 3 * LEASE / 4);
    assert_int_equal(look(bed, 2).lapsed_at, 0);
    close_other(&other);
}

/* check_counts compares the rows of owners with what they hold. */
static void an_owner_has_a_row_for_as_long_as_it_holds_a_lease(void **state)
{
    struct bed *bed = *state, other;
    open_other(bed, &other);
    int64_t tokens[6];
    for (uint64_t key = 0; key < 6; key++)
        tokens[key] = proceed_again(&other, key);
    finish(&other, 0, tokens[0], "done");
    act(&other, 1, STORE_RELEASE, tokens[1]);
    act(&other, 2, STORE_DROP, tokens[2]);
    assert_int_equal(check_counts(bed), 5);
    struct store_op forget = write_on(3, STORE_FORGET, tokens[3]);
    forget.writing.force = true;
    run(bed, &forget);
    set_clock(now + LEASE);
    tokens[4] = proceed_again(bed, 4);
    assert_int_equal(check_counts(bed), 4);
    act(bed, 4, STORE_DOUBT, tokens[4]);
    finish(&other, 5, tokens[5], "late");
    assert_int_equal(check_counts(bed), 4);
    if (bed->kind == BED_SQLITE)
        assert_int_equal(bed_number(bed, "SELECT count(*) FROM pawl_owner"), 0);
    close_other(&other);
}

#define T(name) BED_TEST_AFTER(name, set_up)

int main(void)
{
    struct CMUnitTest tests[] = {
        T(a_beat_writes_one_row_and_no_record),
        T(a_waiter_of_a_serve_that_died_is_woken_by_the_next_one),
        T(a_lease_that_began_behind_the_last_beat_lasts_its_own_time),
        T(a_late_beat_keeps_what_nobody_took_and_not_what_was_taken_over),
        T(the_lease_of_an_owner_that_died_ends_a_lease_after_its_last_beat),
        T(a_lease_that_is_taken_beside_a_beat_of_none_lasts),
        T(an_owner_has_a_row_for_as_long_as_it_holds_a_lease),
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
