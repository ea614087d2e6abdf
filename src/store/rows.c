/* SPDX-License-Identifier: Apache-2.0 */
#include "store/rows.h"

#include "base/check.h"
#include "base/clock.h"
#include <string.h>

#define PAGE ((size_t)500)
#define ANY INT64_C(-1) /* in place of a row's id */

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
        const struct table_row **rows = arena_alloc(all->arena, *room * sizeof *rows);
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

static enum store_status find_row_by_id(struct rows *rows, const struct table_query *query,
                                        int64_t id, struct table_row *row)
{
    struct table_query first = *query;
    struct store_found found;
    first.limit = 1;
    enum store_status status = rows_find(rows, &first, &found);
    bool is_there = status == STORE_DONE && found.n == 1 && (id == ANY || found.rows[0]->id == id);
    if (is_there)
        memcpy(row, found.rows[0], query->table->row_size);
    else
        row->id = 0;
    return status;
}

enum store_status rows_find_first(struct rows *rows, const struct table_query *query,
                                  struct table_row *row)
{
    return find_row_by_id(rows, query, ANY, row);
}

enum store_status rows_find_one(struct rows *rows, const struct table *table, struct table_row *row)
{
    const struct table_query query = {.table = table, .by = TABLE_BY_KEY, .like = row};
    return find_row_by_id(rows, &query, ANY, row);
}

enum store_status rows_by_id(struct rows *rows, const struct table *table, int64_t id,
                             struct table_row *row)
{
    const struct table_query query = {.table = table, .after = id - 1};
    return find_row_by_id(rows, &query, id, row);
}

/* ---- saving ---- */

void rows_put(struct rows *rows, enum table_act act, const struct table *table,
              struct table_row *row, const struct table_row *parent)
{
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
    return op.result.status;
}

enum store_status rows_repeat(struct rows *rows, rows_try *try, void *argument)
{
    enum store_status status = STORE_CONFLICT;
    for (int tries = 0; tries < ROWS_TRIES_MOST && status == STORE_CONFLICT; tries++) {
        rows->n = 0;
        status = try(rows, argument);
    }
    return status == STORE_CONFLICT ? STORE_DOWN : status;
}
