/* SPDX-License-Identifier: Apache-2.0 */
/* Makes what a file lacks of the tables of modules, with their indexes and views. That is asked at
 * every start, and mostly there is nothing to make: so SQLite parses only what is missing. */
#include "base/check.h"
#include "store/sqlite/sqlite.h"
#include <stdio.h>

#define NAME_MAX_BYTES 128

struct install {
    struct sqlite_backend *sqlite;
    struct buf names; /* of what the file has: each between two line feeds */
    struct buf sql;   /* that makes the rest */
};

/* ---- what there is ---- */

static int read_names(struct install *install)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(install->sqlite->db, "SELECT name FROM main.sqlite_master", -1,
                                  &statement, NULL);
    buf_add_char(&install->names, '\n');
    while (code == SQLITE_OK || code == SQLITE_ROW) {
        code = sqlite3_step(statement);
        if (code != SQLITE_ROW)
            break;
        const char *name = (const char *)sqlite3_column_text(statement, 0);
        if (!name)
            code = SQLITE_NOMEM;
        else
            buf_add_str(&install->names, name);
        buf_add_char(&install->names, '\n');
    }
    sqlite3_finalize(statement);
    return code != SQLITE_DONE ? code : buf_ok(&install->names) ? SQLITE_OK : SQLITE_NOMEM;
}

/* `name` is `head`, and `tail` behind an underscore where there is one. Names differ in case to
 * SQLite only where a person made them: what it makes of IF NOT EXISTS is then what counts. */
static bool has_object(const struct install *install, const char *head, const char *tail)
{
    char name[NAME_MAX_BYTES];
    int n = snprintf(name, sizeof name, "\n%s%s%s\n", head, tail ? "_" : "", tail ? tail : "");
    CHECK(n > 0 && (size_t)n < sizeof name);
    return memmem(install->names.at, install->names.len, name, (size_t)n);
}

/* ---- tables ---- */

static void add_column(struct buf *sql, const struct table_column *column)
{
    static const char *const types[] = {
        [TABLE_INT] = "INTEGER", [TABLE_TEXT] = "TEXT", [TABLE_BYTES] = "BLOB"};
    static const char *const unset[] = {
        [TABLE_INT] = "0", [TABLE_TEXT] = "''", [TABLE_BYTES] = "x''"};
    buf_printf(sql, "%s %s NOT NULL", column->name, types[column->kind]);
    if (column->is_late)
        buf_printf(sql, " DEFAULT %s", unset[column->kind]);
}

static void add_table(struct buf *sql, const struct table *table)
{
    buf_printf(sql, "CREATE TABLE IF NOT EXISTS %s(id INTEGER PRIMARY KEY", table->name);
    buf_add_str(sql, table->is_log ? "" : ", version INTEGER NOT NULL DEFAULT 0");
    for (size_t i = 0; i < table->n_columns; i++) {
        buf_add_str(sql, ", ");
        add_column(sql, &table->columns[i]);
    }
    buf_add_str(sql, ");");
}

/* A table that is from before the column gets it. */
static int add_if_late(struct install *install, const struct table *table,
                       const struct table_column *column)
{
    int code = column->is_late
                   ? sqlite3_table_column_metadata(install->sqlite->db, "main", table->name,
                                                   column->name, NULL, NULL, NULL, NULL, NULL)
                   : SQLITE_OK;
    if (code != SQLITE_ERROR)
        return code;
    buf_printf(&install->sql, "ALTER TABLE %s ADD COLUMN ", table->name);
    add_column(&install->sql, column);
    buf_add_char(&install->sql, ';');
    return SQLITE_OK;
}

static int install_table(struct install *install, const struct table *table)
{
    int code = SQLITE_OK;
    if (!has_object(install, table->name, NULL)) {
        add_table(&install->sql, table);
        return SQLITE_OK;
    }
    for (size_t i = 0; i < table->n_columns && code == SQLITE_OK; i++)
        code = add_if_late(install, table, &table->columns[i]);
    return code;
}

/* ---- indexes ---- */

static void add_index_sql(struct buf *sql, const struct table *table,
                          const struct table_index *index)
{
    const struct table_column *last = NULL;
    buf_printf(sql, "CREATE %sINDEX IF NOT EXISTS %s_%s ON %s(", index->is_unique ? "UNIQUE " : "",
               table->name, index->name, table->name);
    for (size_t i = 0; i < index->n_columns; i++) {
        last = table_index_column(table, index, i);
        buf_printf(sql, "%s%s", i > 0 ? ", " : "", last->name);
    }
    buf_add_char(sql, ')');
    if (index->is_partial) {
        buf_add_str(sql, " WHERE ");
        sqlite_table_is_set(last, sql);
    }
    buf_add_char(sql, ';');
}

