/* SPDX-License-Identifier: Apache-2.0 */
/* A courier alone over a store, in virtual time, and what is sent. */
#ifndef PAWL_TESTS_SIMULATION_COURIER_BED_H
#define PAWL_TESTS_SIMULATION_COURIER_BED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../toy/hostile.h"
#include "base/mem.h"
#include "courier/courier.h"
#include "fiber/fiber.h"
#include "observe/page.h"
#include "store/rows.h"
#include "store/store.h"

#define S CLOCK_US_PER_S
#define WALL (INT64_C(1795338000) * S)
#define LANES_MANY 100

static struct {
    int64_t boot;
    struct loop *loop;
    struct store *store;
    struct courier_kind kind;
    const struct courier_kind *kinds[1];
    struct courier *courier;
    enum courier_mode mode;
    int overall;
    void (*prepare)(void); /* in a fiber, before the courier */
    void (*look)(void);    /* afterwards */
    void (*disturb)(void); /* beside it; may be NULL */
    long failing;          /* which allocation fails */
    int64_t fails_until;   /* boot time */
    int begins;            /* looks at a lane's limits, meanwhile */
    enum courier_end end;
    bool has_ended;
    bool is_settled;           /* what claims say */
    int64_t drain_at;          /* boot time; 0: never */
    enum retry_class class[8]; /* by first letter of the key, from `a` on */
    int attempts;
    char sent[LANES_MANY * 4 + 1]; /* first letters of keys, in order */
    int by_lane[LANES_MANY];
    bool out_of_turn;
    int64_t sends_after_us; /* an attempt begins; below 0: nothing is sent */
} bed;

/* ---- the store ---- */

static inline void save(struct table_change *change)
{
    struct store_op op = {.kind = STORE_ROWS, .brings = change, .n_brings = 1};
    store_run(bed.store, &op, fiber_parker(), CLOCK_NEVER);
    assert_int_equal(op.result.status, STORE_DONE);
}

static inline struct store_task task_of(const char *key, const char *lane, const char *ord)
{
    return (struct store_task){
        .kind = SLICE("test"),
        .lane = slice_of(lane),
        .key = slice_of(key),
        .ord = slice_of(ord),
        .task = {.due_at = store_now(bed.store),
                 .deadline_at = CLOCK_NEVER,
                 .gone_at = CLOCK_NEVER,
                 .profile = RETRY_PROFILE_queue,
                 .created_at = store_now(bed.store)},
    };
}

static inline void add_task(struct store_task task)
{
    store_task_derive(&task);
    struct table_change change = {.table = &task_table, .act = TABLE_INSERT, .row = &task.row};
    save(&change);
}

static inline void add(const char *key, const char *lane, const char *ord)
{
    add_task(task_of(key, lane, ord));
}

static inline void pause(const char *lane, const char *ord)
{
    struct store_lane said = {.kind = SLICE("test"),
                              .lane = slice_of(lane),
                              .ord = slice_of(ord),
                              .state = STORE_LANE_PAUSED,
                              .until = CLOCK_NEVER,
                              .why = SLICE("test")};
    struct table_change change = {.table = &lane_table, .act = TABLE_INSERT, .row = &said.row};
    save(&change);
}

static inline struct task read_task(const char *key)
{
    ARENA_AUTO struct arena arena = arena_make(SIZE_MAX);
    const struct table_query query = {.table = &task_table, .by = TABLE_BY_ID, .limit = 500};
    struct rows rows = {
        .store = bed.store, .parker = fiber_parker(), .arena = &arena, .within_us = CLOCK_NEVER};
    struct store_found found;
    assert_int_equal(rows_find(&rows, &query, &found), STORE_DONE);
    for (size_t i = 0; i < found.n; i++) {
        const struct store_task *task = (const struct store_task *)found.rows[i];
        if (slice_eq(task->key, slice_of(key)))
            return task->task;
    }
    fail_msg("no task %s", key);
    return (struct task){0};
}

/* ---- the kind ---- */

