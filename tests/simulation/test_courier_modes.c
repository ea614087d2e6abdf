/* SPDX-License-Identifier: Apache-2.0 */
/* The courier alone, in virtual time: when it ends, whose turn it is, what it leaves alone. */
#include "courier_bed.h"

/* ---- when it ends ---- */

static void add_two_and_a_later_one(void)
{
    struct store_task later = task_of("c", "x", ""), brief = task_of("b", "y", "");
    later.task.due_at += 3600 * S;
    brief.lasts_us = 600 * S;
    add("a", "x", "");
    add_task(brief);
    add_task(later);
}

static void expect_only_the_later_one_to_wait(void)
{
    assert_int_equal(bed.end, COURIER_FINISHED);
    assert_int_equal(read_task("a").state, TASK_DONE);
    assert_int_equal(read_task("b").state, TASK_WAITING); /* failed once */
    assert_int_equal(read_task("b").attempts, 1);
    assert_int_equal(read_task("b").status, 503);
    assert_int_equal(read_task("c").attempts, 0);
}

static void once_ends_when_nothing_is_due_any_more(void **state)
{
    (void)state;
    bed.class['b' - 'a'] = RETRY_LATER;
    run(COURIER_ONCE, add_two_and_a_later_one, expect_only_the_later_one_to_wait);
}

static void expect_all_to_have_ended(void)
{
    assert_int_equal(bed.end, COURIER_FINISHED);
    assert_int_equal(read_task("a").state, TASK_DONE);
    assert_int_equal(read_task("b").reason, TASK_REASON_DEADLINE);
    assert_int_equal(read_task("b").attempts, 11);
    assert_int_equal(read_task("c").state, TASK_DONE);
    assert_int_equal(courier_count(bed.courier).attempts, 13);
}

static void until_empty_waits_for_what_is_due_later(void **state)
{
    (void)state;
    bed.class['b' - 'a'] = RETRY_LATER;
    bed.drain_at = 0;
    run(COURIER_UNTIL_EMPTY, add_two_and_a_later_one, expect_all_to_have_ended);
}

static void expect_drained(void)
{
    assert_int_equal(bed.end, COURIER_DRAINED);
    assert_int_equal(read_task("a").state, TASK_DONE);
}

static void a_drain_ends_it_when_what_it_began_has_ended(void **state)
{
    (void)state;
    bed.drain_at = bed.boot + 10 * S;
    run(COURIER_FOLLOW, add_two_and_a_later_one, expect_drained);
}

/* ---- what it leaves alone ---- */

static void add_and_pause(void)
{
    add("a", "x", "");
    add("b", "y", "");
    add("c", "y", "group");
    add("d", "y", "other");
    pause("x", "");
    pause("", "group");
}

static void expect_paused_ones_to_wait(void)
{
    assert_int_equal(bed.end, COURIER_FINISHED);
    assert_int_equal(read_task("a").state, TASK_WAITING);
    assert_int_equal(read_task("b").state, TASK_DONE);
    assert_int_equal(read_task("c").state, TASK_WAITING);
    assert_int_equal(read_task("d").state, TASK_DONE);
}

static void what_is_paused_waits_and_nothing_waits_for_it(void **state)
{
    (void)state;
    run(COURIER_UNTIL_EMPTY, add_and_pause, expect_paused_ones_to_wait);
}

/* ---- orders ---- */

/* All of them due: as if they had been added at the same time. */
static void add_orders(void)
{
    add("a", "x", "group");
    add("b", "y", "group");
    add("c", "z", "group");
}

static void expect_three_in_a_row(void)
{
    assert_string_equal(bed.sent, "abc");
    assert_int_equal(read_task("c").state, TASK_DONE);
}

static void an_order_is_kept_over_lanes(void **state)
{
    (void)state;
    run(COURIER_UNTIL_EMPTY, add_orders, expect_three_in_a_row);
}

static void expect_the_rest_to_be_held(void)
{
    assert_int_equal(bed.end, COURIER_FINISHED);
    assert_string_equal(bed.sent, "ab");
    assert_int_equal(read_task("b").state, TASK_DEAD);
    assert_true(read_task("b").holds);
    assert_int_equal(read_task("c").due_at, CLOCK_NEVER);
}

static void a_dead_task_holds_its_order_and_the_end_does_not_wait(void **state)
{
    (void)state;
    bed.class['b' - 'a'] = RETRY_FINAL;
    run(COURIER_UNTIL_EMPTY, add_orders, expect_the_rest_to_be_held);
}

