/* SPDX-License-Identifier: Apache-2.0 */
#include "store/rows.h"

#include "base/check.h"
#include "base/clock.h"
#include <string.h>

#define PAGE ((size_t)500)

static void run_rows_op(const struct rows *rows, struct store_op *op)
{
    int64_t within_us = rows->within_us > 0 ? rows->within_us : ROWS_WITHIN_US;
    store_run(rows->store, op, rows->parker, clock_after(clock_boot_us(), within_us));
}

/* ---- finding ---- */

enum store_status rows_find(struct rows *rows, const struct table_query *query,
                            struct store_found *ret_found)
{
    struct finding finding;
    struct store_op op;
    *ret_found = (struct store_found){.arena = rows->arena};
    finding_start(&finding, query, ret_found, &op);
    run_rows_op(rows, &op);
    enum store_status status = finding_end(&finding, &op);
    rows->now = ret_found->now;
    return status;
}

/* What it has outgrown stays in the arena. */
static bool append_page(struct store_found *all, size_t *room, const struct store_found *page)
{
    if (all->n + page->n > *room) {
        *room = 2 * (all->n + page->n);
        struct table_row **rows = arena_alloc(all->arena, *room * sizeof *rows);
        if (!rows)
            return false;
        if (all->n > 0)
            memcpy(rows, all->rows, all->n * sizeof *rows);
        all->rows = rows;
    }
    if (page->n > 0)
        memcpy(all->rows + all->n, page->rows, page->n * sizeof *page->rows);
    all->n += page->n;
    all->now = page->now;
    return true;
}

enum store_status rows_find_all(struct rows *rows, const struct table *table,
                                struct store_found *ret_found)
{
    struct store_found *all = ret_found, page;
    enum store_status status;
    size_t room = 0;
    *all = (struct store_found){.arena = rows->arena, .next_due = CLOCK_NEVER};
    do {
        const struct table_query query = {
            .table = table, .after = all->n > 0 ? all->rows[all->n - 1]->id : 0, .limit = PAGE};
        status = rows_find(rows, &query, &page);
        if (status == STORE_DONE && !append_page(all, &room, &page))
            status = STORE_NO_MEMORY;
    } while (status == STORE_DONE && page.n == PAGE);
    return status;
}

static enum store_status take_first_row(struct rows *rows, const struct table_query *query,
                                        struct table_row **ret_row)
{
    struct table_query first = *query;
    struct store_found found;
    first.limit = 1;
    enum store_status status = rows_find(rows, &first, &found);
    *ret_row = status == STORE_DONE && found.n == 1 ? found.rows[0] : NULL;
    return status;
}

static void copy_taken(const struct table *table, const struct table_row *taken,
                       struct table_row *row)
{
    if (taken)
        memcpy(row, taken, table->row_size);
    else
        row->id = 0;
}

enum store_status rows_find_first(struct rows *rows, const struct table_query *query,
                                  struct table_row *row)
{
    struct table_row *taken;
    enum store_status status = take_first_row(rows, query, &taken);
    copy_taken(query->table, taken, row);
    return status;
}

enum store_status rows_find_one(struct rows *rows, const struct table *table, struct table_row *row)
{
    const struct table_query query = {.table = table, .by = TABLE_BY_KEY, .like = row};
    return rows_find_first(rows, &query, row);
}

enum store_status rows_take(struct rows *rows, const struct table *table, int64_t id,
                            struct table_row **ret_row)
{
    const struct table_query query = {.table = table, .after = id - 1};
    enum store_status status = take_first_row(rows, &query, ret_row);
    if (*ret_row && (*ret_row)->id != id)
        *ret_row = NULL;
    return status;
}

enum store_status rows_by_id(struct rows *rows, const struct table *table, int64_t id,
                             struct table_row *row)
{
    struct table_row *taken;
    enum store_status status = rows_take(rows, table, id, &taken);
    copy_taken(table, taken, row);
    return status;
}

static void keep_count(void *argument, const struct table_row *row)
{
    *(size_t *)argument = (size_t)row->id;
}

enum store_status rows_count(struct rows *rows, const struct table_query *query, size_t *ret_n)
{
    struct table_query count = *query;
    struct store_op op = {.kind = STORE_QUERY, .query = &count};
    *ret_n = 0;
    count.is_count = true;
    count.each = keep_count;
    count.argument = ret_n;
    run_rows_op(rows, &op);
    return op.result.status;
}

/* ---- saving ---- */

void rows_put(struct rows *rows, enum table_act act, const struct table *table,
              struct table_row *row, const struct table_row *parent)
{
    if (!rows->changes) {
        rows->changes = rows->room;
        rows->most = ROWS_ROOM;
    }
    CHECK(rows->n < rows->most);
    rows->changes[rows->n++] =
        (struct table_change){.table = table, .act = act, .row = row, .parent = parent};
}

enum store_status rows_save(struct rows *rows)
{
    struct store_op op = {.kind = STORE_ROWS,
                          .brings = rows->changes,
                          .n_brings = rows->n,
                          .rows.begins = rows->begins,
                          .rows.terms = rows->terms};
    if (rows->n == 0)
        return STORE_DONE;
    run_rows_op(rows, &op);
    for (size_t i = 0; op.result.status == STORE_DONE && i < rows->n; i++)
        rows->changes[i].row->version = rows->changes[i].version;
    return op.result.status;
}

bool rows_try_again(struct rows *rows, enum store_status *status)
{
    if (*status == STORE_CONFLICT && rows->tries == ROWS_TRIES_MOST)
        *status = STORE_DOWN;
    if (*status != STORE_CONFLICT) {
        rows->tries = 0;
        return false;
    }
    rows->tries++;
    rows->n = 0;
    return true;
}
