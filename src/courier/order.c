/* SPDX-License-Identifier: Apache-2.0 */
/* Orders: of the tasks of one order only the first unfinished one is ever due. Declared in
 * courier_priv.h. */
#include "base/check.h"
#include "courier/courier_priv.h"

#define FIRST_TWO 2 /* the task itself may be one of them */

static enum store_status find_open(struct courier *courier, const struct store_task *stored,
                                   struct arena *arena, struct store_found *ret_found)
{
    const struct store_task like = {.kind = stored->kind, .open = stored->ord};
    const struct table_query query = {
        .table = &task_table,
        .by = TABLE_BY_INDEX,
        .like = &like.row,
        .index = &task_indexes[TASK_BY_ORDER],
        .prefix = 2,
        .limit = FIRST_TWO,
    };
    return courier_find(courier, &query, arena, ret_found);
}

/* Touches the earlier one: its end then sees that somebody waits for it. */
static enum store_status hold(struct courier *courier, const struct store_task *stored,
                              struct store_task *earlier)
{
    struct store_task held = *stored;
    held.task.due_at = CLOCK_NEVER;
    store_task_settle(&held);
    struct table_change changes[] = {
        {.table = &task_table, .act = TABLE_UPDATE, .row = &held.row},
        {.table = &task_table, .act = TABLE_TOUCH, .row = &earlier->row},
    };
    enum store_status status = delivery_save(courier, changes, 2);
    return status == STORE_CONFLICT ? STORE_DONE : status; /* looked at again with the next turn */
}

enum store_status order_check(struct courier *courier, const struct store_task *stored,
                              bool *ret_is_first)
{
    *ret_is_first = true;
    if (stored->ord.len == 0)
        return STORE_DONE;
    ARENA_AUTO struct arena arena = arena_make(COURIER_ARENA_MAX);
    struct store_found found;
    enum store_status status = find_open(courier, stored, &arena, &found);
    if (status != STORE_DONE || found.n == 0 || found.rows[0]->id >= stored->row.id)
        return status;
    *ret_is_first = false;
    struct store_task earlier = *(const struct store_task *)found.rows[0];
    return hold(courier, stored, &earlier);
}

enum store_status order_find_next(struct courier *courier, const struct store_task *stored,
                                  struct arena *arena, struct store_task **ret_next)
{
    *ret_next = NULL;
    if (stored->ord.len == 0 || task_is_open(&stored->task))
        return STORE_DONE;
    struct store_found found;
    enum store_status status = find_open(courier, stored, arena, &found);
    for (size_t i = 0; status == STORE_DONE && i < found.n; i++) {
        if (found.rows[i]->id == stored->row.id)
            continue;
        struct store_task *next = arena_alloc(arena, sizeof *next);
        if (!next)
            return STORE_NO_MEMORY;
        *next = *(const struct store_task *)found.rows[i];
        *ret_next = store_task_free(next, found.now) ? next : NULL;
        return STORE_DONE;
    }
    return status;
}
