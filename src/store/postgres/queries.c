/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of modules, read: by id, by key, by index. */
#include "base/check.h"
#include "base/clock.h"
#include "store/postgres/postgres.h"

/* ---- SQL ---- */

/* A statement with its parameters. */
struct statement {
    const struct table_query *query;
    struct postgres_params *params;
    struct buf *sql;
};

static void add_selected_columns(struct statement *statement)
{
    const struct table *table = statement->query->table;
    buf_add_str(statement->sql, "SELECT id, version");
    for (size_t i = 0; i < table->n_columns; i++)
        buf_printf(statement->sql, ", \"%s\"", table->columns[i].name);
}

static void add_from(struct statement *statement)
{
    if (statement->query->is_count)
        buf_add_str(statement->sql, "SELECT count(*) FROM (SELECT 1");
    else
        add_selected_columns(statement);
    buf_printf(statement->sql, " FROM pawl.%s WHERE ",
               postgres_table_name(statement->query->table));
}

static void add_statement_value(struct statement *statement, const struct table_column *column,
                                const struct table_row *row)
{
    if (column->kind == TABLE_INT)
        postgres_add_number(statement->params, table_number(column, row));
    else
        postgres_add_bytes(statement->params, table_text(column, row));
    buf_printf(statement->sql, "$%zu", statement->params->n);
}

static void add_statement_number(struct statement *statement, int64_t number)
{
    postgres_add_number(statement->params, number);
    buf_printf(statement->sql, "$%zu", statement->params->n);
}

static void add_statement_key(struct statement *statement)
{
    const struct table *table = statement->query->table;
    buf_add_str(statement->sql, "true");
    for (size_t i = 0; i < table->n_columns; i++) {
        if (table->columns[i].role != TABLE_KEY)
            continue;
        buf_printf(statement->sql, " AND \"%s\" = ", table->columns[i].name);
        add_statement_value(statement, &table->columns[i], statement->query->like);
    }
}

static const struct table_column *column_at(const struct statement *statement, size_t at)
{
    return table_index_column(statement->query->table, statement->query->index, at);
}

/* The rows of an index that are like `like` in its first columns. */
static void add_prefix(struct statement *statement)
{
    const struct table_query *query = statement->query;
    size_t last = (size_t)query->index->n_columns - 1;
    if (query->index->is_partial)
        postgres_table_is_set(column_at(statement, last), statement->sql);
    else
        buf_add_str(statement->sql, "true");
    for (size_t i = 0; i < query->prefix; i++) {
        buf_printf(statement->sql, " AND \"%s\" = ", column_at(statement, i)->name);
        add_statement_value(statement, column_at(statement, i), query->like);
    }
    if (query->is_sound_only) {
        buf_add_str(statement->sql, " AND ");
        table_write_sound(query->table, TABLE_POSTGRES, statement->sql);
    }
}

/* Behind a row of the same. */
static void add_behind(struct statement *statement)
{
    const struct table_query *query = statement->query;
    struct buf *sql = statement->sql;
    buf_add_str(sql, " AND (");
    for (size_t i = query->prefix; i < query->index->n_columns; i++)
        buf_printf(sql, "\"%s\", ", column_at(statement, i)->name);
    buf_printf(sql, "id) %c (", query->is_backward ? '<' : '>');
    for (size_t i = query->prefix; i < query->index->n_columns; i++) {
        add_statement_value(statement, column_at(statement, i), query->behind);
        buf_add_str(sql, ", ");
    }
    add_statement_number(statement, query->behind->id);
    buf_add_char(sql, ')');
}

static void add_statement_order(struct statement *statement)
{
    const struct table_query *query = statement->query;
    const char *direction = query->is_backward ? " DESC" : "";
    buf_add_str(statement->sql, " ORDER BY ");
    for (size_t i = query->prefix; i < query->index->n_columns; i++)
        buf_printf(statement->sql, "\"%s\"%s, ", column_at(statement, i)->name, direction);
    buf_printf(statement->sql, "id%s LIMIT ", direction);
}

/* One row more than the limit where its time is to be known. */
static void add_limit(struct statement *statement)
{
    const struct table_query *query = statement->query;
    int64_t limit = query->limit < INT64_MAX ? (int64_t)query->limit : INT64_MAX - 1;
    add_statement_number(statement, limit + (table_query_due(query) ? 1 : 0));
}

