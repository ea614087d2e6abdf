/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of modules, by the declarations of their tables (store/table.h): TEXT is kept as bytes. */
#include "base/check.h"
#include "base/clock.h"
#include "store/postgres/postgres.h"
#include <stdio.h>

#define SQL_MAX 8192
#define NEVER "9223372036854775807" /* CLOCK_NEVER: not in an index of times */
#define PREFIX "pawl_"
#define FIXED_VALUES 3 /* id, version as it was read, version from now on */

const char *postgres_table_name(const struct table *table)
{
    bool prefixed = strncmp(table->name, PREFIX, strlen(PREFIX)) == 0;
    return table->name + (prefixed ? strlen(PREFIX) : 0);
}

/* ---- the schema ---- */

/* Around an index: one that is there takes no lock of its table. */
#define IF_MISSING "DO $$ BEGIN IF to_regclass('pawl.%s_%s') IS NULL THEN CREATE "
#define END_MISSING "; END IF; END $$;\n"

static void write_key(const struct table *table, struct buf *sql)
{
    const char *between = "";
    for (size_t i = 0; i < table->n_columns; i++) {
        if (table->columns[i].role != TABLE_KEY)
            continue;
        buf_printf(sql, "%s%s", between, table->columns[i].name);
        between = ", ";
    }
}

static void write_time_index(const struct table *table, enum table_role role, struct buf *sql)
{
    const char *name = postgres_table_name(table);
    const struct table_column *column = table_column_of(table, role);
    if (column)
        buf_printf(sql,
                   IF_MISSING "INDEX %s_%s ON pawl.%s(\"%s\") WHERE \"%s\" < " NEVER END_MISSING,
                   name, column->name, name, column->name, name, column->name, column->name);
}

void postgres_table_write(const struct table *table, struct buf *sql)
{
    const char *name = postgres_table_name(table);
    buf_printf(sql, "CREATE TABLE IF NOT EXISTS pawl.%s(id bigint PRIMARY KEY, version bigint",
               name);
    for (size_t i = 0; i < table->n_columns; i++)
        buf_printf(sql, ", \"%s\" %s NOT NULL", table->columns[i].name,
                   table->columns[i].kind == TABLE_INT ? "bigint" : "bytea");
    buf_add_str(sql, ");\n");
    if (table_column_of(table, TABLE_KEY)) {
        buf_printf(sql, IF_MISSING "UNIQUE INDEX %s_key ON pawl.%s(", name, "key", name, name);
        write_key(table, sql);
        buf_add_str(sql, ")" END_MISSING);
    }
    write_time_index(table, TABLE_DUE, sql);
    write_time_index(table, TABLE_GONE, sql);
}

/* ---- writing a row ---- */

/* $1 is an array of bytes: numbers are written in decimal. */
static void write_value(struct buf *sql, enum table_kind kind, size_t at)
{
    buf_printf(sql, kind == TABLE_INT ? "convert_from($1[%zu], 'UTF8')::bigint" : "$1[%zu]", at);
}

/* One that was inserted by a save that ended unsure is there already, and so it is. */
static void write_insert(const struct table *table, struct buf *sql)
{
    const char *name = postgres_table_name(table);
    buf_printf(sql, "WITH i AS (INSERT INTO pawl.%s(id, version", name);
    for (size_t i = 0; i < table->n_columns; i++)
        buf_printf(sql, ", \"%s\"", table->columns[i].name);
    buf_add_str(sql, ") VALUES (");
    write_value(sql, TABLE_INT, 1);
    buf_add_str(sql, ", ");
    write_value(sql, TABLE_INT, 3);
    for (size_t i = 0; i < table->n_columns; i++) {
        buf_add_str(sql, ", ");
        write_value(sql, table->columns[i].kind, FIXED_VALUES + 1 + i);
    }
    buf_printf(sql,
               ") ON CONFLICT DO NOTHING RETURNING id) SELECT id FROM i UNION ALL SELECT id FROM"
               " pawl.%s WHERE id = ",
               name);
    write_value(sql, TABLE_INT, 1);
    buf_add_str(sql, " AND version = ");
    write_value(sql, TABLE_INT, 3);
}

