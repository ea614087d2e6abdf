/* SPDX-License-Identifier: Apache-2.0 */
#include "job/slots.h"

#include "base/check.h"
#include "fiber/fiber.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define START (1000 * CLOCK_US_PER_S) /* boot time at the beginning of a test */
#define USERS 6

/* Each user is a fiber: it enters, stays until it is told to go, and leaves. What happens is noted:
 * its letter when it is in, '.' when it has left, '!' when it was refused. */
struct user {
    struct bed *bed;
    char letter;
    struct parker *parker;
    bool may_go;
    int64_t entered_at;
};

struct bed {
    struct slots slots;
    struct user users[USERS];
    size_t n;
    char text[64];
    size_t len;
    void (*act)(struct bed *bed); /* once all users that can be in are */
};

static void note(struct bed *bed, char letter)
{
    CHECK(bed->len + 1 < sizeof bed->text);
    bed->text[bed->len++] = letter;
}

static void use(void *argument)
{
    struct user *user = argument;
    struct runner_gate *gate = &user->bed->slots.gate;
    user->parker = fiber_parker();
    if (!gate->enter(gate, fiber_parker())) {
        note(user->bed, '!');
        return;
    }
    user->entered_at = clock_boot_us();
    note(user->bed, user->letter);
    while (!user->may_go)
        (void)user->parker->park(user->parker, CLOCK_NEVER);
    gate->leave(gate);
    note(user->bed, '.');
}

static void go(struct user *user)
{
    user->may_go = true;
    parker_wake(user->parker);
}

/* Until every fiber that can do something has: each of them gets several turns. */
static void settle(void)
{
    for (int i = 0; i < 50; i++)
        fiber_yield();
}

static void act(void *argument)
{
    struct bed *bed = argument;
    settle();
    bed->act(bed);
}

static void play(struct bed *bed, size_t most, int64_t per_second, void (*how)(struct bed *bed))
{
    clock_test_set(START, START);
    struct loop *loop = loop_new(USERS + 1);
    slots_init(&bed->slots, most, per_second > 0 ? CLOCK_US_PER_S / per_second : 0);
    bed->act = how;
    for (size_t i = 0; i < bed->n; i++) {
        bed->users[i] = (struct user){.bed = bed, .letter = (char)('a' + i)};
        assert_true(fiber_spawn(loop, "user", use, &bed->users[i]));
    }
    assert_true(fiber_spawn(loop, "act", act, bed));
    loop_stop(loop);
    loop_run(loop);
    loop_free(loop);
    clock_test_set(0, 0);
}

/* ---- how many ---- */

static void let_go_one_by_one(struct bed *bed)
{
    for (size_t i = 0; i < bed->n; i++) {
        CHECK(bed->slots.taken <= bed->slots.most);
        go(&bed->users[i]);
        settle();
    }
}

static void test_so_many_are_in_at_a_time_and_others_follow_in_order_of_arrival(void **state)
{
    (void)state;
    struct bed bed = {.n = 5};
    play(&bed, 2, 0, let_go_one_by_one);
    assert_string_equal(bed.text, "ab.c.d.e..");
    assert_int_equal(bed.slots.taken, 0);
}

static void let_go_the_last_first(struct bed *bed)
{
    go(&bed->users[2]);
    settle();
    go(&bed->users[0]);
    go(&bed->users[1]);
    settle();
    for (size_t i = 3; i < bed->n; i++)
        go(&bed->users[i]);
}

static void test_whichever_leaves_who_came_first_is_next(void **state)
{
    (void)state;
    struct bed bed = {.n = 6};
    play(&bed, 3, 0, let_go_the_last_first);
    assert_string_equal(bed.text, "abc.d..ef...");
}

static void come_back(struct bed *bed)
{
    struct runner_gate *gate = &bed->slots.gate;
    for (size_t i = 0; i < bed->n; i++)
        go(&bed->users[i]);
    CHECK(gate->enter(gate, fiber_parker()));
    note(bed, 'z');
    gate->leave(gate);
}

static void test_who_asks_later_stands_behind_those_that_wait(void **state)
{
    (void)state;
    struct bed bed = {.n = 3};
    play(&bed, 1, 0, come_back);
    assert_string_equal(bed.text, "a.b.c.z");
}