/* ---- claims ---- */

static void add_one(void)
{
    add("a", "x", "");
}

static void expect_it_was_done_already(void)
{
    assert_int_equal(bed.attempts, 0);
    assert_int_equal(read_task("a").state, TASK_DONE);
    assert_int_equal(read_task("a").reason, TASK_REASON_ALREADY);
    assert_int_equal(read_task("a").attempts, 0);
}

static void what_was_done_before_is_done_without_a_request(void **state)
{
    (void)state;
    bed.kind.claim = settle_claim;
    run(COURIER_UNTIL_EMPTY, add_one, expect_it_was_done_already);
}

static void add_one_of_a_dead_owner(void)
{
    struct store_task task = task_of("a", "x", "");
    const struct task_claim claim = {.owner = 6, .lease_us = 5 * S};
    task_claim(&task.task, &claim, task.task.due_at);
    add_task(task);
}

static void expect_it_was_sent_again(void)
{
    assert_int_equal(bed.attempts, 1);
    assert_int_equal(read_task("a").state, TASK_DONE);
    assert_int_equal(read_task("a").attempts, 2);
    assert_int_equal(courier_count(bed.courier).lost, 1);
    assert_true(bed.boot >= 1005 * S);
}

static void what_a_dead_owner_left_is_sent_again_once_its_lease_is_over(void **state)
{
    (void)state;
    run(COURIER_UNTIL_EMPTY, add_one_of_a_dead_owner, expect_it_was_sent_again);
}

static struct courier_verdict refuse_claim(const struct courier_kind *kind,
                                           struct courier_delivery *delivery, struct rows *rows)
{
    (void)kind;
    (void)delivery;
    (void)rows;
    bed.attempts++;
    return (struct courier_verdict){.claim = COURIER_DOWN};
}

static void expect_no_more_than_a_claim_a_second(void)
{
    assert_int_equal(bed.end, COURIER_DRAINED);
    assert_in_range(bed.attempts, 8, 11);
    assert_int_equal(read_task("a").attempts, 0);
}

static void a_store_that_takes_no_claim_is_asked_once_a_second(void **state)
{
    (void)state;
    bed.kind.claim = refuse_claim;
    bed.drain_at = bed.boot + 10 * S;
    run(COURIER_ONCE, add_one, expect_no_more_than_a_claim_a_second);
}

static void add_and_pause_many(void)
{
    char ord[16];
    for (int i = 0; i < 200; i++) {
        (void)snprintf(ord, sizeof ord, "group-%d", i);
        pause("", ord);
    }
    add("a", "x", "group-199");
    add("b", "x", "group-200");
}

static void expect_the_last_paused_one_to_wait(void)
{
    assert_string_equal(bed.sent, "b");
}

static void however_many_are_paused_none_of_them_is_sent(void **state)
{
    (void)state;
    run(COURIER_UNTIL_EMPTY, add_and_pause_many, expect_the_last_paused_one_to_wait);
}

/* ---- turns ---- */

static void add_three_to_each_of_many_lanes(void)
{
    char lane[8], key[16];
    for (int i = 0; i < LANES_MANY; i++)
        for (int n = 0; n < 3; n++) {
            (void)snprintf(lane, sizeof lane, "%d", i);
            (void)snprintf(key, sizeof key, "a%d-%d", i, n);
            add(key, lane, "");
        }
}

static void expect_nobody_to_be_out_of_turn(void)
{
    assert_int_equal(bed.attempts, 3 * LANES_MANY);
    assert_false(bed.out_of_turn);
}

static void lanes_are_served_in_turn_when_there_is_room_for_few(void **state)
{
    (void)state;
    bed.overall = 8;
    bed.kind.limits.in_flight = 1;
    run(COURIER_UNTIL_EMPTY, add_three_to_each_of_many_lanes, expect_nobody_to_be_out_of_turn);
}

/* ---- what metrics show ---- */

static void expect_lines(const char *const *lines, size_t n)
{
    BUF_AUTO struct buf page = buf_make(PAGE_MAX);
    courier_write_series(bed.courier, &page);
    buf_add_char(&page, '\0');
    assert_true(buf_ok(&page));
    for (size_t i = 0; i < n; i++)
        if (!strstr(buf_slice(&page).at, lines[i]))
            fail_msg("no %s in\n%s", lines[i], buf_slice(&page).at);
}