static void write_update(const struct table *table, struct buf *sql)
{
    buf_printf(sql, "UPDATE pawl.%s SET version = ", postgres_table_name(table));
    write_value(sql, TABLE_INT, 3);
    for (size_t i = 0; i < table->n_columns; i++) {
        if (table->columns[i].role == TABLE_KEY)
            continue;
        buf_printf(sql, ", \"%s\" = ", table->columns[i].name);
        write_value(sql, table->columns[i].kind, FIXED_VALUES + 1 + i);
    }
    buf_add_str(sql, " WHERE id = ");
    write_value(sql, TABLE_INT, 1);
    buf_add_str(sql, " AND version IN (");
    write_value(sql, TABLE_INT, 2);
    buf_add_str(sql, ", ");
    write_value(sql, TABLE_INT, 3);
    buf_add_char(sql, ')');
}

void postgres_table_statement(const struct table_change *change, struct buf *sql)
{
    const struct table *table = change->table;
    if (change->act == TABLE_INSERT) {
        write_insert(table, sql);
        return;
    }
    if (change->act == TABLE_UPDATE) {
        write_update(table, sql);
        return;
    }
    buf_printf(sql, "DELETE FROM pawl.%s WHERE id = ", postgres_table_name(table));
    write_value(sql, TABLE_INT, 1);
    buf_add_str(sql, " AND version = ");
    write_value(sql, TABLE_INT, 2);
}

static void add_value(struct postgres_params *params, int64_t place, struct slice value)
{
    postgres_row_begin(params);
    postgres_column_number(params, place);
    postgres_column_bytes(params, value);
    postgres_row_end(params);
}

static void add_decimal(struct postgres_params *params, int64_t place, int64_t number)
{
    char text[24];
    int n = snprintf(text, sizeof text, "%lld", (long long)number);
    add_value(params, place, slice_make(text, (size_t)n));
}

void postgres_table_values(const struct table_change *change, int64_t place,
                           struct postgres_params *params)
{
    const struct table *table = change->table;
    add_decimal(params, place, change->row->id);
    add_decimal(params, place, change->row->version);
    add_decimal(params, place, table->is_log ? 0 : change->version);
    for (size_t i = 0; i < table->n_columns; i++)
        if (table->columns[i].kind == TABLE_INT)
            add_decimal(params, place, table_number(&table->columns[i], change->row));
        else
            add_value(params, place, table_text(&table->columns[i], change->row));
}

/* ---- reading and sweeping ---- */

static void write_columns(const struct table *table, struct buf *sql)
{
    buf_add_str(sql, "SELECT id, version");
    for (size_t i = 0; i < table->n_columns; i++)
        buf_printf(sql, ", \"%s\"", table->columns[i].name);
    buf_printf(sql, " FROM pawl.%s WHERE ", postgres_table_name(table));
}

static void add_like(const struct table_query *query, struct buf *sql,
                     struct postgres_params *params)
{
    const struct table *table = query->table;
    for (size_t i = 0; i < table->n_columns; i++) {
        const struct table_column *column = &table->columns[i];
        if (column->role != TABLE_KEY)
            continue;
        if (column->kind == TABLE_INT)
            postgres_add_number(params, table_number(column, query->like));
        else
            postgres_add_bytes(params, table_text(column, query->like));
        buf_printf(sql, "%s\"%s\" = $%zu", params->n > 1 ? " AND " : "", column->name, params->n);
    }
}

/* Under TABLE_BY_DUE one row more than the limit is read: its time is when the next one is due. */
static void add_range(const struct table_query *query, struct buf *sql,
                      struct postgres_params *params)
{
    int64_t limit = query->limit < INT64_MAX ? (int64_t)query->limit : INT64_MAX - 1;
    const char *due =
        query->by == TABLE_BY_DUE ? table_column_of(query->table, TABLE_DUE)->name : NULL;
    postgres_add_number(params, query->after);
    postgres_add_number(params, due ? limit + 1 : limit);
    if (!due) {
        buf_add_str(sql, "id > $1 ORDER BY id LIMIT $2");
        return;
    }
    postgres_add_number(params, query->after_due);
    buf_printf(sql, "\"%s\" < " NEVER " AND (\"%s\", id) > ($3, $1) ORDER BY \"%s\", id LIMIT $2",
               due, due, due);
}