/* ---- how often ---- */

static void pass_time(struct bed *bed)
{
    for (size_t i = 0; i < bed->n; i++)
        go(&bed->users[i]);
    settle();
    for (int64_t now = START; bed->len < 2 * bed->n; now += 10 * CLOCK_US_PER_MS) {
        clock_test_set(now, now);
        fiber_sleep_until(now);
        settle();
        fiber_sleep_until(now);
    }
}

static void test_beginnings_are_as_far_apart_as_the_rate_says_and_the_first_is_at_once(void **state)
{
    (void)state;
    struct bed bed = {.n = 4};
    play(&bed, 10, 4, pass_time);
    assert_string_equal(bed.text, "a.b.c.d.");
    for (size_t i = 0; i < 4; i++) {
        int64_t at = START + (int64_t)i * 250 * CLOCK_US_PER_MS;
        assert_true(bed.users[i].entered_at >= at);
        assert_true(bed.users[i].entered_at < at + 100 * CLOCK_US_PER_MS);
    }
}

static void be_late(struct bed *bed)
{
    int64_t now = START + 100 * CLOCK_US_PER_S;
    go(&bed->users[0]);
    settle();
    clock_test_set(now, now);
    for (size_t i = 1; i < bed->n; i++)
        go(&bed->users[i]);
    while (bed->len < 4)
        fiber_yield();
    settle();
    CHECK(bed->len == 4);
    now += CLOCK_US_PER_S;
    clock_test_set(now, now);
}

static void test_what_was_missed_is_not_made_up_for(void **state)
{
    (void)state;
    struct bed bed = {.n = 3};
    play(&bed, 10, 1, be_late);
    assert_string_equal(bed.text, "a.b.c.");
    assert_int_equal(bed.users[1].entered_at, START + 100 * CLOCK_US_PER_S);
    assert_int_equal(bed.users[2].entered_at, START + 101 * CLOCK_US_PER_S);
}

/* ---- closing ---- */

static void close_them(struct bed *bed)
{
    slots_close(&bed->slots);
    settle();
    CHECK(bed->slots.taken == 2);
    go(&bed->users[0]);
    go(&bed->users[1]);
}

static void test_closing_lets_go_all_that_wait_and_those_within_leave_as_ever(void **state)
{
    (void)state;
    struct bed bed = {.n = 5};
    play(&bed, 2, 0, close_them);
    assert_string_equal(bed.text, "ab!!!..");
    assert_int_equal(bed.slots.taken, 0);
}

static void close_and_ask(struct bed *bed)
{
    struct runner_gate *gate = &bed->slots.gate;
    slots_close(&bed->slots);
    CHECK(!gate->enter(gate, fiber_parker()));
    slots_close(&bed->slots);
    settle();
    go(&bed->users[0]);
}

static void test_nobody_enters_what_is_closed_although_there_is_a_slot(void **state)
{
    (void)state;
    struct bed bed = {.n = 1};
    play(&bed, 5, 0, close_and_ask);
    assert_string_equal(bed.text, "a.");
}

static void test_closing_lets_go_those_that_wait_for_the_rate(void **state)
{
    (void)state;
    struct bed bed = {.n = 3};
    play(&bed, 3, 1, close_and_ask);
    assert_string_equal(bed.text, "a!!.");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_so_many_are_in_at_a_time_and_others_follow_in_order_of_arrival),
        cmocka_unit_test(test_whichever_leaves_who_came_first_is_next),
        cmocka_unit_test(test_who_asks_later_stands_behind_those_that_wait),
        cmocka_unit_test(
            test_beginnings_are_as_far_apart_as_the_rate_says_and_the_first_is_at_once),
        cmocka_unit_test(test_what_was_missed_is_not_made_up_for),
        cmocka_unit_test(test_closing_lets_go_all_that_wait_and_those_within_leave_as_ever),
        cmocka_unit_test(test_nobody_enters_what_is_closed_although_there_is_a_slot),
        cmocka_unit_test(test_closing_lets_go_those_that_wait_for_the_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
