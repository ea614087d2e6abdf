/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of modules, by the declarations of their tables (store/table.h): how they are kept, written
 * and swept. TEXT is kept as bytes. */
#include "base/check.h"
#include "base/clock.h"
#include "store/postgres/postgres.h"
#include <stdio.h>

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

void postgres_table_is_set(const struct table_column *column, struct buf *sql)
{
    bool is_time = column->role == TABLE_DUE || column->role == TABLE_GONE;
    const char *unset = column->kind != TABLE_INT ? "''" : is_time ? NEVER : "0";
    buf_printf(sql, "\"%s\" %s %s", column->name, is_time ? "<" : "<>", unset);
}

/* With the id behind its columns, so that rows of one value come in order. */
static void write_index(const struct table *table, const struct table_index *index, struct buf *sql)
{
    const char *name = postgres_table_name(table);
    const struct table_column *last = NULL;
    buf_printf(sql, IF_MISSING "%sINDEX %s_%s ON pawl.%s(", name, index->name,
               index->is_unique ? "UNIQUE " : "", name, index->name, name);
    for (size_t i = 0; i < index->n_columns; i++) {
        last = table_index_column(table, index, i);
        buf_printf(sql, "%s\"%s\"", i > 0 ? ", " : "", last->name);
    }
    buf_add_str(sql, index->is_unique ? ")" : ", id)");
    if (index->is_partial) {
        buf_add_str(sql, " WHERE ");
        postgres_table_is_set(last, sql);
    }
    buf_add_str(sql, END_MISSING);
}

static void write_time_index(const struct table *table, struct buf *sql)
{
    const char *name = postgres_table_name(table);
    const struct table_column *gone = table_column_of(table, TABLE_GONE);
    if (gone)
        buf_printf(sql,
                   IF_MISSING "INDEX %s_%s ON pawl.%s(\"%s\") WHERE \"%s\" < " NEVER END_MISSING,
                   name, gone->name, name, gone->name, name, gone->name, gone->name);
}

/* Of odd rows alone, so that to look for them takes as long as there are. */
static void write_odd_index(const struct table *table, struct buf *sql)
{
    char mark[TABLE_MARK_SIZE];
    const char *name = postgres_table_name(table);
    if (!table_mark(table, TABLE_POSTGRES, mark))
        sql->failed = true;
    buf_printf(sql, "DO $$ BEGIN IF to_regclass('pawl.%s_odd_%s') IS NULL THEN CREATE", name, mark);
    buf_printf(sql, " INDEX %s_odd_%s ON pawl.%s(id) WHERE NOT ", name, mark, name);
    table_write_sound(table, TABLE_POSTGRES, sql);
    buf_add_str(sql, END_MISSING);
}

/* So that whoever changes a row by SQL is told of the command that does it. Those of another pawl
 * are in the way of none. */
static void write_check(const struct table *table, struct buf *sql)
{
    char mark[TABLE_MARK_SIZE];
    const char *name = postgres_table_name(table);
    if (!table->heal)
        return;
    if (!table_mark(table, TABLE_POSTGRES_CHECK, mark))
        sql->failed = true;
    buf_printf(
        sql,
        "DO $$ DECLARE c name; BEGIN FOR c IN SELECT conname FROM pg_constraint"
        " WHERE conrelid = 'pawl.%s'::regclass AND contype = 'c' AND conname <> '%s_see_%s_%s'"
        " AND conname LIKE '%%\\_see\\_pawl\\_%%' LOOP"
        " EXECUTE format('ALTER TABLE pawl.%s DROP CONSTRAINT %%I', c); END LOOP;",
        name, name, table->heal, mark, name);
    buf_printf(sql,
               " IF NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = 'pawl.%s'::regclass"
               " AND conname = '%s_see_%s_%s') THEN"
               " ALTER TABLE pawl.%s ADD CONSTRAINT %s_see_%s_%s CHECK ",
               name, name, table->heal, mark, name, name, table->heal, mark);
    table_write_sound(table, TABLE_POSTGRES_CHECK, sql);
    buf_add_str(sql, " NOT VALID" END_MISSING);
}

static void write_column(const struct table_column *column, struct buf *sql)
{
    bool is_number = column->kind == TABLE_INT;
    buf_printf(sql, "\"%s\" %s NOT NULL", column->name, is_number ? "bigint" : "bytea");
    if (column->is_late)
        buf_add_str(sql, is_number ? " DEFAULT 0" : " DEFAULT ''");
}

