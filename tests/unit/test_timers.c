/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "fiber/timers.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define ROOM 200

static uint32_t random_next(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

static void test_due_timers_come_in_the_order_of_their_deadlines(void **state)
{
    (void)state;
    struct timers timers;
    struct timer timer[5] = {0};
    const int64_t deadline_us[] = {30, 10, 50, 20, 40};
    assert_true(timers_init(&timers, 5));
    for (int i = 0; i < 5; i++)
        timers_arm(&timers, &timer[i], deadline_us[i]);
    assert_int_equal(timers_next(&timers), 10);
    assert_null(timers_take_due(&timers, 9));
    assert_ptr_equal(timers_take_due(&timers, 40), &timer[1]);
    assert_ptr_equal(timers_take_due(&timers, 40), &timer[3]);
    assert_ptr_equal(timers_take_due(&timers, 40), &timer[0]);
    assert_ptr_equal(timers_take_due(&timers, 40), &timer[4]);
    assert_null(timers_take_due(&timers, 40));
    assert_ptr_equal(timers_take_due(&timers, 50), &timer[2]);
    assert_int_equal(timers_next(&timers), CLOCK_NEVER);
    timers_fini(&timers);
}

static void test_a_timer_that_never_comes_takes_no_room(void **state)
{
    (void)state;
    struct timers timers;
    struct timer never = {0}, once = {0};
    assert_true(timers_init(&timers, 1));
    timers_arm(&timers, &never, CLOCK_NEVER);
    timers_arm(&timers, &once, 1);
    timers_disarm(&timers, &never);
    assert_ptr_equal(timers_take_due(&timers, 1), &once);
    timers_fini(&timers);
}

/* The oracle is a plain array of deadlines; CLOCK_NEVER marks an idle timer. */
static int64_t earliest(const int64_t *deadline_us)
{
    int64_t first_us = CLOCK_NEVER;
    for (int i = 0; i < ROOM; i++)
        if (deadline_us[i] < first_us)
            first_us = deadline_us[i];
    return first_us;
}

static void test_the_earliest_is_right_through_any_arming_and_disarming(void **state)
{
    (void)state;
    struct timers timers;
    struct timer timer[ROOM] = {0};
    int64_t deadline_us[ROOM];
    uint32_t seed = 1;
    assert_true(timers_init(&timers, ROOM));
    for (int i = 0; i < ROOM; i++)
        deadline_us[i] = CLOCK_NEVER;
    for (int step = 0; step < 20000; step++) {
        uint32_t i = random_next(&seed) % ROOM;
        timers_disarm(&timers, &timer[i]);
        deadline_us[i] = random_next(&seed) % 3 == 0 ? CLOCK_NEVER : random_next(&seed) % 500;
        timers_arm(&timers, &timer[i], deadline_us[i]);
        assert_int_equal(timers_next(&timers), earliest(deadline_us));
    }
    for (struct timer *due; (due = timers_take_due(&timers, 500)) != NULL;) {
        assert_int_equal(deadline_us[due - timer], earliest(deadline_us));
        deadline_us[due - timer] = CLOCK_NEVER;
    }
    assert_int_equal(earliest(deadline_us), CLOCK_NEVER);
    timers_fini(&timers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_due_timers_come_in_the_order_of_their_deadlines),
        cmocka_unit_test(test_a_timer_that_never_comes_takes_no_room),
        cmocka_unit_test(test_the_earliest_is_right_through_any_arming_and_disarming),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
