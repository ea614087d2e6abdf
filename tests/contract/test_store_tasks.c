/* SPDX-License-Identifier: Apache-2.0 */
/* The courier's tables, on every backend. */
#include "store_bed.h"

#include "store/rows.h"
#include "store/tables/orders.h"
#include "store/tables/tasks.h"

#define KIND SLICE("queue")

static struct store_task task_of(const char *key, const char *lane, const char *ord)
{
    return (struct store_task){
        .kind = KIND,
        .lane = slice_of(lane),
        .key = slice_of(key),
        .ord = slice_of(ord),
        .task = {.state = TASK_WAITING, .due_at = 1, .deadline_at = CLOCK_NEVER, .created_at = 7},
    };
}

static enum store_status save(struct bed *bed, enum table_act act, struct store_task *task)
{
    store_task_derive(task);
    struct table_change change = {.table = &task_table, .act = act, .row = &task->row};
    struct store_op op = {.kind = STORE_ROWS, .brings = &change, .n_brings = 1};
    run(bed, &op);
    if (op.result.status == STORE_DONE)
        task->row.version = change.version;
    return op.result.status;
}

static struct store_task add(struct bed *bed, const char *key, const char *lane, const char *ord,
                             int64_t due_at)
{
    struct store_task task = task_of(key, lane, ord);
    task.task.due_at = due_at;
    assert_int_equal(save(bed, TABLE_INSERT, &task), STORE_DONE);
    return task;
}

static void turn(struct store_task *task, enum task_state state)
{
    bool is_sent = state == TASK_SENDING, is_over = state > TASK_SENDING;
    task->task.state = state;
    task->task.lease_until = is_sent ? 500 : 0;
    task->task.attempts = task->task.tries = is_sent || is_over;
    task->task.due_at = state == TASK_WAITING ? task->task.due_at : CLOCK_NEVER;
    task->task.ended_at = is_over ? 400 : 0;
}

static void move(struct bed *bed, struct store_task *task, enum task_state state)
{
    turn(task, state);
    assert_int_equal(save(bed, TABLE_UPDATE, task), STORE_DONE);
}

struct reading {
    struct arena arena;
    struct store_found found;
};

static void read_rows(struct bed *bed, struct table_query query, struct reading *reading)
{
    reading->arena = arena_make(SIZE_MAX);
    struct rows rows = {.store = bed->store,
                        .parker = &bed->parker.parker,
                        .arena = &reading->arena,
                        .within_us = CLOCK_NEVER};
    query.limit = query.limit == 0 ? 16 : query.limit;
    enum store_status status = STORE_NO_MEMORY;
    while (status == STORE_NO_MEMORY || status == STORE_DOWN)
        status = rows_find(&rows, &query, &reading->found);
    assert_int_equal(status, STORE_DONE);
}

/* The keys of the tasks that are found, one letter each. */
static void expect(struct bed *bed, struct table_query query, const char *keys)
{
    struct reading reading;
    char found[17] = {0};
    query.table = &task_table;
    query.by = TABLE_BY_INDEX;
    read_rows(bed, query, &reading);
    for (size_t i = 0; i < reading.found.n; i++)
        found[i] = *((const struct store_task *)reading.found.rows[i])->key.at;
    assert_string_equal(found, keys);
    arena_fini(&reading.arena);
}

static struct table_query by(enum task_index index, const struct store_task *like, size_t prefix)
{
    return (struct table_query){
        .index = &task_indexes[index], .like = &like->row, .prefix = prefix};
}

/* ---- rows ---- */