static inline struct courier_verdict settle_claim(const struct courier_kind *kind,
                                                  struct courier_delivery *delivery,
                                                  struct rows *rows)
{
    (void)kind;
    (void)delivery;
    (void)rows;
    return (struct courier_verdict){
        .claim = COURIER_SETTLED, .state = TASK_DONE, .reason = TASK_REASON_ALREADY};
}

/* A lane that has had more than any other one lacks was not in turn. */
static inline void note_turn(struct slice lane)
{
    int number = 0;
    for (size_t i = 0; i < lane.len; i++)
        number = number * 10 + (lane.at[i] - '0');
    bed.by_lane[number]++;
    for (int i = 0; i < LANES_MANY; i++)
        bed.out_of_turn |= bed.by_lane[number] > bed.by_lane[i] + 1;
}

static inline struct courier_result attempt(const struct courier_kind *kind,
                                            struct courier_delivery *delivery)
{
    struct slice key = delivery->stored.key, lane = delivery->stored.lane;
    (void)kind;
    bed.sent[bed.attempts++] = key.at[0];
    if (lane.at[0] >= '0' && lane.at[0] <= '9')
        note_turn(lane);
    int64_t sent_at = bed.sends_after_us < 0 ? 0 : bed.boot + bed.sends_after_us;
    fiber_sleep_until(bed.boot + S / 10);
    enum retry_class class = bed.class[key.at[0] - 'a'];
    return (struct courier_result){
        .task = {.class = class,
                 .reason = class == RETRY_LATER ? TASK_REASON_NOT_DONE : TASK_REASON_NONE,
                 .hint_us = RETRY_NO_HINT,
                 .status = class == RETRY_DONE ? 201 : 503},
        .sent_at = sent_at};
}

/* ---- fibers ---- */

static inline void deliver(void *argument)
{
    (void)argument;
    const struct courier_config config = {
        .store = bed.store, .kinds = bed.kinds, .n_kinds = 1, .overall = bed.overall, .owner = 7};
    bed.prepare();
    bed.courier = courier_new(&config);
    assert_non_null(bed.courier);
    bed.end = courier_run(bed.courier, bed.mode);
    bed.look();
    bed.has_ended = true;
}

static inline void drive(void *argument)
{
    (void)argument;
    for (int i = 0; i < 600000 && !bed.has_ended; i++) {
        (void)store_step(bed.store);
        fiber_yield();
        bed.boot += S / 100;
        clock_test_set(WALL + bed.boot, bed.boot);
        if (bed.drain_at != 0 && bed.boot >= bed.drain_at)
            courier_drain(bed.courier);
    }
    assert_true(bed.has_ended);
}

static inline void disturb(void *argument)
{
    (void)argument;
    bed.disturb();
}

static inline int set_up(void **state)
{
    (void)state;
    struct store_config config = store_config_default();
    char *problem = NULL;
    memset(&bed, 0, sizeof bed);
    bed.boot = 1000 * S;
    clock_test_set(WALL + bed.boot, bed.boot);
    config.no_thread = true;
    bed.loop = loop_new(64);
    bed.kind = (struct courier_kind){.name = SLICE("test"),
                                     .limits = {2, 30 * S, TASK_KEEP_DONE_US},
                                     .keep_dead_us = TASK_KEEP_DEAD_US,
                                     .attempt = attempt};
    bed.kinds[0] = &bed.kind;
    return store_open_over(&config, hostile_toy(NULL), &bed.store, &problem) == STORE_OPENED ? 0
                                                                                             : -1;
}

static inline int tear_down(void **state)
{
    (void)state;
    courier_free(bed.courier);
    store_close(bed.store);
    loop_free(bed.loop);
    clock_test_set(0, 0);
    return 0;
}

static inline void run(enum courier_mode mode, void (*prepare)(void), void (*look)(void))
{
    bed.mode = mode;
    bed.prepare = prepare;
    bed.look = look;
    assert_true(fiber_spawn(bed.loop, "deliver", deliver, NULL));
    assert_true(fiber_spawn(bed.loop, "drive", drive, NULL));
    if (bed.disturb)
        assert_true(fiber_spawn(bed.loop, "disturb", disturb, NULL));
    loop_stop(bed.loop);
    loop_run(bed.loop);
}

#define BED_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