/* From one value to the next: the index is entered once for each. */
static void add_firsts(struct statement *statement)
{
    const struct table_query *query = statement->query;
    const char *value = column_at(statement, query->prefix)->name;
    struct buf *sql = statement->sql;
    char than = query->is_backward ? '<' : '>';
    buf_add_str(sql, "WITH RECURSIVE f AS ((");
    add_from(statement);
    add_prefix(statement);
    if (query->behind) {
        buf_printf(sql, " AND \"%s\" %c ", value, than);
        add_statement_value(statement, column_at(statement, query->prefix), query->behind);
    }
    add_statement_order(statement);
    buf_add_str(sql, "1) UNION ALL SELECT n.* FROM f CROSS JOIN LATERAL (");
    add_from(statement);
    add_prefix(statement);
    buf_printf(sql, " AND \"%s\" %c f.\"%s\"", value, than, value);
    add_statement_order(statement);
    buf_add_str(sql, "1) n)");
    add_selected_columns(statement);
    buf_add_str(sql, " FROM f");
}

static void add_keyset(struct statement *statement)
{
    if (statement->query->is_first_of_each) {
        add_firsts(statement);
        return;
    }
    add_from(statement);
    add_prefix(statement);
    if (statement->query->behind)
        add_behind(statement);
    add_statement_order(statement);
    add_limit(statement);
    if (statement->query->is_count)
        buf_add_str(statement->sql, ") c");
}

static void add_table_query(struct statement *statement)
{
    if (statement->query->by == TABLE_BY_INDEX) {
        add_keyset(statement);
        return;
    }
    add_from(statement);
    if (statement->query->by == TABLE_BY_KEY) {
        add_statement_key(statement);
        return;
    }
    buf_add_str(statement->sql, "id > ");
    add_statement_number(statement, statement->query->after);
    buf_add_str(statement->sql, " ORDER BY id LIMIT ");
    add_limit(statement);
}

/* ---- rows ---- */

/* One that no pawl wrote is what its table makes of it. */
static void read_result_row(const PGresult *result, int at, const struct table *table,
                            struct table_row *ret_row)
{
    bool is_sound = true;
    ret_row->id = postgres_number(result, at, 0);
    ret_row->version = postgres_number(result, at, 1);
    for (size_t i = 0; i < table->n_columns; i++) {
        const struct table_column *column = &table->columns[i];
        int64_t number = column->kind == TABLE_INT ? postgres_number(result, at, (int)i + 2) : 0;
        is_sound = is_sound && table_fits(column, number);
        if (column->kind == TABLE_INT)
            table_set_number(column, ret_row, number);
        else
            table_set_text(column, ret_row, postgres_bytes(result, at, (int)i + 2));
    }
    if (table->hold && !(is_sound && table_is_sound(table, ret_row)))
        table->hold(ret_row);
}

/* The first one that is not due ends a query by time, but not one for the first of each value. */
static void read_result_rows(const PGresult *result, const struct table_query *query, int64_t now,
                             int64_t *ret_next)
{
    _Alignas(max_align_t) unsigned char bytes[TABLE_ROW_MAX] = {0};
    struct table_row *row = (struct table_row *)bytes;
    const struct table_column *due = table_query_due(query);
    size_t shown = 0;
    for (int at = 0; at < PQntuples(result); at++) {
        read_result_row(result, at, query->table, row);
        bool is_over = query->by == TABLE_BY_INDEX && shown == query->limit;
        bool is_early = due && table_number(due, row) > now;
        if (due && (is_over || is_early))
            *ret_next = clock_first(*ret_next, table_number(due, row));
        if (is_early ? !query->is_first_of_each : is_over)
            return;
        if (is_early)
            continue;
        query->each(query->argument, row);
        shown++;
    }
}

static void show_count(const PGresult *result, const struct table_query *query)
{
    query->each(query->argument, &(struct table_row){.id = postgres_number(result, 0, 0)});
}

enum backend_status postgres_query(struct backend *backend, const struct table_query *query,
                                   int64_t now, int64_t *ret_next)
{
    struct postgres_backend *postgres = postgres_of(backend);
    struct buf sql BUF_AUTO = buf_make(POSTGRES_TABLE_SQL_MAX);
    struct statement statement = {.query = query, .params = &postgres->params, .sql = &sql};
    *ret_next = CLOCK_NEVER;
    enum backend_status status = postgres_start(postgres);
    if (status != BACKEND_OK)
        return status;
    postgres_params_clear(&postgres->params);
    add_table_query(&statement);
    buf_add_char(&sql, 0);
    CHECK(!sql.too_large);
    if (!buf_ok(&sql))
        return BACKEND_NO_MEMORY;
    postgres_queue_limits(postgres, POSTGRES_READS);
    postgres_queue(postgres, sql.at, &postgres->params);
    status = postgres_finish(postgres);
    if (status == BACKEND_OK && query->is_count)
        show_count(postgres->results[1], query);
    else if (status == BACKEND_OK)
        read_result_rows(postgres->results[1], query, now, ret_next);
    return status;
}