static void a_task_is_read_as_it_was_written_with_all_that_goes_with_it(void **state)
{
    struct bed *bed = *state;
    struct store_task task = task_of("k", "https://a", "o");
    task.task.reason = TASK_REASON_LOST;
    task.task.attempts = 3;
    task.lasts_us = 11;
    task.list_id = 5;
    task.step = 2;
    task.skips = true;
    struct store_request request = {.method = SLICE("POST"),
                                    .url = SLICE("https://a/b"),
                                    .body = SLICE("x\0y"),
                                    .packed = true};
    struct store_attempt attempt = {
        .n = 1, .at = 9, .status = 503, .reason = TASK_REASON_LOST, .answer = SLICE("no")};
    store_task_derive(&task);
    struct table_change changes[] = {
        {.table = &task_table, .row = &task.row},
        {.table = &request_table, .row = &request.row, .parent = &task.row},
        {.table = &attempt_table, .row = &attempt.row, .parent = &task.row}};
    struct store_op op = {.kind = STORE_ROWS, .brings = changes, .n_brings = 3};
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);

    struct reading reading;
    read_rows(bed,
              (struct table_query){.table = &task_table,
                                   .by = TABLE_BY_INDEX,
                                   .index = &task_indexes[TASK_BY_KEY],
                                   .prefix = 3,
                                   .like = &task.row},
              &reading);
    const struct store_task *stored = (const struct store_task *)reading.found.rows[0];
    assert_true(slice_eq(stored->lane, task.lane) && slice_eq(stored->open, SLICE("o")));
    assert_true(stored->task.reason == TASK_REASON_LOST && stored->task.attempts == 3);
    assert_true(stored->lasts_us == 11 && stored->list_id == 5 && stored->step == 2);
    assert_true(stored->skips && stored->task.gone_at == CLOCK_NEVER);
    arena_fini(&reading.arena);
    expect(bed, by(TASK_BY_STEP, &task, 2), "k");

    read_rows(bed, (struct table_query){.table = &request_table, .after = task.row.id - 1},
              &reading);
    const struct store_request *sent = (const struct store_request *)reading.found.rows[0];
    assert_true(sent->row.id == task.row.id && sent->packed);
    assert_true(slice_eq(sent->body, request.body) && slice_eq(sent->url, request.url));
    arena_fini(&reading.arena);

    read_rows(bed,
              (struct table_query){.table = &attempt_table,
                                   .by = TABLE_BY_INDEX,
                                   .index = &attempt_index,
                                   .like = &attempt.row,
                                   .prefix = 1},
              &reading);
    const struct store_attempt *made = (const struct store_attempt *)reading.found.rows[0];
    assert_true(made->task == task.row.id && made->n == 1 && made->status == 503);
    assert_true(slice_eq(made->answer, SLICE("no")));
    arena_fini(&reading.arena);
}

static void of_one_kind_lane_and_key_there_is_one_task(void **state)
{
    struct bed *bed = *state;
    add(bed, "a", "lane", "", 1);
    struct store_task again = task_of("a", "lane", ""), other = task_of("a", "other", "");
    assert_int_equal(save(bed, TABLE_INSERT, &again), STORE_CONFLICT);
    assert_int_equal(save(bed, TABLE_INSERT, &other), STORE_DONE);
}

/* ---- what the courier asks ---- */

static void of_each_lane_the_first_task_that_is_due_is_found(void **state)
{
    struct bed *bed = *state;
    const int64_t later = clock_wall_us() + 3600 * SECOND;
    struct store_task done = add(bed, "a", "1", "", 1);
    add(bed, "b", "1", "", 3);
    add(bed, "c", "1", "", 2);
    add(bed, "d", "2", "", later);
    add(bed, "e", "3", "", CLOCK_NEVER);
    add(bed, "f", "4", "", 9);
    move(bed, &done, TASK_DONE);
    struct table_query lanes = by(TASK_BY_LANE, &done, 1);
    lanes.is_first_of_each = true;
    expect(bed, lanes, "cf");
    struct reading reading;
    lanes.table = &task_table;
    lanes.by = TABLE_BY_INDEX;
    read_rows(bed, lanes, &reading);
    assert_int_equal(reading.found.next_due, later);
    arena_fini(&reading.arena);
    expect(bed, by(TASK_BY_LANE, &done, 2), "cb");
    expect(bed, by(TASK_BY_STATE, &done, 2), "a");
}