/* One was due 100 s ago, one is now: an attempt takes 0.1 s, and a step of the clock 0.01 s. */
static void add_a_late_one_and_another(void)
{
    struct store_task late = task_of("a", "x", "");
    late.task.due_at -= 100 * S;
    add_task(late);
    add("b", "x", "");
}

static void expect_waits_to_the_first_byte(void)
{
    static const char *const lines[] = {
        "pawl_task_wait_seconds_bucket{le=\"5\"} 0\n",
        "pawl_task_wait_seconds_bucket{le=\"30\"} 1\n",
        "pawl_task_wait_seconds_bucket{le=\"120\"} 2\n",
        "pawl_task_wait_seconds_count 2\n",
    };
    expect_lines(lines, sizeof lines / sizeof lines[0]);
}

static void a_wait_lasts_from_when_it_was_due_to_its_first_byte(void **state)
{
    (void)state;
    bed.sends_after_us = 10 * S;
    run(COURIER_UNTIL_EMPTY, add_a_late_one_and_another, expect_waits_to_the_first_byte);
}

static void expect_no_wait(void)
{
    static const char *const lines[] = {"pawl_task_wait_seconds_count 0\n"};
    assert_int_equal(bed.attempts, 2);
    expect_lines(lines, 1);
}

static void what_sent_nothing_has_no_wait(void **state)
{
    (void)state;
    bed.sends_after_us = -1;
    run(COURIER_UNTIL_EMPTY, add_a_late_one_and_another, expect_no_wait);
}

static void add_ten_that_fail_and_one_that_does_not(void)
{
    for (int i = 0; i < LANE_OPENS_AT; i++)
        add((const char[]){'b', (char)('a' + i), '\0'}, "x", "");
    add("a", "y", "");
}

static void expect_one_open_breaker_of_others(void)
{
    static const char *const lines[] = {"\npawl_breaker_open{lane=\"(other)\"} 1\n"};
    expect_lines(lines, 1);
}

static struct slice label_lane(const struct courier_kind *kind, struct slice lane)
{
    assert_ptr_equal(kind, &bed.kind);
    return slice_eq(lane, SLICE("x")) ? SLICE("crm") : SLICE("stored");
}

static void expect_one_open_breaker_of_two(void)
{
    static const char *const lines[] = {"\npawl_breaker_open{lane=\"crm\"} 1\n",
                                        "\npawl_breaker_open{lane=\"stored\"} 0\n"};
    expect_lines(lines, 2);
}

static void fail_until_the_breaker_opens(void (*look)(void))
{
    bed.class['b' - 'a'] = RETRY_LATER;
    bed.drain_at = bed.boot + 10 * S;
    run(COURIER_FOLLOW, add_ten_that_fail_and_one_that_does_not, look);
}

static void an_open_breaker_is_shown_under_what_its_kind_calls_the_lane(void **state)
{
    (void)state;
    bed.kind.label = label_lane;
    fail_until_the_breaker_opens(expect_one_open_breaker_of_two);
}

static void lanes_of_a_kind_without_labels_are_the_others(void **state)
{
    (void)state;
    fail_until_the_breaker_opens(expect_one_open_breaker_of_others);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BED_TEST(once_ends_when_nothing_is_due_any_more),
        BED_TEST(until_empty_waits_for_what_is_due_later),
        BED_TEST(a_drain_ends_it_when_what_it_began_has_ended),
        BED_TEST(what_is_paused_waits_and_nothing_waits_for_it),
        BED_TEST(an_order_is_kept_over_lanes),
        BED_TEST(a_dead_task_holds_its_order_and_the_end_does_not_wait),
        BED_TEST(what_was_done_before_is_done_without_a_request),
        BED_TEST(what_a_dead_owner_left_is_sent_again_once_its_lease_is_over),
        BED_TEST(a_store_that_takes_no_claim_is_asked_once_a_second),
        BED_TEST(however_many_are_paused_none_of_them_is_sent),
        BED_TEST(lanes_are_served_in_turn_when_there_is_room_for_few),
        BED_TEST(a_wait_lasts_from_when_it_was_due_to_its_first_byte),
        BED_TEST(what_sent_nothing_has_no_wait),
        BED_TEST(an_open_breaker_is_shown_under_what_its_kind_calls_the_lane),
        BED_TEST(lanes_of_a_kind_without_labels_are_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