/* A table that is from before the column gets it. */
static void write_if_late(const char *name, const struct table_column *column, struct buf *sql)
{
    if (!column->is_late)
        return;
    buf_printf(sql,
               "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid ="
               " 'pawl.%s'::regclass AND attname = '%s') THEN ALTER TABLE pawl.%s ADD COLUMN ",
               name, column->name, name);
    write_column(column, sql);
    buf_add_str(sql, END_MISSING);
}

static void write_table(const struct table *table, struct buf *sql)
{
    const char *name = postgres_table_name(table);
    buf_printf(sql, "CREATE TABLE IF NOT EXISTS pawl.%s(id bigint PRIMARY KEY, version bigint",
               name);
    for (size_t i = 0; i < table->n_columns; i++) {
        buf_add_str(sql, ", ");
        write_column(&table->columns[i], sql);
    }
    buf_add_str(sql, ");\n");
    for (size_t i = 0; i < table->n_columns; i++)
        write_if_late(name, &table->columns[i], sql);
    if (table_column_of(table, TABLE_KEY)) {
        buf_printf(sql, IF_MISSING "UNIQUE INDEX %s_key ON pawl.%s(", name, "key", name, name);
        table_write_key(table, sql);
        buf_add_str(sql, ")" END_MISSING);
    }
    write_time_index(table, sql);
    for (size_t i = 0; i < table->n_indexes; i++)
        write_index(table, &table->indexes[i], sql);
    write_odd_index(table, sql);
    write_check(table, sql);
    buf_add_str(sql, table->postgres_view ? table->postgres_view : "");
}

/* ---- writing a row ---- */

/* v is an array of bytes: numbers are written in decimal. */
static void write_value(struct buf *sql, enum table_kind kind, size_t at)
{
    buf_printf(sql, kind == TABLE_INT ? "convert_from(v[%zu], 'UTF8')::bigint" : "v[%zu]", at);
}

/* A pawl that is older than the column has no value for it. */
static void write_column_value(const struct table *table, size_t i, bool is_update, struct buf *sql)
{
    const struct table_column *column = &table->columns[i];
    buf_add_str(sql, column->is_late ? "coalesce(" : "");
    write_value(sql, column->kind, FIXED_VALUES + 1 + i);
    if (column->is_late && is_update)
        buf_printf(sql, ", \"%s\")", column->name);
    else if (column->is_late)
        buf_add_str(sql, column->kind == TABLE_INT ? ", 0)" : ", '')");
}

static void write_values(const struct table *table, struct buf *sql)
{
    buf_printf(sql, "INSERT INTO pawl.%s AS t (id, version", postgres_table_name(table));
    for (size_t i = 0; i < table->n_columns; i++)
        buf_printf(sql, ", \"%s\"", table->columns[i].name);
    buf_add_str(sql, ") VALUES (");
    write_value(sql, TABLE_INT, 1);
    buf_add_str(sql, ", ");
    write_value(sql, TABLE_INT, 3);
    for (size_t i = 0; i < table->n_columns; i++) {
        buf_add_str(sql, ", ");
        write_column_value(table, i, false, sql);
    }
    buf_add_char(sql, ')');
}

/* One that was inserted by a save that ended unsure is there already, and so it is. */
static void write_insert(const struct table *table, struct buf *sql)
{
    write_values(table, sql);
    buf_printf(sql,
               " ON CONFLICT DO NOTHING; GET DIAGNOSTICS touched = ROW_COUNT; IF touched = 0 THEN"
               " SELECT count(*) INTO touched FROM pawl.%s WHERE id = ",
               postgres_table_name(table));
    write_value(sql, TABLE_INT, 1);
    buf_add_str(sql, " AND version = ");
    write_value(sql, TABLE_INT, 3);
    buf_add_str(sql, "; END IF");
}

/* What was added by a save that ended unsure is not added again. */
static void write_sum(const struct table *table, struct buf *sql)
{
    const char *sum = table_column_of(table, TABLE_SUM)->name;
    write_values(table, sql);
    buf_add_str(sql, " ON CONFLICT (");
    table_write_key(table, sql);
    buf_printf(sql,
               ") DO UPDATE SET version = excluded.version, \"%s\" = t.\"%s\" + excluded.\"%s\""
               " WHERE t.version <> excluded.version",
               sum, sum, sum);
}