static void an_order_consists_of_what_has_not_ended_or_holds_it(void **state)
{
    struct bed *bed = *state;
    struct store_task first = add(bed, "a", "lane", "o", 1);
    struct store_task second = add(bed, "b", "lane", "o", CLOCK_NEVER);
    add(bed, "c", "lane", "o", CLOCK_NEVER);
    add(bed, "x", "lane", "p", 1);
    add(bed, "y", "lane", "", 1);
    struct table_query order = by(TASK_BY_ORDER, &first, 2);
    order.limit = 1;
    struct store_task like = first;
    order.like = &like.row;
    expect(bed, order, "a");
    order.is_backward = true;
    expect(bed, order, "c");
    order.is_backward = false;
    move(bed, &first, TASK_DONE);
    expect(bed, order, "b");
    second.task.holds = true;
    move(bed, &second, TASK_DEAD);
    expect(bed, order, "b");
    second.task.holds = false;
    move(bed, &second, TASK_DEAD);
    expect(bed, order, "c");
}

static void of_an_order_one_task_is_being_sent(void **state)
{
    struct bed *bed = *state;
    struct store_task first = add(bed, "a", "lane", "o", 1), second = add(bed, "b", "lane", "o", 1);
    struct store_task free[] = {add(bed, "x", "lane", "", 1), add(bed, "y", "lane", "", 1)};
    move(bed, &first, TASK_SENDING);
    turn(&second, TASK_SENDING);
    assert_int_equal(save(bed, TABLE_UPDATE, &second), STORE_CONFLICT);
    move(bed, &free[0], TASK_SENDING);
    move(bed, &free[1], TASK_SENDING);
    expect(bed, by(TASK_BY_RUNNING, &first, 2), "a");
    expect(bed, by(TASK_BY_LEASE, &first, 1), "axy");
    first.task.due_at = 1;
    move(bed, &first, TASK_WAITING);
    move(bed, &second, TASK_SENDING);
    expect(bed, by(TASK_BY_LEASE, &first, 1), "bxy");
}

/* ---- orders ---- */

static struct table_change next_of(struct bed *bed, const struct store_task *stored,
                                   struct arena *arena)
{
    struct table_change next = {0};
    struct rows rows = {.store = bed->store,
                        .parker = &bed->parker.parker,
                        .arena = arena,
                        .changes = &next,
                        .most = 1};
    enum store_status status = STORE_DOWN;
    while (status == STORE_NO_MEMORY || status == STORE_DOWN)
        status = order_put_next(&rows, stored);
    assert_int_equal(status, STORE_DONE);
    return next;
}

typedef enum store_status (*find_fn)(struct rows *rows, const struct store_task *stored,
                                     struct store_task *ret_task);

/* Its id; 0: there is none. */
static int64_t find_other(struct bed *bed, find_fn find, const struct store_task *stored)
{
    ARENA_AUTO struct arena arena = arena_make(SIZE_MAX);
    struct store_task other;
    struct rows rows = {.store = bed->store, .parker = &bed->parker.parker, .arena = &arena};
    enum store_status status = STORE_DOWN;
    while (status == STORE_NO_MEMORY || status == STORE_DOWN)
        status = find(&rows, stored, &other);
    assert_int_equal(status, STORE_DONE);
    return other.row.id;
}

static enum store_status save_with(struct bed *bed, struct store_task *task,
                                   struct table_change *other)
{
    store_task_derive(task);
    struct table_change changes[] = {{.table = &task_table, .act = TABLE_UPDATE, .row = &task->row},
                                     *other};
    struct store_op op = {.kind = STORE_ROWS, .brings = changes, .n_brings = 2};
    run(bed, &op);
    *other = changes[1];
    return op.result.status;
}

