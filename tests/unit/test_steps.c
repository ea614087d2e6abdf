/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/steps.h"

#define STEP(how)                                                                                  \
    {                                                                                              \
        .state = TASK_##how                                                                        \
    }

static void a_list_goes_on_until_its_last_step_is_done(void **state)
{
    (void)state;
    struct steps_task step = STEP(DONE);
    assert_int_equal(steps_after(STEPS_RUNNING, &step), STEPS_RUNNING);
    step.is_last = true;
    assert_int_equal(steps_after(STEPS_RUNNING, &step), STEPS_DONE);
    step.state = TASK_WAITING;
    assert_int_equal(steps_after(STEPS_RUNNING, &step), STEPS_RUNNING);
}

static void a_step_that_failed_is_undone_and_one_in_doubt_parks(void **state)
{
    (void)state;
    struct steps_task step = STEP(DEAD);
    assert_int_equal(steps_after(STEPS_RUNNING, &step), STEPS_UNDOING);
    step.is_last = true;
    assert_int_equal(steps_after(STEPS_RUNNING, &step), STEPS_UNDOING);
    step.in_doubt = true;
    assert_int_equal(steps_after(STEPS_RUNNING, &step), STEPS_PARKED);
    step.state = TASK_DROPPED; /* a person says that it was not done */
    assert_int_equal(steps_after(STEPS_RUNNING, &step), STEPS_UNDOING);
}

static void reverses_run_to_the_last_one_and_none_is_passed_over(void **state)
{
    (void)state;
    struct steps_task reverse = {.is_reverse = true, .state = TASK_DONE};
    assert_int_equal(steps_after(STEPS_UNDOING, &reverse), STEPS_UNDOING);
    reverse.next_is_dead = true;
    assert_int_equal(steps_after(STEPS_UNDOING, &reverse), STEPS_PARKED);
    reverse.next_is_dead = false;
    reverse.is_last = true;
    assert_int_equal(steps_after(STEPS_UNDOING, &reverse), STEPS_UNDONE);
    reverse.state = TASK_DROPPED;
    assert_int_equal(steps_after(STEPS_UNDOING, &reverse), STEPS_UNDONE);
    reverse.state = TASK_DEAD;
    assert_int_equal(steps_after(STEPS_UNDOING, &reverse), STEPS_PARKED);
    reverse.state = TASK_WAITING;
    assert_int_equal(steps_after(STEPS_UNDOING, &reverse), STEPS_UNDOING);
}

static void a_list_that_is_settled_stays_so(void **state)
{
    (void)state;
    static const enum steps_state settled[] = {STEPS_DONE, STEPS_UNDONE, STEPS_PARKED};
    for (size_t i = 0; i < sizeof settled / sizeof *settled; i++)
        for (int task = TASK_WAITING; task <= TASK_DROPPED; task++)
            for (int is_reverse = 0; is_reverse < 2; is_reverse++) {
                struct steps_task ended = {.is_reverse = is_reverse, .state = task};
                assert_int_equal(steps_after(settled[i], &ended), settled[i]);
            }
    assert_int_equal(steps_unpark(false), STEPS_RUNNING);
    assert_int_equal(steps_unpark(true), STEPS_UNDOING);
    struct slice parked = steps_state_name(STEPS_PARKED);
    assert_true(slice_eq(parked, SLICE("parked")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_goes_on_until_its_last_step_is_done),
        cmocka_unit_test(a_step_that_failed_is_undone_and_one_in_doubt_parks),
        cmocka_unit_test(reverses_run_to_the_last_one_and_none_is_passed_over),
        cmocka_unit_test(a_list_that_is_settled_stays_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
