/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of modules, by the declarations of their tables (store/table.h). Statements are made at
 * their first use. */
#include "base/check.h"
#include "base/clock.h"
#include "store/sqlite/sqlite.h"

#define SQL_MAX 4096
#define NEVER "9223372036854775807" /* CLOCK_NEVER: not in an index of times */

/* ---- SQL ---- */

/* Each column, or of the key alone, between what is put before and after it. */
static void add_columns(struct buf *sql, const struct table *table, bool only_key,
                        const char *const around[2])
{
    for (size_t i = 0; i < table->n_columns; i++)
        if (!only_key || table->columns[i].role == TABLE_KEY)
            buf_printf(sql, "%s%s%s", around[0], table->columns[i].name, around[1]);
}

static void add_names(struct buf *sql, const struct table *table)
{
    buf_add_str(sql, table->is_log ? "id" : "id, version");
    add_columns(sql, table, false, (const char *const[]){", ", ""});
}

/* A row that was inserted by a save that ended unsure is inserted again; one whose key is taken is
 * left alone. */
static void add_insert(struct buf *sql, const struct table *table)
{
    buf_printf(sql, "INSERT INTO %s(", table->name);
    add_names(sql, table);
    buf_add_str(sql, table->is_log ? ") VALUES(?" : ") VALUES(?, ?");
    for (size_t i = 0; i < table->n_columns; i++)
        buf_add_str(sql, ", ?");
    buf_add_str(sql, table->is_log ? ")"
                                   : ") ON CONFLICT(id) DO UPDATE SET version=version"
                                     " WHERE version=excluded.version ON CONFLICT DO NOTHING");
}

static void add_update(struct buf *sql, const struct table *table)
{
    buf_printf(sql, "UPDATE %s SET version=?", table->name);
    for (size_t i = 0; i < table->n_columns; i++)
        if (table->columns[i].role != TABLE_KEY)
            buf_printf(sql, ", %s=?", table->columns[i].name);
    buf_add_str(sql, " WHERE id=? AND version IN (?, ?)");
}

static void add_query(struct buf *sql, const struct table *table, enum sqlite_table_statement which)
{
    buf_add_str(sql, "SELECT ");
    add_names(sql, table);
    buf_printf(sql, " FROM %s WHERE ", table->name);
    if (which == TABLE_SQL_LIST)
        buf_add_str(sql, "id > ? ORDER BY id LIMIT ?");
    if (which == TABLE_SQL_FIND) {
        buf_add_str(sql, "1");
        add_columns(sql, table, true, (const char *const[]){" AND ", "=?"});
    }
    if (which != TABLE_SQL_DUE)
        return;
    const char *due = table_column_of(table, TABLE_DUE)->name;
    buf_printf(sql, "%s < " NEVER " AND (%s, id) > (?, ?) ORDER BY %s, id LIMIT ?", due, due, due);
}

static void add_sweep(struct buf *sql, const struct table *table)
{
    const char *gone = table_column_of(table, TABLE_GONE)->name;
    if (table->is_log)
        buf_printf(sql, "DELETE FROM %s WHERE %s <= ? AND id IN (SELECT id FROM %s ORDER BY id",
                   table->name, gone, table->name);
    else
        buf_printf(sql,
                   "DELETE FROM %s WHERE id IN (SELECT id FROM %s WHERE %s < " NEVER
                   " AND %s <= ? ORDER BY %s",
                   table->name, table->name, gone, gone, gone);
    buf_add_str(sql, " LIMIT ?)");
}

static void add_statement(struct buf *sql, const struct table *table,
                          enum sqlite_table_statement which)
{
    switch (which) {
    case TABLE_SQL_INSERT:
        add_insert(sql, table);
        return;
    case TABLE_SQL_UPDATE:
        add_update(sql, table);
        return;
    case TABLE_SQL_REMOVE:
        buf_printf(sql, "DELETE FROM %s WHERE id=? AND version=?", table->name);
        return;
    case TABLE_SQL_LIST:
    case TABLE_SQL_FIND:
    case TABLE_SQL_DUE:
        add_query(sql, table, which);
        return;
    case TABLE_SQL_SWEEP:
        add_sweep(sql, table);
        return;
    case TABLE_SQL_COUNT:
        break;
    }
    UNREACHABLE();
}

/* ---- the schema ---- */

static void add_time_index(struct buf *sql, const struct table *table, enum table_role role)
{
    const struct table_column *column = table_column_of(table, role);
    if (column && !table->is_log)
        buf_printf(sql, "CREATE INDEX IF NOT EXISTS %s_%s ON %s(%s) WHERE %s < " NEVER ";",
                   table->name, column->name, table->name, column->name, column->name);
}

