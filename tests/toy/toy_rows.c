/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of modules: what store/table.h says of them, and nothing else. */
#include "toy_rows.h"

#include "base/check.h"
#include "store/backend.h"
#include <string.h>

/* Texts and numbers in their order. */
static int compare(const struct table_column *column, const struct table_row *a,
                   const struct table_row *b)
{
    if (column->kind == TABLE_INT) {
        int64_t x = table_number(column, a), y = table_number(column, b);
        return (x > y) - (x < y);
    }
    struct slice x = table_text(column, a), y = table_text(column, b);
    size_t common = x.len < y.len ? x.len : y.len;
    int order = common > 0 ? memcmp(x.at, y.at, common) : 0;
    return order != 0 ? order : (x.len > y.len) - (x.len < y.len);
}

static bool has_key(const struct table *table, const struct table_row *row,
                    const struct table_row *like)
{
    bool same = table_column_of(table, TABLE_KEY) != NULL;
    for (size_t i = 0; i < table->n_columns && same; i++)
        same = table->columns[i].role != TABLE_KEY || compare(&table->columns[i], row, like) == 0;
    return same;
}

static bool is_in(const struct table *table, const struct table_index *index,
                  const struct table_row *row)
{
    const struct table_column *last = table_index_column(table, index, index->n_columns - 1U);
    bool is_time = last->role == TABLE_DUE || last->role == TABLE_GONE;
    return !index->is_partial ||
           (last->kind != TABLE_INT ? table_text(last, row).len > 0
                                    : table_number(last, row) != (is_time ? CLOCK_NEVER : 0));
}

/* By the columns of the index from `at` to `end`. */
static int compare_in(const struct table_query *query, size_t at, size_t end,
                      const struct table_row *a, const struct table_row *b)
{
    int order = 0;
    for (; at < end && order == 0; at++)
        order = compare(table_index_column(query->table, query->index, at), a, b);
    return query->is_backward ? -order : order;
}

/* Negative: `a` comes before `b`. */
static int compare_places(const struct table_query *query, const struct table_row *a,
                          const struct table_row *b)
{
    int order = query->index ? compare_in(query, query->prefix, query->index->n_columns, a, b) : 0;
    int by_id =
        query->is_backward ? (b->id > a->id) - (b->id < a->id) : (a->id > b->id) - (a->id < b->id);
    return order != 0 ? order : by_id;
}

static bool is_like(const struct table_query *query, const struct table_row *row)
{
    if (query->by == TABLE_BY_KEY)
        return has_key(query->table, row, query->like);
    return query->by == TABLE_BY_ID
               ? row->id > query->after
               : is_in(query->table, query->index, row) &&
                     compare_in(query, 0, query->prefix, row, query->like) == 0;
}

/* The first row behind that one; NULL: none. */
static const struct table_row *next_row(const struct rows *rows, const struct table_query *query,
                                        const struct table_row *behind)
{
    const struct table_row *next = NULL;
    for (size_t i = 0; i < rows->n; i++) {
        const struct table_row *row = rows->at[i].row;
        if (rows->at[i].table != query->table || !is_like(query, row))
            continue;
        int order = !behind ? 1
                    : query->is_first_of_each
                        ? compare_in(query, query->prefix, query->prefix + 1, row, behind)
                        : compare_places(query, row, behind);
        if (order > 0 && (!next || compare_places(query, row, next) < 0))
            next = row;
    }
    return next;
}

int64_t toy_read_rows(const struct rows *rows, const struct table_query *query, int64_t now)
{
    const struct table_column *due = table_query_due(query);
    size_t left = query->by == TABLE_BY_KEY ? 1 : query->limit;
    const struct table_row *row = next_row(rows, query, query->behind);
    int64_t next = CLOCK_NEVER;
    if (query->is_count) {
        struct table_row count = {0};
        for (; row && (size_t)count.id < left; row = next_row(rows, query, row))
            count.id++;
        query->each(query->argument, &count);
        return next;
    }
    for (bool more = true; row && more; row = next_row(rows, query, row)) {
        bool early = due && table_number(due, row) > now;
        if (due && (early || left == 0))
            next = clock_first(next, table_number(due, row));
        more = early ? query->is_first_of_each : left > 0;
        if (!more || early)
            continue;
        query->each(query->argument, row);
        left--;
    }
    return next;
}

/* Whether another row has what the key or a unique index of this one holds. */
static bool is_taken(const struct rows *rows, const struct table *table,
                     const struct table_row *row)
{
    const struct table_row *other = next_row(
        rows, &(struct table_query){.table = table, .by = TABLE_BY_KEY, .like = row}, NULL);
    bool taken = other && other->id != row->id;
    for (size_t i = 0; i < table->n_indexes && !taken; i++) {
        const struct table_index *index = &table->indexes[i];
        if (!index->is_unique || !is_in(table, index, row))
            continue;
        other = next_row(rows,
                         &(struct table_query){.table = table,
                                               .by = TABLE_BY_INDEX,
                                               .index = index,
                                               .prefix = index->n_columns,
                                               .like = row},
                         NULL);
        taken = other && other->id != row->id;
    }
    return taken;
}

void toy_remove_row(struct rows *rows, const struct table *table, int64_t id)
{
    toy_set_row(rows, table, id, NULL);
    for (size_t i = rows->n; i-- > 0;) {
        const struct slot *slot = &rows->at[i];
        const struct table_column *column = table_column_of(slot->table, TABLE_PARENT);
        if (slot->table->parent == table &&
            (column ? table_number(column, slot->row) : slot->row->id) == id)
            toy_set_row(rows, slot->table, slot->row->id, NULL);
    }
}

static void add_to_sum(struct rows *rows, struct table_change *change)
{
    const struct table *table = change->table;
    const struct table_column *sum = table_column_of(table, TABLE_SUM);
    struct table_query same_key = {.table = table, .by = TABLE_BY_KEY, .like = change->row};
    const struct table_row *same = next_row(rows, &same_key, NULL);
    struct table_row *there = same ? toy_find_row(rows, table, same->id) : NULL;
    if (!there) {
        toy_set_row(rows, table, change->row->id, toy_copy_row(table, change->row, NULL));
        ((struct table_row *)toy_find_row(rows, table, change->row->id))->version = change->version;
        return;
    }
    if (there->version != change->version)
        table_set_number(sum, there, table_number(sum, there) + table_number(sum, change->row));
    there->version = change->version;
}

bool toy_bring_row(struct rows *rows, struct table_change *change)
{
    const struct table *table = change->table;
    struct table_row *row = toy_find_row(rows, table, change->row->id), *made = NULL;
    bool inserts = change->act == TABLE_INSERT, touches = change->act == TABLE_TOUCH;
    bool is_same = row && row->version == change->row->version && !inserts;
    bool fit =
        row ? is_same || row->version == change->version : inserts || backend_may_miss(change);
    bool removes = change->act == TABLE_REMOVE;
    if (change->act == TABLE_ADD) {
        add_to_sum(rows, change);
        return true;
    }
    fit = fit && (removes || touches || !is_taken(rows, table, change->row));
    change->is_stale = !fit;
    if (!fit)
        return false;
    if (removes) {
        toy_remove_row(rows, table, change->row->id);
        return true;
    }
    made = toy_copy_row(table, touches ? row : change->row, NULL);
    made->version = table->is_log ? 0 : change->version;
    toy_set_row(rows, table, change->row->id, made);
    return true;
}
