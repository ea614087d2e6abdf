/* SPDX-License-Identifier: Apache-2.0 */
#include "store/tables/orders.h"

bool order_hold(struct store_task *task)
{
    bool had_time = task->task.state == TASK_WAITING && task->task.due_at != CLOCK_NEVER;
    if (had_time)
        task->task.due_at = CLOCK_NEVER;
    return had_time;
}

bool order_free(struct store_task *task, int64_t now)
{
    bool was_held = task_is_held(&task->task);
    if (was_held)
        task->task.due_at = now;
    return was_held;
}

/* The first two of them, or the last one. */
static enum store_status find_open(struct rows *rows, const struct store_task *stored, bool last,
                                   struct store_found *ret_found)
{
    const struct store_task like = {.kind = stored->kind, .open = stored->ord};
    const struct table_query query = {.table = &task_table,
                                      .by = TABLE_BY_INDEX,
                                      .like = &like.row,
                                      .index = &task_indexes[TASK_BY_ORDER],
                                      .prefix = 2,
                                      .is_backward = last,
                                      .limit = last ? 1 : 2};
    *ret_found = (struct store_found){0};
    return stored->ord.len > 0 ? rows_find(rows, &query, ret_found) : STORE_DONE;
}

enum store_status order_find_earlier(struct rows *rows, const struct store_task *stored,
                                     struct store_task *ret_task)
{
    struct store_found found;
    enum store_status status = find_open(rows, stored, false, &found);
    bool is_behind = status == STORE_DONE && found.n > 0 && found.rows[0]->id < stored->row.id;
    *ret_task =
        is_behind ? *(const struct store_task *)found.rows[0] : (struct store_task){.row.id = 0};
    return status;
}

enum store_status order_find_last(struct rows *rows, const struct store_task *stored,
                                  struct store_task *ret_task)
{
    struct store_found found;
    enum store_status status = find_open(rows, stored, true, &found);
    bool is_there = status == STORE_DONE && found.n > 0;
    *ret_task =
        is_there ? *(const struct store_task *)found.rows[0] : (struct store_task){.row.id = 0};
    return status;
}

enum store_status order_put_next(struct rows *rows, const struct store_task *stored)
{
    struct store_found found;
    enum store_status status = find_open(rows, stored, false, &found);
    size_t i = found.n > 0 && found.rows[0]->id == stored->row.id ? 1 : 0;
    if (status != STORE_DONE || i >= found.n)
        return status;
    struct store_task *next = (struct store_task *)found.rows[i];
    rows_put(rows, order_free(next, rows->now) ? TABLE_UPDATE : TABLE_TOUCH, &task_table,
             &next->row, NULL);
    return STORE_DONE;
}