static void what_follows_in_an_order_is_due_where_it_was_held(void **state)
{
    struct bed *bed = *state;
    ARENA_AUTO struct arena arena = arena_make(SIZE_MAX);
    struct store_task first = add(bed, "a", "lane", "o", 1), free = add(bed, "y", "lane", "", 1);
    struct store_task second = add(bed, "b", "lane", "o", CLOCK_NEVER);
    struct table_change next = next_of(bed, &first, &arena);
    const struct store_task *followed = (const struct store_task *)next.row;
    assert_int_equal(next.act, TABLE_UPDATE);
    assert_int_equal(next.row->id, second.row.id);
    assert_true(followed->task.due_at < CLOCK_NEVER);
    second.task.due_at = INT64_C(1) << 60;
    move(bed, &second, TASK_WAITING);
    next = next_of(bed, &first, &arena);
    assert_int_equal(next.act, TABLE_TOUCH);
    assert_int_equal(next.row->id, second.row.id);
    assert_null(next_of(bed, &free, &arena).row);
    move(bed, &first, TASK_DONE);
    assert_null(next_of(bed, &second, &arena).row);
}

static void of_two_of_an_order_that_end_together_one_frees_what_waits_behind_both(void **state)
{
    struct bed *bed = *state;
    ARENA_AUTO struct arena arena = arena_make(SIZE_MAX);
    struct store_task first = add(bed, "a", "lane", "o", 1), second = add(bed, "b", "lane", "o", 1);
    struct store_task third = add(bed, "c", "lane", "o", CLOCK_NEVER);
    move(bed, &second, TASK_SENDING);
    struct table_change behind_first = next_of(bed, &first, &arena);
    struct table_change behind_second = next_of(bed, &second, &arena);
    turn(&first, TASK_DROPPED);
    assert_int_equal(save_with(bed, &first, &behind_first), STORE_DONE);
    turn(&second, TASK_DONE);
    assert_int_equal(save_with(bed, &second, &behind_second), STORE_CONFLICT);
    second.row.version = behind_first.version; /* it was touched */
    behind_second = next_of(bed, &second, &arena);
    assert_int_equal(behind_second.row->id, third.row.id);
    assert_int_equal(save_with(bed, &second, &behind_second), STORE_DONE);
    expect(bed, by(TASK_BY_LANE, &third, 2), "c");
}

static void an_order_has_a_last_one_and_what_comes_before(void **state)
{
    struct bed *bed = *state;
    struct store_task first = add(bed, "a", "lane", "o", 1);
    struct store_task second = add(bed, "b", "lane", "o", CLOCK_NEVER);
    struct store_task new = task_of("c", "lane", "o"), free = task_of("d", "lane", "");
    assert_int_equal(find_other(bed, order_find_last, &new), second.row.id);
    assert_int_equal(find_other(bed, order_find_earlier, &second), first.row.id);
    assert_int_equal(find_other(bed, order_find_earlier, &first), 0);
    assert_int_equal(find_other(bed, order_find_last, &free), 0);
}

#ifdef PAWL_HOOKS
static void count_row(void *argument, const struct table_row *row)
{
    (void)row;
    ++*(size_t *)argument;
}

static size_t count(struct bed *bed, const struct table *table)
{
    size_t n = 0;
    struct table_query query = {.table = table, .limit = 16, .each = count_row, .argument = &n};
    struct store_op op = {.kind = STORE_QUERY, .query = &query};
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
    return n;
}

static void a_task_is_swept_at_its_time_with_all_that_goes_with_it(void **state)
{
    struct bed *bed = *state;
    int64_t now = clock_wall_us();
    bed_close(bed);
    bed->config.no_thread = true;
    clock_test_set(now, now);
    bed_open(bed);
    struct store_task task = task_of("a", "lane", "");
    task.task.state = TASK_DEAD;
    task.task.ended_at = now;
    task.task.gone_at = now + SECOND;
    store_task_derive(&task);
    struct store_request request = {.body = SLICE("body")};
    struct store_attempt attempt = {.n = 1};
    struct table_change changes[] = {
        {.table = &task_table, .row = &task.row},
        {.table = &request_table, .row = &request.row, .parent = &task.row},
        {.table = &attempt_table, .row = &attempt.row, .parent = &task.row}};
    struct store_op op = {.kind = STORE_ROWS, .brings = changes, .n_brings = 3};
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
    clock_test_set(now + SECOND, now + SECOND);
    while (store_step(bed->store))
        ;
    const struct table *const gone[] = {&task_table, &request_table, &attempt_table};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(count(bed, gone[i]), 0);
    bed_close(bed);
    clock_test_set(0, 0);
}
#endif

