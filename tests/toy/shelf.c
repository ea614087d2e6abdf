/* SPDX-License-Identifier: Apache-2.0 */
#include "shelf.h"

#include "base/check.h"
#include <stdlib.h>

struct shelf_row {
    struct shelf_row *next;
    const struct table *table;
    struct table_row *row; /* behind this struct, and behind it its texts */
};

static struct shelf_row *copy(const struct table *table, const struct table_row *row)
{
    size_t size = sizeof(struct shelf_row) + table->row_size;
    for (size_t i = 0; i < table->n_columns; i++)
        if (table->columns[i].kind != TABLE_INT)
            size += table_text(&table->columns[i], row).len;
    struct shelf_row *made = malloc(size);
    CHECK(made);
    *made = (struct shelf_row){.table = table, .row = (struct table_row *)(made + 1)};
    memcpy(made->row, row, table->row_size);
    char *at = (char *)made->row + table->row_size;
    for (size_t i = 0; i < table->n_columns; i++) {
        if (table->columns[i].kind == TABLE_INT)
            continue;
        struct slice text = table_text(&table->columns[i], row);
        memcpy(at, text.len > 0 ? text.at : "", text.len);
        table_set_text(&table->columns[i], made->row, slice_make(at, text.len));
        at += text.len;
    }
    return made;
}

static struct shelf_row **place(struct shelf *shelf, const struct table *table, int64_t id)
{
    struct shelf_row **link = &shelf->first;
    while (*link && ((*link)->table != table || (*link)->row->id < id))
        link = &(*link)->next;
    return link;
}

static const struct table_row *find(const struct shelf *shelf, const struct table *table,
                                    int64_t id)
{
    const struct shelf_row *at = *place(&(struct shelf){shelf->first}, table, id);
    return at && at->row->id == id ? at->row : NULL;
}

static bool has_key(const struct table *table, const struct table_row *a, const struct table_row *b)
{
    bool same = table_column_of(table, TABLE_KEY);
    for (size_t i = 0; i < table->n_columns && same; i++) {
        const struct table_column *column = &table->columns[i];
        if (column->role == TABLE_KEY && column->kind == TABLE_INT)
            same = table_number(column, a) == table_number(column, b);
        else if (column->role == TABLE_KEY)
            same = slice_eq(table_text(column, a), table_text(column, b));
    }
    return same;
}

static const struct table_row *find_key(const struct shelf *shelf, const struct table *table,
                                        const struct table_row *like)
{
    const struct shelf_row *at = shelf->first;
    while (at && (at->table != table || !has_key(table, at->row, like)))
        at = at->next;
    return at ? at->row : NULL;
}

/* ---- changes ---- */

static bool fits(const struct shelf *shelf, const struct table_change *change)
{
    const struct table_row *row = find(shelf, change->table, change->row->id);
    if (row && change->version == row->version)
        return true;
    if (change->act == TABLE_INSERT)
        return !row && !find_key(shelf, change->table, change->row);
    return row ? row->version == change->row->version
               : change->act == TABLE_REMOVE && change->again;
}

static void drop(struct shelf_row **link)
{
    struct shelf_row *row = *link;
    *link = row->next;
    free(row);
}

void shelf_fini(struct shelf *shelf)
{
    while (shelf->first)
        drop(&shelf->first);
}

static void apply(struct shelf *shelf, const struct table_change *change)
{
    struct shelf_row **link = place(shelf, change->table, change->row->id);
    if (*link && (*link)->row->id == change->row->id)
        drop(link);
    if (change->act == TABLE_REMOVE)
        return;
    struct shelf_row *made = copy(change->table, change->row);
    made->row->version = change->table->is_log ? 0 : change->version;
    made->next = *link;
    *link = made;
}

bool shelf_with(const struct shelf *shelf, const struct backend_group *group,
                struct shelf *ret_shelf)
{
    struct shelf_row **last = &ret_shelf->first;
    for (const struct shelf_row *at = shelf->first; at; at = at->next, last = &(*last)->next)
        *last = copy(at->table, at->row);
    *last = NULL;
    for (size_t i = 0; i < group->n && group->changes[i].brought; i++) {
        struct table_change *change = group->changes[i].brought;
        change->is_stale = !fits(ret_shelf, change);
        if (change->is_stale) {
            shelf_fini(ret_shelf);
            return false;
        }
        apply(ret_shelf, change);
    }
    return true;
}

/* ---- many ---- */

static bool is_before(const struct table_query *query, const struct table_row *a,
                      const struct table_row *b)
{
    const struct table_column *due = table_column_of(query->table, TABLE_DUE);
    int64_t at = due ? table_number(due, a) : 0, other = due ? table_number(due, b) : 0;
    return query->by == TABLE_BY_DUE && at != other ? at < other : a->id < b->id;
}

/* The first row behind `last`; NULL: none. */
static const struct table_row *next_row(const struct shelf *shelf, const struct table_query *query,
                                        const struct table_row *last)
{
    const struct table_row *next = NULL;
    for (const struct shelf_row *at = shelf->first; at; at = at->next)
        if (at->table == query->table && is_before(query, last, at->row) &&
            (!next || is_before(query, at->row, next)))
            next = at->row;
    return next;
}

void shelf_query(const struct shelf *shelf, const struct table_query *query, int64_t now,
                 int64_t *ret_next)
{
    _Alignas(max_align_t) unsigned char bytes[TABLE_ROW_MAX] = {0};
    struct table_row *after = (struct table_row *)bytes;
    const struct table_column *due = table_column_of(query->table, TABLE_DUE);
    *ret_next = CLOCK_NEVER;
    if (query->by == TABLE_BY_KEY) {
        const struct table_row *found = find_key(shelf, query->table, query->like);
        if (found)
            query->each(query->argument, found);
        return;
    }
    after->id = query->after;
    if (query->by == TABLE_BY_DUE)
        table_set_number(due, after, query->after_due);
    const struct table_row *row = next_row(shelf, query, after);
    for (size_t n = 0; row; row = next_row(shelf, query, row), n++) {
        bool is_later = query->by == TABLE_BY_DUE && table_number(due, row) > now;
        if (is_later || n == query->limit) {
            *ret_next = query->by == TABLE_BY_DUE ? table_number(due, row) : CLOCK_NEVER;
            return;
        }
        query->each(query->argument, row);
    }
}

size_t shelf_sweep(struct shelf *shelf, int64_t now, size_t most)
{
    size_t n = 0;
    struct shelf_row **link = &shelf->first;
    while (*link && n < most) {
        const struct table_column *gone = table_column_of((*link)->table, TABLE_GONE);
        bool is_past = gone && table_number(gone, (*link)->row) <= now - (*link)->table->keep_us;
        n += is_past;
        if (is_past)
            drop(link);
        else
            link = &(*link)->next;
    }
    return n;
}