static void add_table(struct buf *sql, const struct table *table)
{
    static const char *const types[] = {
        [TABLE_INT] = "INTEGER", [TABLE_TEXT] = "TEXT", [TABLE_BYTES] = "BLOB"};
    buf_printf(sql, "CREATE TABLE IF NOT EXISTS %s(id INTEGER PRIMARY KEY", table->name);
    buf_add_str(sql, table->is_log ? "" : ", version INTEGER NOT NULL");
    for (size_t i = 0; i < table->n_columns; i++)
        buf_printf(sql, ", %s %s NOT NULL", table->columns[i].name, types[table->columns[i].kind]);
    buf_add_str(sql, ");");
    if (table_column_of(table, TABLE_KEY)) {
        buf_printf(sql, "CREATE UNIQUE INDEX IF NOT EXISTS %s_key ON %s(", table->name,
                   table->name);
        add_columns(sql, table, true, (const char *const[]){"", ","});
        buf_cut(sql, sql->len > 0 ? sql->len - 1 : 0);
        buf_add_str(sql, ");");
    }
    add_time_index(sql, table, TABLE_DUE);
    add_time_index(sql, table, TABLE_GONE);
}

int sqlite_tables_install(struct sqlite_backend *sqlite, const struct table *const *tables)
{
    struct buf sql BUF_AUTO = buf_make(SIZE_MAX);
    for (; *tables; tables++) {
        CHECK(sqlite->n_tables < SQLITE_TABLES_MAX && (*tables)->row_size <= TABLE_ROW_MAX);
        sqlite->tables[sqlite->n_tables++] = (struct sqlite_table){.table = *tables};
        add_table(&sql, *tables);
    }
    buf_add_char(&sql, 0);
    return buf_ok(&sql) ? sqlite3_exec(sqlite->db, sql.at, NULL, NULL, NULL) : SQLITE_NOMEM;
}

void sqlite_tables_fini(struct sqlite_backend *sqlite)
{
    for (size_t i = 0; i < sqlite->n_tables; i++)
        for (int which = 0; which < TABLE_SQL_COUNT; which++)
            sqlite3_finalize(sqlite->tables[i].statements[which]);
}

/* ---- statements ---- */

static int prepare_statement(struct sqlite_backend *sqlite, const struct table *table,
                             enum sqlite_table_statement which, sqlite3_stmt **ret_statement)
{
    struct buf sql BUF_AUTO = buf_make(SQL_MAX);
    add_statement(&sql, table, which);
    CHECK(!sql.too_large);
    return buf_ok(&sql) ? sqlite3_prepare_v3(sqlite->db, sql.at, (int)sql.len,
                                             SQLITE_PREPARE_PERSISTENT, ret_statement, NULL)
                        : SQLITE_NOMEM;
}

static struct sqlite_binding bind_statement(struct sqlite_backend *sqlite,
                                            const struct table *table,
                                            enum sqlite_table_statement which)
{
    size_t at = 0;
    while (at < sqlite->n_tables && sqlite->tables[at].table != table)
        at++;
    CHECK(at < sqlite->n_tables);
    sqlite3_stmt **statement = &sqlite->tables[at].statements[which];
    if (!*statement)
        sqlite_note(sqlite, prepare_statement(sqlite, table, which, statement));
    return (struct sqlite_binding){.sqlite = sqlite, .statement = *statement};
}

static void bind_column(struct sqlite_binding *binding, const struct table_column *column,
                        const struct table_row *row)
{
    if (column->kind == TABLE_INT)
        sqlite_bind_number(binding, table_number(column, row));
    else if (column->kind == TABLE_TEXT)
        sqlite_bind_text(binding, table_text(column, row));
    else
        sqlite_bind_bytes(binding, table_text(column, row));
}

/* ---- one row ---- */

static void bind_insert(struct sqlite_binding *binding, const struct table_change *change)
{
    const struct table *table = change->table;
    sqlite_bind_number(binding, change->row->id);
    if (!table->is_log)
        sqlite_bind_number(binding, change->version);
    for (size_t i = 0; i < table->n_columns; i++)
        bind_column(binding, &table->columns[i], change->row);
}

static void bind_update(struct sqlite_binding *binding, const struct table_change *change)
{
    const struct table *table = change->table;
    sqlite_bind_number(binding, change->version);
    for (size_t i = 0; i < table->n_columns; i++)
        if (table->columns[i].role != TABLE_KEY)
            bind_column(binding, &table->columns[i], change->row);
    sqlite_bind_number(binding, change->row->id);
    sqlite_bind_number(binding, change->row->version);
    sqlite_bind_number(binding, change->version);
}

/* False: it did not fit. */
static bool write_row(struct sqlite_backend *sqlite, struct table_change *change)
{
    static const enum sqlite_table_statement which[] = {[TABLE_INSERT] = TABLE_SQL_INSERT,
                                                        [TABLE_UPDATE] = TABLE_SQL_UPDATE,
                                                        [TABLE_REMOVE] = TABLE_SQL_REMOVE};
    struct sqlite_binding binding = bind_statement(sqlite, change->table, which[change->act]);
    if (change->act == TABLE_INSERT) {
        bind_insert(&binding, change);
    } else if (change->act == TABLE_UPDATE) {
        bind_update(&binding, change);
    } else {
        sqlite_bind_number(&binding, change->row->id);
        sqlite_bind_number(&binding, change->row->version);
    }
    bool may_be_gone = change->act == TABLE_REMOVE && change->again;
    bool changed = sqlite_change(&binding);
    change->is_stale = sqlite_ok(sqlite) && !changed && !may_be_gone;
    return !change->is_stale;
}

