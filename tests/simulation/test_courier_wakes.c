/* SPDX-License-Identifier: Apache-2.0 */
/* The courier in virtual time: a task that was made known is sent at once, whatever the courier did
 * at that moment, and not only when it looks by itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../toy/hostile.h"
#include "courier/courier.h"
#include "fiber/fiber.h"
#include "store/store.h"
#include "store/tables/tasks.h"

#define S CLOCK_US_PER_S
#define WALL (INT64_C(1795338000) * S)
#define STEP (S / 100)  /* that each step of the store takes */
#define AT_ONCE (S / 4) /* it looks by itself once a second */
#define TASKS 40

static struct {
    int64_t boot;
    struct loop *loop;
    struct store *store;
    struct courier *courier;
    int attempts;
    bool has_ended;
} bed;

static struct courier_result attempt(const struct courier_kind *kind,
                                     struct courier_delivery *delivery)
{
    (void)kind;
    (void)delivery;
    bed.attempts++;
    return (struct courier_result){
        .task = {.class = RETRY_DONE, .hint_us = RETRY_NO_HINT, .status = 201}};
}

static void add(int number)
{
    char key[16];
    snprintf(key, sizeof key, "k%d", number);
    struct store_task task = {.kind = SLICE("test"),
                              .lane = SLICE("x"),
                              .key = slice_of(key),
                              .task = {.due_at = store_now(bed.store),
                                       .deadline_at = CLOCK_NEVER,
                                       .gone_at = CLOCK_NEVER,
                                       .profile = RETRY_PROFILE_queue,
                                       .created_at = store_now(bed.store)}};
    store_task_derive(&task);
    struct table_change change = {.table = &task_table, .act = TABLE_INSERT, .row = &task.row};
    struct store_op op = {.kind = STORE_ROWS, .brings = &change, .n_brings = 1};
    store_run(bed.store, &op, fiber_parker(), CLOCK_NEVER);
    assert_int_equal(op.result.status, STORE_DONE);
}

/* Each is added a little later in a pass that was begun just before. */
static void add_all(void *argument)
{
    (void)argument;
    for (int i = 0; i < TASKS; i++) {
        fiber_sleep_until(bed.boot + S);
        courier_wake(bed.courier);
        for (int64_t from = bed.boot; bed.boot < from + i % 10 * STEP;)
            fiber_yield();
        add(i);
        courier_wake(bed.courier);
        int64_t added_at = bed.boot;
        while (bed.attempts == i && bed.boot < added_at + 10 * S)
            fiber_yield();
        assert_in_range(bed.boot - added_at, 0, AT_ONCE);
    }
    courier_drain(bed.courier);
}

static void deliver(void *argument)
{
    (void)argument;
    assert_int_equal(courier_run(bed.courier, COURIER_FOLLOW), COURIER_DRAINED);
    bed.has_ended = true;
}

static void drive(void *argument)
{
    (void)argument;
    for (int i = 0; i < 600000 && !bed.has_ended; i++) {
        (void)store_step(bed.store);
        fiber_yield();
        bed.boot += STEP;
        clock_test_set(WALL + bed.boot, bed.boot);
    }
    assert_true(bed.has_ended);
}

static void what_is_made_known_is_sent_at_once_whatever_it_does(void **state)
{
    struct store_config config = store_config_default();
    const struct courier_kind kind = {.name = SLICE("test"),
                                      .limits = {2, 30 * S, TASK_KEEP_DONE_US, NULL},
                                      .keep_dead_us = TASK_KEEP_DEAD_US,
                                      .attempt = attempt};
    struct courier_kind others[3] = {kind, kind, kind}; /* it looks for these afterwards */
    const struct courier_kind *const kinds[] = {&kind, &others[0], &others[1], &others[2]};
    others[0].name = SLICE("second");
    others[1].name = SLICE("third");
    others[2].name = SLICE("fourth");
    char *problem = NULL;
    (void)state;
    bed.boot = 1000 * S;
    clock_test_set(WALL + bed.boot, bed.boot);
    config.no_thread = true;
    bed.loop = loop_new(64);
    assert_int_equal(store_open_over(&config, hostile_toy(NULL), &bed.store, &problem),
                     STORE_OPENED);
    bed.courier = courier_new(
        &(struct courier_config){.store = bed.store, .kinds = kinds, .n_kinds = 4, .owner = 7});
    assert_true(fiber_spawn(bed.loop, "deliver", deliver, NULL));
    assert_true(fiber_spawn(bed.loop, "add", add_all, NULL));
    assert_true(fiber_spawn(bed.loop, "drive", drive, NULL));
    loop_stop(bed.loop);
    loop_run(bed.loop);
    courier_free(bed.courier);
    store_close(bed.store);
    loop_free(bed.loop);
    clock_test_set(0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_made_known_is_sent_at_once_whatever_it_does)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