/* An older pawl would take the store for damaged at the number of one that it does not know. */
static void a_reason_that_came_late_is_kept_beside_one_that_every_pawl_knows(void **state)
{
    static const enum task_reason reasons[] = {TASK_REASON_ODD_ROW, TASK_REASON_NOT_WANTED};
    struct bed *bed = *state;
    struct store_task task = add(bed, "a", "lane", "", 1);
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        struct reading reading;
        turn(&task, TASK_DEAD);
        task.task.reason = reasons[i];
        assert_int_equal(save(bed, TABLE_UPDATE, &task), STORE_DONE);
        read_rows(bed, (struct table_query){.table = &task_table}, &reading);
        const struct store_task *stored = (const struct store_task *)reading.found.rows[0];
        assert_int_equal(stored->task.reason, TASK_REASON_UNREADABLE);
        assert_int_equal(store_task_reason(stored), reasons[i]);
        arena_fini(&reading.arena);
    }
    task.task.due_at = 1;
    move(bed, &task, TASK_WAITING);
    assert_int_equal(task.why, 0);
    task.task.reason = TASK_REASON_CREDENTIALS;
    assert_int_equal(save(bed, TABLE_UPDATE, &task), STORE_DONE);
    store_task_derive(&task);
    assert_int_equal(store_task_reason(&task), TASK_REASON_CREDENTIALS);
    turn(&task, TASK_DEAD);
    task.task.reason = TASK_REASON_UNREADABLE;
    assert_int_equal(save(bed, TABLE_UPDATE, &task), STORE_DONE);
    assert_int_equal(store_task_reason(&task), TASK_REASON_UNREADABLE);
}

static void rows_are_not_found_in_too_little_memory(void **state)
{
    struct bed *bed = *state;
    struct store_task like = add(bed, "a", "lane", "", 1);
    struct arena arena = arena_make(sizeof(struct store_task));
    struct table_query query = by(TASK_BY_STATE, &like, 2);
    struct rows rows = {.store = bed->store,
                        .parker = &bed->parker.parker,
                        .arena = &arena,
                        .within_us = CLOCK_NEVER};
    struct store_found found;
    query.table = &task_table;
    query.by = TABLE_BY_INDEX;
    query.limit = 2;
    assert_int_equal(rows_find(&rows, &query, &found), STORE_NO_MEMORY);
    arena_fini(&arena);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        BED_TEST(a_task_is_read_as_it_was_written_with_all_that_goes_with_it),
        BED_TEST(of_one_kind_lane_and_key_there_is_one_task),
        BED_TEST(of_each_lane_the_first_task_that_is_due_is_found),
        BED_TEST(an_order_consists_of_what_has_not_ended_or_holds_it),
        BED_TEST(of_an_order_one_task_is_being_sent),
        BED_TEST(what_follows_in_an_order_is_due_where_it_was_held),
        BED_TEST(of_two_of_an_order_that_end_together_one_frees_what_waits_behind_both),
        BED_TEST(an_order_has_a_last_one_and_what_comes_before),
#ifdef PAWL_HOOKS
        BED_TEST(a_task_is_swept_at_its_time_with_all_that_goes_with_it),
#endif
        BED_TEST(a_reason_that_came_late_is_kept_beside_one_that_every_pawl_knows),
        BED_TEST(rows_are_not_found_in_too_little_memory),
    };
    return bed_run(tests, sizeof tests / sizeof *tests);
}
