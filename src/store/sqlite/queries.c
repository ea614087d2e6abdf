/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of modules, read: by id, by key, by index. */
#include "base/check.h"
#include "base/clock.h"
#include "store/sqlite/sqlite.h"

/* Where a query by index begins. */
enum cursor { AT_START, BEHIND_ROW, BEHIND_VALUE };

/* ---- SQL ---- */

/* Up to the end of the index and with the id, but behind a value. */
static void add_place(struct buf *sql, const struct table_query *query, enum cursor cursor)
{
    size_t at = query->prefix, end = cursor == BEHIND_VALUE ? at + 1 : query->index->n_columns;
    if (cursor == AT_START)
        return;
    buf_add_str(sql, " AND (");
    for (size_t i = at; i < end; i++)
        buf_printf(sql, "%s%s", i > at ? ", " : "",
                   table_index_column(query->table, query->index, i)->name);
    buf_printf(sql, "%s) %c (",
               cursor == BEHIND_VALUE ? ""
               : end > at             ? ", id"
                                      : "id",
               query->is_backward ? '<' : '>');
    for (size_t i = at; i < end; i++)
        buf_add_str(sql, i > at ? ", ?" : "?");
    buf_printf(sql, "%s)", cursor == BEHIND_VALUE ? "" : end > at ? ", ?" : "?");
}

static void add_order_sql(struct buf *sql, const struct table_query *query)
{
    const char *direction = query->is_backward ? " DESC" : "";
    buf_add_str(sql, " ORDER BY ");
    for (size_t i = query->prefix; i < query->index->n_columns; i++)
        buf_printf(sql, "%s%s, ", table_index_column(query->table, query->index, i)->name,
                   direction);
    buf_printf(sql, "id%s LIMIT ?", direction);
}

static void add_query_sql(struct buf *sql, const struct table_query *query, enum cursor cursor)
{
    const struct table *table = query->table;
    const struct table_index *index = query->index;
    buf_add_str(sql, query->is_count ? "SELECT count(*) FROM (SELECT 1" : "SELECT ");
    if (!query->is_count)
        sqlite_table_names(table, sql);
    buf_printf(sql, " FROM %s INDEXED BY %s_%s WHERE ", table->name, table->name, index->name);
    if (index->is_partial)
        sqlite_table_is_set(table_index_column(table, index, (size_t)index->n_columns - 1), sql);
    else
        buf_add_char(sql, '1');
    for (size_t i = 0; i < query->prefix; i++)
        buf_printf(sql, " AND %s=?", table_index_column(table, index, i)->name);
    add_place(sql, query, cursor);
    if (query->is_sound_only) {
        buf_add_str(sql, " AND ");
        table_write_sound(table, TABLE_SQLITE, sql);
    }
    add_order_sql(sql, query);
    if (query->is_count)
        buf_add_char(sql, ')');
}

/* ---- statements ---- */

/* The statement of that shape, or the place of a new one: a free one, or that of the one made
 * longest ago. */
static struct sqlite_query *find_query(struct sqlite_table *table, const struct sqlite_query *shape)
{
    for (size_t i = 0; i < table->n_queries; i++) {
        const struct sqlite_query *made = &table->queries[i];
        if (made->index == shape->index && made->shape == shape->shape)
            return &table->queries[i];
    }
    bool is_full = table->n_queries == SQLITE_QUERIES_MAX;
    size_t at = is_full ? table->next_query++ % SQLITE_QUERIES_MAX : table->n_queries++;
    sqlite3_finalize(table->queries[at].statement);
    table->queries[at] = *shape;
    return &table->queries[at];
}

static struct sqlite_binding bind_query(struct sqlite_backend *sqlite,
                                        const struct table_query *query, enum cursor cursor)
{
    struct sqlite_query shape = {
        .index = query->index,
        .shape = (unsigned)query->prefix << 5 | (unsigned)cursor << 3 |
                 (unsigned)query->is_sound_only << 2 | (unsigned)query->is_count << 1 |
                 query->is_backward,
    };
    struct sqlite_query *found = find_query(sqlite_table_find(sqlite, query->table), &shape);
    if (!found->statement) {
        struct buf sql BUF_AUTO = buf_make(SQLITE_TABLE_SQL_MAX);
        add_query_sql(&sql, query, cursor);
        sqlite_note(sqlite, sqlite_table_prepare(sqlite, &sql, &found->statement));
    }
    struct sqlite_binding binding = {.sqlite = sqlite, .statement = found->statement};
    for (size_t i = 0; i < query->prefix; i++)
        sqlite_bind_column(&binding, table_index_column(query->table, query->index, i),
                           query->like);
    return binding;
}