/* The row as it was read. One that another transaction is changing does not fit: it is not waited
 * for. */
static void write_place(const struct table *table, bool may_be_saved, struct buf *sql)
{
    buf_printf(sql, " WHERE id = (SELECT id FROM pawl.%s WHERE id = ", postgres_table_name(table));
    write_value(sql, TABLE_INT, 1);
    buf_add_str(sql, " AND version IN (");
    write_value(sql, TABLE_INT, 2);
    if (may_be_saved) {
        buf_add_str(sql, ", ");
        write_value(sql, TABLE_INT, 3);
    }
    buf_add_str(sql, ") FOR UPDATE SKIP LOCKED)");
}

static void write_update(const struct table *table, bool touches, struct buf *sql)
{
    buf_printf(sql, "UPDATE pawl.%s SET version = ", postgres_table_name(table));
    write_value(sql, TABLE_INT, 3);
    for (size_t i = 0; i < table->n_columns && !touches; i++) {
        if (table->columns[i].role == TABLE_KEY)
            continue;
        buf_printf(sql, ", \"%s\" = ", table->columns[i].name);
        write_column_value(table, i, true, sql);
    }
    write_place(table, true, sql);
}

/* The tables of a store. */
struct tables {
    const struct table *const *at;
    size_t n;
};

/* Behind the deletion of rows, whose ids are in `gone`: that of their children. */
static void write_orphans(const struct tables *tables, const struct table *parent, struct buf *sql)
{
    for (size_t i = 0; i < tables->n; i++) {
        const struct table *table = tables->at[i];
        const struct table_column *column = table_column_of(table, TABLE_PARENT);
        const char *name = postgres_table_name(table);
        if (table->parent == parent)
            buf_printf(sql,
                       ", of_%s AS (DELETE FROM pawl.%s WHERE \"%s\" IN (SELECT id FROM gone))",
                       name, name, column ? column->name : "id");
    }
}

static void write_remove(const struct tables *tables, const struct table *table, struct buf *sql)
{
    buf_printf(sql, "WITH gone AS (DELETE FROM pawl.%s", postgres_table_name(table));
    write_place(table, false, sql);
    buf_add_str(sql, " RETURNING id)");
    write_orphans(tables, table, sql);
    buf_add_str(sql, " SELECT count(*) INTO touched FROM gone");
}

static const char *const acts[] = {[TABLE_INSERT] = "insert",
                                   [TABLE_UPDATE] = "update",
                                   [TABLE_TOUCH] = "touch",
                                   [TABLE_REMOVE] = "remove",
                                   [TABLE_ADD] = "add"};

static void write_table_act(const struct tables *tables, const struct table *table,
                            enum table_act act, struct buf *sql)
{
    switch (act) {
    case TABLE_INSERT:
        write_insert(table, sql);
        return;
    case TABLE_ADD:
        write_sum(table, sql);
        return;
    case TABLE_UPDATE:
    case TABLE_TOUCH:
        write_update(table, act == TABLE_TOUCH, sql);
        return;
    case TABLE_REMOVE:
        write_remove(tables, table, sql);
        return;
    }
    UNREACHABLE();
}

/* A function, whose plan the server keeps, for each act: how many rows it touched. */
static void write_functions(const struct tables *tables, const struct table *table, struct buf *sql)
{
    for (enum table_act act = TABLE_INSERT; act <= TABLE_ADD; act++) {
        bool exists = act == TABLE_INSERT ||
                      (act == TABLE_ADD ? !!table_column_of(table, TABLE_SUM) : !table->is_log);
        if (!exists)
            continue;
        buf_printf(sql,
                   "CREATE OR REPLACE FUNCTION pawl.%s_%s(v bytea[], OUT touched bigint)"
                   " LANGUAGE plpgsql VOLATILE AS $$\n#variable_conflict use_column\nBEGIN\n    ",
                   acts[act], postgres_table_name(table));
        write_table_act(tables, table, act, sql);
        buf_add_str(sql, act == TABLE_INSERT || act == TABLE_REMOVE
                             ? ";\nEND $$;\n"
                             : ";\n    GET DIAGNOSTICS touched = ROW_COUNT;\nEND $$;\n");
    }
}