/* False: it is none that pawl wrote. */
static bool read_row(const PGresult *result, int at, const struct table *table,
                     struct table_row *ret_row)
{
    ret_row->id = postgres_number(result, at, 0);
    ret_row->version = postgres_number(result, at, 1);
    for (size_t i = 0; i < table->n_columns; i++) {
        const struct table_column *column = &table->columns[i];
        if (column->kind == TABLE_INT)
            table_set_number(column, ret_row, postgres_number(result, at, (int)i + 2));
        else
            table_set_text(column, ret_row, postgres_bytes(result, at, (int)i + 2));
    }
    return !table->is_sound || table->is_sound(ret_row);
}

static enum backend_status read_rows(struct postgres_backend *postgres, const PGresult *result,
                                     const struct table_query *query, int64_t now,
                                     int64_t *ret_next)
{
    _Alignas(max_align_t) unsigned char bytes[TABLE_ROW_MAX] = {0};
    struct table_row *row = (struct table_row *)bytes;
    const struct table_column *due = table_column_of(query->table, TABLE_DUE);
    for (int at = 0; at < PQntuples(result); at++) {
        if (!read_row(result, at, query->table, row)) {
            snprintf(postgres->backend.problem, sizeof postgres->backend.problem,
                     "%s: row %lld of pawl.%s is none that pawl wrote; restore a backup",
                     postgres->place, (long long)row->id, postgres_table_name(query->table));
            return BACKEND_FATAL;
        }
        if (query->by == TABLE_BY_DUE &&
            ((size_t)at == query->limit || table_number(due, row) > now)) {
            *ret_next = table_number(due, row);
            return BACKEND_OK;
        }
        query->each(query->argument, row);
    }
    return BACKEND_OK;
}

enum backend_status postgres_query(struct backend *backend, const struct table_query *query,
                                   int64_t now, int64_t *ret_next)
{
    struct postgres_backend *postgres = postgres_of(backend);
    struct buf sql BUF_AUTO = buf_make(SQL_MAX);
    *ret_next = CLOCK_NEVER;
    enum backend_status status = postgres_start(postgres);
    if (status != BACKEND_OK)
        return status;
    postgres_params_clear(&postgres->params);
    write_columns(query->table, &sql);
    if (query->by == TABLE_BY_KEY)
        add_like(query, &sql, &postgres->params);
    else
        add_range(query, &sql, &postgres->params);
    buf_add_char(&sql, 0);
    CHECK(!sql.too_large);
    if (!buf_ok(&sql))
        return BACKEND_NO_MEMORY;
    postgres_queue_limits(postgres, POSTGRES_READS);
    postgres_queue(postgres, sql.at, &postgres->params);
    status = postgres_finish(postgres);
    return status == BACKEND_OK ? read_rows(postgres, postgres->results[1], query, now, ret_next)
                                : status;
}

void postgres_table_sweep(struct postgres_backend *postgres, const struct table *table, size_t most)
{
    const char *name = postgres_table_name(table);
    const char *gone = table_column_of(table, TABLE_GONE)->name;
    char sql[512];
    int n = snprintf(
        sql, sizeof sql,
        "DELETE FROM pawl.%s WHERE id = ANY (ARRAY(SELECT id FROM pawl.%s WHERE \"%s\" < " NEVER
        " AND \"%s\" <= pawl.clock($1) - $2 ORDER BY \"%s\" LIMIT $3"
        " FOR UPDATE SKIP LOCKED))",
        name, name, gone, gone, gone);
    CHECK(n > 0 && (size_t)n < sizeof sql);
    postgres_params_clear(&postgres->params);
    postgres_add_number(&postgres->params, postgres_test_time());
    postgres_add_number(&postgres->params, table->keep_us);
    postgres_add_number(&postgres->params, (int64_t)most);
    postgres_queue(postgres, sql, &postgres->params);
}