const struct backend_change *sqlite_write_rows(struct sqlite_backend *sqlite,
                                               struct backend_group *group)
{
    const struct backend_change *change = group->changes;
    sqlite_run_named(sqlite, SQL_SAVEPOINT);
    for (; sqlite_ok(sqlite) && change && change->brought; change = change->next)
        if (!write_row(sqlite, change->brought)) {
            group->result = GROUP_CONFLICT;
            sqlite_run_named(sqlite, SQL_ROLLBACK_TO);
            break;
        }
    sqlite_run_named(sqlite, SQL_RELEASE);
    return change;
}

/* ---- many ---- */

static struct slice column_bytes(sqlite3_stmt *s, int at)
{
    const void *bytes = sqlite3_column_blob(s, at);
    return slice_make(bytes, (size_t)sqlite3_column_bytes(s, at));
}

/* False if pawl did not write the row. */
static bool read_row(sqlite3_stmt *s, const struct table *table, struct table_row *ret_row)
{
    int at = 0;
    ret_row->id = sqlite3_column_int64(s, at++);
    ret_row->version = table->is_log ? 0 : sqlite3_column_int64(s, at++);
    for (size_t i = 0; i < table->n_columns; i++, at++)
        if (table->columns[i].kind == TABLE_INT)
            table_set_number(&table->columns[i], ret_row, sqlite3_column_int64(s, at));
        else
            table_set_text(&table->columns[i], ret_row, column_bytes(s, at));
    return !table->is_sound || table->is_sound(ret_row);
}

/* The rows of a bound query; `*ret_next`: see backend.h. */
static void read_rows(const struct sqlite_binding *binding, const struct table_query *query,
                      int64_t now, int64_t *ret_next)
{
    _Alignas(max_align_t) unsigned char bytes[TABLE_ROW_MAX] = {0};
    struct table_row *row = (struct table_row *)bytes;
    const struct table_column *due = table_column_of(query->table, TABLE_DUE);
    for (size_t n = 0; sqlite_step(binding); n++) {
        if (!read_row(binding->statement, query->table, row)) {
            sqlite_fail(binding->sqlite, SQLITE_CORRUPT);
            return;
        }
        if (query->by == TABLE_BY_DUE && (n == query->limit || table_number(due, row) > now)) {
            *ret_next = table_number(due, row);
            return;
        }
        query->each(query->argument, row);
    }
}

static void bind_query(struct sqlite_binding *binding, const struct table_query *query)
{
    int64_t limit = query->limit < INT64_MAX ? (int64_t)query->limit : INT64_MAX - 1;
    for (size_t i = 0; query->by == TABLE_BY_KEY && i < query->table->n_columns; i++)
        if (query->table->columns[i].role == TABLE_KEY)
            bind_column(binding, &query->table->columns[i], query->like);
    if (query->by == TABLE_BY_KEY)
        return;
    if (query->by == TABLE_BY_DUE)
        sqlite_bind_number(binding, query->after_due);
    sqlite_bind_number(binding, query->after);
    sqlite_bind_number(binding, query->by == TABLE_BY_DUE ? limit + 1 : limit);
}

enum backend_status sqlite_query(struct backend *backend, const struct table_query *query,
                                 int64_t now, int64_t *ret_next)
{
    static const enum sqlite_table_statement which[] = {[TABLE_BY_ID] = TABLE_SQL_LIST,
                                                        [TABLE_BY_KEY] = TABLE_SQL_FIND,
                                                        [TABLE_BY_DUE] = TABLE_SQL_DUE};
    struct sqlite_backend *sqlite = sqlite_call(backend);
    struct sqlite_binding binding = bind_statement(sqlite, query->table, which[query->by]);
    *ret_next = CLOCK_NEVER;
    bind_query(&binding, query);
    read_rows(&binding, query, now, ret_next);
    sqlite3_reset(binding.statement);
    return sqlite->status;
}

static size_t sweep_rows(struct sqlite_backend *sqlite, const struct table *table, size_t max)
{
    struct sqlite_binding binding = bind_statement(sqlite, table, TABLE_SQL_SWEEP);
    sqlite_bind_number(&binding, sqlite->state.now - table->keep_us);
    sqlite_bind_number(&binding, (int64_t)max);
    return sqlite_run(&binding) ? (size_t)sqlite3_changes(sqlite->db) : 0;
}

size_t sqlite_sweep_tables(struct sqlite_backend *sqlite, size_t max)
{
    size_t steps = 0;
    for (size_t i = 0; i < sqlite->n_tables && sqlite_ok(sqlite) && steps < max; i++)
        if (table_column_of(sqlite->tables[i].table, TABLE_GONE))
            steps += sweep_rows(sqlite, sqlite->tables[i].table, max - steps);
    return steps;
}
