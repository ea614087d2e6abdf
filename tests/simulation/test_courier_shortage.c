/* SPDX-License-Identifier: Apache-2.0 */
/* The courier in virtual time, where memory is short. */
#include "courier_bed.h"

static void set_frozen(bool frozen)
{
    struct terms_change change = {.expected.frozen = !frozen, .wanted.frozen = frozen};
    struct store_op op = {.kind = STORE_ROWS, .rows.terms = &change};
    store_run(bed.store, &op, fiber_parker(), CLOCK_NEVER);
    assert_int_equal(op.result.status, STORE_DONE);
}

static void pause_in_a_frozen_store(void)
{
    add("a", "x", "");
    for (int i = 0; i < 500; i++) {
        char ord[8];
        snprintf(ord, sizeof ord, "%d", i);
        pause("y", ord);
    }
    pause("x", "");
    set_frozen(true);
}

static void give_way(int64_t span_us)
{
    for (int64_t until = bed.boot + span_us; bed.boot < until;)
        fiber_yield();
}

/* Within a second of the pass that found it frozen: one that fails to read what is paused, and one
 * that finds the store open. */
static void thaw_and_lose_a_read(void)
{
    while (!bed.courier)
        fiber_yield();
    fiber_sleep_until(bed.boot + 2 * S);
    give_way(S / 10);
    set_frozen(false);
    mem_fail_nth(bed.failing);
    courier_wake(bed.courier);
    for (int i = 0; i < 40 && !mem_fail_fired(); i++)
        give_way(S / 100);
    bed.failing = mem_fail_fired() ? bed.failing + 1 : 0;
    mem_fail_nth(0);
    courier_wake(bed.courier);
}

static void expect_nothing_sent(void)
{
    assert_int_equal(bed.end, COURIER_DRAINED);
    assert_int_equal(bed.attempts, 0);
}

static void what_is_paused_waits_when_a_read_fails_as_the_store_thaws(void **state)
{
    for (long failing = 1; failing > 0 && failing <= 8; failing = bed.failing) {
        if (failing > 1) {
            (void)tear_down(state);
            assert_int_equal(set_up(state), 0);
        }
        bed.failing = failing;
        bed.disturb = thaw_and_lose_a_read;
        bed.drain_at = bed.boot + 12 * S;
        run(COURIER_FOLLOW, pause_in_a_frozen_store, expect_nothing_sent);
    }
}

static void add_one(void)
{
    add("a", "x", "");
}

/* One of the allocations behind each look fails. */
static struct courier_limits fail_behind(const struct courier_kind *kind, struct slice lane)
{
    (void)lane;
    bed.begins += bed.boot < bed.fails_until;
    mem_fail_nth(bed.boot < bed.fails_until ? bed.failing : 0);
    return kind->limits;
}

static void expect_few_begins_and_one_attempt(void)
{
    assert_in_range(bed.begins, 1, 4);
    assert_int_equal(read_task("a").state, TASK_DONE);
    assert_int_equal(bed.attempts, 1);
}

static void what_cannot_begin_is_not_tried_again_at_once(void **state)
{
    for (long failing = 1; failing <= 8; failing++) {
        if (failing > 1) {
            (void)tear_down(state);
            assert_int_equal(set_up(state), 0);
        }
        bed.failing = failing;
        bed.fails_until = bed.boot + S / 2;
        bed.drain_at = bed.boot + 10 * S;
        bed.kind.limits_of = fail_behind;
        run(COURIER_FOLLOW, add_one, expect_few_begins_and_one_attempt);
        mem_fail_nth(0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BED_TEST(what_is_paused_waits_when_a_read_fails_as_the_store_thaws),
        BED_TEST(what_cannot_begin_is_not_tried_again_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