static void bind_place(struct sqlite_binding *binding, const struct table_query *query,
                       enum cursor cursor, const struct table_row *place)
{
    size_t at = query->prefix, end = cursor == BEHIND_VALUE ? at + 1 : query->index->n_columns;
    for (size_t i = at; i < end && cursor != AT_START; i++)
        sqlite_bind_column(binding, table_index_column(query->table, query->index, i), place);
    if (cursor == BEHIND_ROW)
        sqlite_bind_number(binding, place->id);
}

/* ---- rows ---- */

/* A number as its field has it. False: it is none that the field can hold. */
static bool read_column_number(sqlite3_stmt *s, int at, const struct table_column *column,
                               struct table_row *ret_row)
{
    int64_t number = sqlite3_column_int64(s, at);
    table_set_number(column, ret_row, number);
    return sqlite3_column_type(s, at) == SQLITE_INTEGER && table_fits(column, number);
}

/* One that no pawl wrote is what its table makes of it. */
static void read_query_row(const struct sqlite_binding *binding, const struct table *table,
                           struct table_row *ret_row)
{
    sqlite3_stmt *s = binding->statement;
    bool is_sound = true;
    int at = 0;
    ret_row->id = sqlite3_column_int64(s, at++);
    ret_row->version = table->is_log ? 0 : sqlite3_column_int64(s, at++);
    for (size_t i = 0; i < table->n_columns; i++, at++)
        if (table->columns[i].kind == TABLE_INT)
            is_sound = read_column_number(s, at, &table->columns[i], ret_row) && is_sound;
        else
            table_set_text(&table->columns[i], ret_row,
                           table->columns[i].kind == TABLE_TEXT
                               ? sqlite_column_text(binding->sqlite, s, at)
                               : sqlite_column_bytes(s, at));
    if (table->hold && !(is_sound && table_is_sound(table, ret_row)))
        table->hold(ret_row);
}

/* The rows of a bound query; `*ret_next`: see backend.h. */
static void read_query_rows(const struct sqlite_binding *binding, const struct table_query *query,
                            int64_t now, int64_t *ret_next)
{
    _Alignas(max_align_t) unsigned char bytes[TABLE_ROW_MAX] = {0};
    struct table_row *row = (struct table_row *)bytes;
    const struct table_column *due = table_query_due(query);
    for (size_t n = 0; sqlite_step(binding); n++) {
        read_query_row(binding, query->table, row);
        if (due && (n == query->limit || table_number(due, row) > now)) {
            *ret_next = table_number(due, row);
            break;
        }
        query->each(query->argument, row);
    }
    sqlite3_reset(binding->statement);
}

static void read_count(const struct sqlite_binding *binding, const struct table_query *query)
{
    struct table_row row = {0};
    if (sqlite_step(binding)) {
        row.id = sqlite3_column_int64(binding->statement, 0);
        query->each(query->argument, &row);
    }
    sqlite3_reset(binding->statement);
}

/* The value that `row` has in the column goes into `place`, its text into `text`. False: there is
 * no memory for it. */
static bool keep_value(const struct table_column *column, const struct table_row *row,
                       struct table_row *place, struct buf *text)
{
    if (column->kind == TABLE_INT) {
        table_set_number(column, place, table_number(column, row));
        return true;
    }
    buf_clear(text);
    buf_add_slice(text, table_text(column, row));
    table_set_text(column, place, buf_slice(text));
    return buf_ok(text);
}

struct firsts {
    struct sqlite_backend *sqlite;
    const struct table_query *query;
    const struct table_row *behind; /* the value that was found last; NULL: none */
    size_t n;                       /* rows that were shown */
    int64_t now;
    int64_t next;
};