void postgres_tables_write(const struct table *const *tables, size_t n, struct buf *sql)
{
    const struct tables all = {tables, n};
    for (size_t i = 0; i < n; i++) {
        write_table(tables[i], sql);
        write_functions(&all, tables[i], sql);
    }
}

void postgres_table_statement(const struct table_change *change, struct buf *sql)
{
    buf_printf(sql, "SELECT pawl.%s_%s($1)", acts[change->act], postgres_table_name(change->table));
}

static void add_text_param(struct postgres_params *params, int64_t place, struct slice value)
{
    postgres_row_begin(params);
    postgres_column_number(params, place);
    postgres_column_bytes(params, value);
    postgres_row_end(params);
}

static void add_decimal_param(struct postgres_params *params, int64_t place, int64_t number)
{
    char text[24];
    int n = snprintf(text, sizeof text, "%lld", (long long)number);
    add_text_param(params, place, slice_make(text, (size_t)n));
}

void postgres_table_values(const struct table_change *change, int64_t place,
                           struct postgres_params *params)
{
    const struct table *table = change->table;
    add_decimal_param(params, place, change->row->id);
    add_decimal_param(params, place, change->row->version);
    add_decimal_param(params, place, table->is_log ? 0 : change->version);
    for (size_t i = 0; i < table->n_columns; i++)
        if (table->columns[i].kind == TABLE_INT)
            add_decimal_param(params, place, table_number(&table->columns[i], change->row));
        else
            add_text_param(params, place, table_text(&table->columns[i], change->row));
}

/* ---- sweeping ---- */

void postgres_table_sweep(struct postgres_backend *postgres, const struct table *table, size_t most)
{
    const char *name = postgres_table_name(table);
    const char *gone = table_column_of(table, TABLE_GONE)->name;
    struct buf sql BUF_AUTO = buf_make(POSTGRES_TABLE_SQL_MAX);
    buf_printf(&sql,
               "WITH gone AS (DELETE FROM pawl.%s WHERE id = ANY (ARRAY(SELECT id FROM pawl.%s"
               " WHERE \"%s\" < " NEVER " AND \"%s\" <= pawl.clock($1) - $2 AND ",
               name, name, gone, gone);
    table_write_sound(table, TABLE_POSTGRES, &sql);
    buf_printf(&sql, " ORDER BY \"%s\" LIMIT $3 FOR UPDATE SKIP LOCKED)) RETURNING id)", gone);
    write_orphans(&(struct tables){postgres->tables, postgres->n_tables}, table, &sql);
    buf_add_str(&sql, " SELECT id FROM gone");
    buf_add_char(&sql, 0);
    CHECK(!sql.too_large);
    postgres_params_clear(&postgres->params);
    postgres_add_number(&postgres->params, postgres_test_time());
    postgres_add_number(&postgres->params, table->keep_us);
    postgres_add_number(&postgres->params, (int64_t)most);
    if (buf_ok(&sql))
        postgres_queue(postgres, sql.at, &postgres->params);
}

/* ---- odd rows ---- */

void postgres_tables_odd(struct postgres_backend *postgres)
{
    struct buf sql BUF_AUTO = buf_make(8 * POSTGRES_TABLE_SQL_MAX);
    buf_add_str(&sql, "SELECT convert_to(coalesce(string_agg(format(E'pawl_%s %s\\n', o.t, o.id),"
                      " '' ORDER BY o.t, o.id), ''), 'UTF8') FROM (");
    for (size_t i = 0; i < postgres->n_tables; i++) {
        const char *name = postgres_table_name(postgres->tables[i]);
        buf_printf(&sql, "%s(SELECT '%s' AS t, id FROM pawl.%s WHERE NOT ",
                   i > 0 ? " UNION ALL " : "", name, name);
        table_write_sound(postgres->tables[i], TABLE_POSTGRES, &sql);
        buf_printf(&sql, " ORDER BY id LIMIT %d)", BACKEND_ODD_MOST);
    }
    buf_add_str(&sql, ") o");
    buf_add_char(&sql, 0);
    CHECK(!sql.too_large);
    postgres_params_clear(&postgres->params);
    if (buf_ok(&sql))
        postgres_queue(postgres, sql.at, &postgres->params);
}
