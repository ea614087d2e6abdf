/* SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "base/clock.h"
#include "fiber/service.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define WHILE_US (20 * CLOCK_US_PER_MS) /* what a plan takes to come into force, a fiber to end */

/* A plan is a number; a worker serves by it, and a clerk brings it into force where that takes
 * time. */
struct plan {
    int number;
    bool is_slow;
    bool is_dropped;
};

struct office {
    struct service base;
    struct plan *plan; /* in force; the main thread reads it when start and reload have returned */
    struct plan *next;
    struct parker *clerk;
    struct parker *worker;
    int n_drains;
    bool has_worked; /* until its end */
    atomic_bool *is_gone;
};

static void bring_into_force(struct office *office)
{
    if (office->next->is_slow)
        fiber_sleep_until(clock_after(clock_boot_us(), WHILE_US));
    office->plan = office->next;
    office->next = NULL;
    service_taken(&office->base);
}

static void run_clerk(void *owner)
{
    struct office *office = owner;
    office->clerk = fiber_parker();
    while (!office->base.draining) {
        if (office->next)
            bring_into_force(office);
        fiber_wait(NULL, 0, CLOCK_NEVER);
    }
}

static void run_worker(void *owner)
{
    struct office *office = owner;
    office->worker = fiber_parker();
    while (!office->base.draining)
        fiber_wait(NULL, 0, CLOCK_NEVER);
    fiber_sleep_until(clock_after(clock_boot_us(), WHILE_US));
    office->has_worked = true;
}

static void take_plan(void *owner, void *plan)
{
    struct office *office = owner;
    CHECK(loop_current() == office->base.loop && !fiber_self());
    office->next = plan;
    parker_wake(office->clerk);
}

static void begin_drain(void *owner)
{
    struct office *office = owner;
    CHECK(loop_current() == office->base.loop && !fiber_self() && office->base.draining);
    office->n_drains++;
    parker_wake(office->clerk);
    parker_wake(office->worker);
}

static void drop_plan(void *plan)
{
    if (plan)
        ((struct plan *)plan)->is_dropped = true;
}

static void office_fini(void *owner)
{
    atomic_store(((struct office *)owner)->is_gone, true);
}

static const struct service_kind office_kind = {
    .name = "office",
    .size = sizeof(struct office),
    .max_fibers = 2,
    .fibers = {{"clerk", run_clerk}, {"worker", run_worker}},
    .take = take_plan,
    .drain = begin_drain,
    .drop = drop_plan,
    .fini = office_fini,
};

static struct office *make_office(struct plan *first, atomic_bool *is_gone)
{
    struct office *office = service_new(&office_kind);
    assert_non_null(office);
    office->next = first;
    office->is_gone = is_gone;
    return office;
}

static bool is_readable(int fd, int timeout_ms)
{
    struct pollfd ended = {.fd = fd, .events = POLLIN};
    return poll(&ended, 1, timeout_ms) == 1;
}

static void test_it_has_started_once_its_first_plan_is_in_force(void **state)
{
    (void)state;
    struct plan first = {.number = 1, .is_slow = true};
    atomic_bool is_gone = false;
    struct office *office = make_office(&first, &is_gone);
    assert_ptr_equal(service_start(&office->base, true), office);
    assert_ptr_equal(office->plan, &first);
    service_stop(office);
    service_free(office);
    assert_true(is_gone);
    assert_false(first.is_dropped); /* the owner's */
}

static void test_a_reload_returns_once_its_plan_is_in_force(void **state)
{
    (void)state;
    struct plan plans[5] = {{0}};
    atomic_bool is_gone = false;
    struct office *office = make_office(&plans[0], &is_gone);
    assert_ptr_equal(service_start(&office->base, true), office);
    for (int i = 1; i < 5; i++) {
        plans[i] = (struct plan){.number = i, .is_slow = i % 2};
        assert_true(service_prepare(&office->base, &plans[i]));
        assert_int_equal(office->plan->number, i - 1);
        service_reload(&office->base, true);
        assert_int_equal(office->plan->number, i);
    }
    service_stop(office);
    service_free(office);
    for (int i = 0; i < 5; i++)
        assert_false(plans[i].is_dropped);
}

static void test_a_plan_that_is_forgotten_is_dropped(void **state)
{
    (void)state;
    struct plan first = {.number = 1}, second = {.number = 2}, third = {.number = 3};
    atomic_bool is_gone = false;
    struct office *office = make_office(&first, &is_gone);
    assert_ptr_equal(service_start(&office->base, true), office);
    assert_true(service_prepare(&office->base, &second));
    service_reload(&office->base, false);
    assert_true(second.is_dropped);
    assert_false(service_prepare(&office->base, NULL)); /* there was no memory for it */
    assert_true(service_prepare(&office->base, &third));
    service_reload(&office->base, true);
    assert_ptr_equal(office->plan, &third);
    service_stop(office);
    service_free(office);
}

static void test_a_drain_has_ended_when_all_fibers_have(void **state)
{
    (void)state;
    struct plan first = {.number = 1};
    atomic_bool is_gone = false;
    struct office *office = make_office(&first, &is_gone);
    assert_ptr_equal(service_start(&office->base, true), office);
    int ended = service_drain(office);
    assert_true(is_readable(ended, -1));
    service_stop(office);
    assert_true(office->has_worked);
    assert_int_equal(office->n_drains, 1);
    assert_false(is_gone);
    service_free(office);
    assert_true(is_gone);
}

static void test_a_stop_drains_and_waits_for_it(void **state)
{
    (void)state;
    struct plan first = {.number = 1}, second = {.number = 2};
    atomic_bool is_gone = false;
    struct office *office = make_office(&first, &is_gone);
    assert_ptr_equal(service_start(&office->base, true), office);
    assert_true(service_prepare(&office->base, &second));
    service_stop(office);
    assert_true(office->has_worked);
    assert_int_equal(office->n_drains, 1);
    service_free(office);
    assert_true(second.is_dropped); /* which nothing has taken */
}

static void test_one_that_is_not_filled_in_is_freed(void **state)
{
    (void)state;
    atomic_bool is_gone = false;
    struct office *office = make_office(NULL, &is_gone);
    assert_null(service_start(&office->base, false));
    assert_true(is_gone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_has_started_once_its_first_plan_is_in_force),
        cmocka_unit_test(test_a_reload_returns_once_its_plan_is_in_force),
        cmocka_unit_test(test_a_plan_that_is_forgotten_is_dropped),
        cmocka_unit_test(test_a_drain_has_ended_when_all_fibers_have),
        cmocka_unit_test(test_a_stop_drains_and_waits_for_it),
        cmocka_unit_test(test_one_that_is_not_filled_in_is_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
