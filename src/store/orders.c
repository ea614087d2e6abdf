/* SPDX-License-Identifier: Apache-2.0 */
#include "store/orders.h"

#include "store/find.h"

#define STORE_US (10 * CLOCK_US_PER_S) /* for one operation of the store */

bool order_hold(struct store_task *task)
{
    bool had_time = task->task.state == TASK_WAITING && task->task.due_at != CLOCK_NEVER;
    if (had_time)
        task->task.due_at = CLOCK_NEVER;
    return had_time;
}

bool order_free(struct store_task *task, int64_t now)
{
    bool was_held = task->task.state == TASK_WAITING && task->task.due_at == CLOCK_NEVER;
    if (was_held)
        task->task.due_at = now;
    return was_held;
}

/* The first two of them, or the last one; `found` has the arena. */
static enum store_status find_open(struct store *store, struct parker *parker,
                                   const struct store_task *stored, bool last,
                                   struct store_found *found)
{
    const struct store_task like = {.kind = stored->kind, .open = stored->ord};
    const struct table_query query = {.table = &task_table,
                                      .by = TABLE_BY_INDEX,
                                      .like = &like.row,
                                      .index = &task_indexes[TASK_BY_ORDER],
                                      .prefix = 2,
                                      .is_backward = last,
                                      .limit = last ? 1 : 2};
    if (stored->ord.len == 0)
        return STORE_DONE;
    return store_find_rows(store, &query, parker, clock_after(clock_boot_us(), STORE_US), found);
}

/* The first of those found that is not `id`. */
static enum store_status keep_other(const struct store_found *found, int64_t id,
                                    struct store_task **ret_task)
{
    size_t i = 0;
    while (i < found->n && found->rows[i]->id == id)
        i++;
    *ret_task = i < found->n ? arena_alloc(found->arena, sizeof **ret_task) : NULL;
    if (*ret_task)
        **ret_task = *(const struct store_task *)found->rows[i];
    return found->arena->failed ? STORE_NO_MEMORY : STORE_DONE;
}

enum store_status order_find_earlier(struct store *store, struct parker *parker,
                                     struct arena *arena, const struct store_task *stored,
                                     struct store_task **ret_task)
{
    struct store_found found = {.arena = arena};
    *ret_task = NULL;
    enum store_status status = find_open(store, parker, stored, false, &found);
    bool is_behind = status == STORE_DONE && found.n > 0 && found.rows[0]->id < stored->row.id;
    return is_behind ? keep_other(&found, stored->row.id, ret_task) : status;
}

enum store_status order_find_last(struct store *store, struct parker *parker, struct arena *arena,
                                  const struct store_task *stored, struct store_task **ret_task)
{
    struct store_found found = {.arena = arena};
    *ret_task = NULL;
    enum store_status status = find_open(store, parker, stored, true, &found);
    return status == STORE_DONE ? keep_other(&found, stored->row.id, ret_task) : status;
}

enum store_status order_find_next(struct store *store, struct parker *parker, struct arena *arena,
                                  const struct store_task *stored, struct table_change *ret_change)
{
    struct store_found found = {.arena = arena};
    struct store_task *next = NULL;
    enum store_status status = find_open(store, parker, stored, false, &found);
    if (status == STORE_DONE)
        status = keep_other(&found, stored->row.id, &next);
    *ret_change = (struct table_change){.table = &task_table, .row = next ? &next->row : NULL};
    if (next)
        ret_change->act = order_free(next, found.now) ? TABLE_UPDATE : TABLE_TOUCH;
    return status;
}