static void install_key(struct install *install, const struct table *table)
{
    if (!table_column_of(table, TABLE_KEY) || has_object(install, table->name, "key"))
        return;
    buf_printf(&install->sql, "CREATE UNIQUE INDEX IF NOT EXISTS %s_key ON %s(", table->name,
               table->name);
    table_write_key(table, &install->sql);
    buf_add_str(&install->sql, ");");
}

static void install_time_index(struct install *install, const struct table *table)
{
    const struct table_column *gone = table_column_of(table, TABLE_GONE);
    if (!gone || table->is_log || has_object(install, table->name, gone->name))
        return;
    buf_printf(&install->sql, "CREATE INDEX IF NOT EXISTS %s_%s ON %s(%s) WHERE ", table->name,
               gone->name, table->name, gone->name);
    sqlite_table_is_set(gone, &install->sql);
    buf_add_char(&install->sql, ';');
}

/* Of odd rows alone, so that to look for them takes as long as there are. False: no memory. */
static bool install_odd_index(struct install *install, const struct table *table)
{
    char name[TABLE_MARK_SIZE + 4] = "odd_";
    bool has_mark = table_mark(table, TABLE_SQLITE, name + 4);
    if (!has_mark || has_object(install, table->name, name))
        return has_mark;
    buf_printf(&install->sql, "CREATE INDEX IF NOT EXISTS %s_%s ON %s(id) WHERE NOT ", table->name,
               name, table->name);
    table_write_sound(table, TABLE_SQLITE, &install->sql);
    buf_add_char(&install->sql, ';');
    return true;
}

static bool install_indexes(struct install *install, const struct table *table)
{
    install_key(install, table);
    install_time_index(install, table);
    for (size_t i = 0; i < table->n_indexes; i++)
        if (!has_object(install, table->name, table->indexes[i].name))
            add_index_sql(&install->sql, table, &table->indexes[i]);
    return install_odd_index(install, table);
}

/* ---- views ---- */

/* Of one that a CREATE VIEW IF NOT EXISTS makes. */
static void copy_view_name(const char *view, char ret_name[NAME_MAX_BYTES])
{
    static const char before[] = "CREATE VIEW IF NOT EXISTS ";
    CHECK(strncmp(view, before, strlen(before)) == 0);
    const char *name = view + strlen(before);
    snprintf(ret_name, NAME_MAX_BYTES, "%.*s", (int)strcspn(name, " "), name);
}

/* IF NOT EXISTS passes over a table or a view of that name, not over an index. */
static void install_view(struct install *install, const char *view)
{
    char name[NAME_MAX_BYTES];
    copy_view_name(view, name);
    if (has_object(install, name, NULL))
        return;
    buf_add_str(&install->sql, view);
    buf_add_char(&install->sql, ';');
}

int sqlite_view_install(struct sqlite_backend *sqlite, const char *view)
{
    char name[NAME_MAX_BYTES], sql[2 * NAME_MAX_BYTES];
    int64_t n = 0;
    copy_view_name(view, name);
    snprintf(sql, sizeof sql, "SELECT count(*) FROM main.sqlite_master WHERE name='%s'", name);
    int code = sqlite_ask_number(sqlite->db, sql, &n);
    return code == SQLITE_OK && n == 0 ? sqlite3_exec(sqlite->db, view, NULL, NULL, NULL) : code;
}

/* ---- all of it ---- */

static int write_install(struct install *install)
{
    const struct sqlite_backend *sqlite = install->sqlite;
    int code = read_names(install);
    bool ok = true;
    for (size_t i = 0; i < sqlite->n_tables && code == SQLITE_OK; i++) {
        code = install_table(install, sqlite->tables[i].table);
        ok = install_indexes(install, sqlite->tables[i].table) && ok;
    }
    for (size_t i = 0; i < sqlite->n_tables && code == SQLITE_OK; i++)
        if (sqlite->tables[i].table->sqlite_view)
            install_view(install, sqlite->tables[i].table->sqlite_view);
    return code == SQLITE_OK && !ok ? SQLITE_NOMEM : code;
}

int sqlite_tables_install(struct sqlite_backend *sqlite)
{
    struct install install = {
        .sqlite = sqlite, .names = buf_make(SIZE_MAX), .sql = buf_make(SIZE_MAX)};
    int code = write_install(&install);
    bool is_any = install.sql.len > 0;
    buf_add_char(&install.sql, 0);
    if (code == SQLITE_OK && !buf_ok(&install.sql))
        code = SQLITE_NOMEM;
    if (code == SQLITE_OK && is_any)
        code = sqlite3_exec(sqlite->db, install.sql.at, NULL, NULL, NULL);
    buf_fini(&install.names);
    buf_fini(&install.sql);
    return code;
}