/* The first row of the next value: shows it if it is due, and keeps its value. False: there is
 * none, or it was not to be shown any more. */
static bool read_first_row(struct firsts *firsts, struct table_row *place, struct buf *text)
{
    _Alignas(max_align_t) unsigned char bytes[TABLE_ROW_MAX] = {0};
    struct table_row *row = (struct table_row *)bytes;
    const struct table_query *query = firsts->query;
    enum cursor cursor = firsts->behind ? BEHIND_VALUE : AT_START;
    const struct table_column *due = table_query_due(query);
    struct sqlite_binding binding = bind_query(firsts->sqlite, query, cursor);
    bind_place(&binding, query, cursor, firsts->behind);
    sqlite_bind_number(&binding, 1);
    bool found = sqlite_step(&binding);
    if (found)
        read_query_row(&binding, query->table, row);
    int64_t due_at = found && due ? table_number(due, row) : 0;
    bool is_left_out = due_at > firsts->now || firsts->n == query->limit;
    if (found && is_left_out && due)
        firsts->next = clock_first(firsts->next, due_at);
    if (found && !is_left_out) {
        query->each(query->argument, row);
        firsts->n++;
    }
    const struct table_column *column =
        table_index_column(query->table, query->index, query->prefix);
    if (found && !keep_value(column, row, place, text))
        found = sqlite_fail(firsts->sqlite, SQLITE_NOMEM);
    firsts->behind = place;
    sqlite3_reset(binding.statement);
    return found && (!is_left_out || due_at > firsts->now);
}

static int64_t read_firsts(struct sqlite_backend *sqlite, const struct table_query *query,
                           int64_t now)
{
    _Alignas(max_align_t) unsigned char bytes[TABLE_ROW_MAX] = {0};
    struct buf text BUF_AUTO = buf_make(SIZE_MAX);
    struct firsts firsts = {
        .sqlite = sqlite, .query = query, .behind = query->behind, .now = now, .next = CLOCK_NEVER};
    while (read_first_row(&firsts, (struct table_row *)bytes, &text))
        ;
    return firsts.next;
}

static void bind_query_key(struct sqlite_binding *binding, const struct table_query *query)
{
    for (size_t i = 0; i < query->table->n_columns; i++)
        if (query->table->columns[i].role == TABLE_KEY)
            sqlite_bind_column(binding, &query->table->columns[i], query->like);
}

/* One row more than the limit where its time is to be known. */
static struct sqlite_binding bind_rows(struct sqlite_backend *sqlite,
                                       const struct table_query *query)
{
    int64_t limit = query->limit < INT64_MAX ? (int64_t)query->limit : INT64_MAX - 1;
    enum cursor cursor = query->behind ? BEHIND_ROW : AT_START;
    bool by_key = query->by == TABLE_BY_KEY;
    struct sqlite_binding binding =
        query->by == TABLE_BY_INDEX
            ? bind_query(sqlite, query, cursor)
            : sqlite_table_bind(sqlite, query->table, by_key ? TABLE_SQL_FIND : TABLE_SQL_LIST);
    if (query->by == TABLE_BY_INDEX)
        bind_place(&binding, query, cursor, query->behind);
    else if (by_key)
        bind_query_key(&binding, query);
    else
        sqlite_bind_number(&binding, query->after);
    if (!by_key)
        sqlite_bind_number(&binding, limit + (table_query_due(query) ? 1 : 0));
    return binding;
}

enum backend_status sqlite_query(struct backend *backend, const struct table_query *query,
                                 int64_t now, int64_t *ret_next)
{
    struct sqlite_backend *sqlite = sqlite_call(backend);
    *ret_next = CLOCK_NEVER;
    if (query->by == TABLE_BY_INDEX && query->is_first_of_each) {
        *ret_next = read_firsts(sqlite, query, now);
        return sqlite->status;
    }
    struct sqlite_binding binding = bind_rows(sqlite, query);
    if (query->is_count)
        read_count(&binding, query);
    else
        read_query_rows(&binding, query, now, ret_next);
    return sqlite->status;
}
