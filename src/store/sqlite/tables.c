/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of modules, by the declarations of their tables (store/table.h): how they are kept, written
 * and swept. Statements are made at their first use. */
#include "base/check.h"
#include "base/clock.h"
#include "store/sqlite/sqlite.h"
#include <stdio.h>

#define NEVER "9223372036854775807" /* CLOCK_NEVER: not in an index of times */

/* ---- SQL ---- */

void sqlite_table_names(const struct table *table, struct buf *sql)
{
    buf_add_str(sql, table->is_log ? "id" : "id, version");
    for (size_t i = 0; i < table->n_columns; i++)
        buf_printf(sql, ", %s", table->columns[i].name);
}

void sqlite_table_is_set(const struct table_column *column, struct buf *sql)
{
    bool is_time = column->role == TABLE_DUE || column->role == TABLE_GONE;
    const char *unset = column->kind == TABLE_TEXT    ? "''"
                        : column->kind == TABLE_BYTES ? "x''"
                        : is_time                     ? NEVER
                                                      : "0";
    buf_printf(sql, "%s %s %s", column->name, is_time ? "<" : "<>", unset);
}

/* How its rows say with which row of the parent they go. */
static const char *parent_name(const struct table *table)
{
    const struct table_column *column = table_column_of(table, TABLE_PARENT);
    return column ? column->name : "id";
}

/* A row that was inserted by a save that ended unsure is inserted again; one whose key is taken is
 * left alone. */
static void add_insert(struct buf *sql, const struct table *table)
{
    buf_printf(sql, "INSERT INTO %s(", table->name);
    sqlite_table_names(table, sql);
    buf_add_str(sql, table->is_log ? ") VALUES(?" : ") VALUES(?, ?");
    for (size_t i = 0; i < table->n_columns; i++)
        buf_add_str(sql, ", ?");
    buf_add_char(sql, ')');
}

/* What was added by a save that ended unsure is not added again. */
static void add_sum(struct buf *sql, const struct table *table)
{
    const char *sum = table_column_of(table, TABLE_SUM)->name;
    add_insert(sql, table);
    buf_add_str(sql, " ON CONFLICT(");
    table_write_key(table, sql);
    buf_printf(sql,
               ") DO UPDATE SET version=excluded.version, %s=%s+excluded.%s"
               " WHERE version<>excluded.version",
               sum, sum, sum);
}

static void add_update(struct buf *sql, const struct table *table)
{
    buf_printf(sql, "UPDATE OR IGNORE %s SET version=?", table->name);
    for (size_t i = 0; i < table->n_columns; i++)
        if (table->columns[i].role != TABLE_KEY)
            buf_printf(sql, ", %s=?", table->columns[i].name);
    buf_add_str(sql, " WHERE id=? AND CAST(version AS INTEGER) IN (?, ?)");
}

static void add_statement_sql(struct buf *sql, const struct table *table,
                              enum sqlite_table_statement which)
{
    buf_add_str(sql, "SELECT ");
    sqlite_table_names(table, sql);
    buf_printf(sql, " FROM %s WHERE ", table->name);
    if (which == TABLE_SQL_LIST) {
        buf_add_str(sql, "id > ? ORDER BY id LIMIT ?");
        return;
    }
    buf_add_char(sql, '(');
    table_write_key(table, sql);
    buf_add_str(sql, ") = (");
    for (size_t i = 0, n = 0; i < table->n_columns; i++)
        if (table->columns[i].role == TABLE_KEY)
            buf_add_str(sql, n++ > 0 ? ", ?" : "?");
    buf_add_char(sql, ')');
}

static void add_is_sound(struct buf *sql, const struct table *table)
{
    buf_add_str(sql, " AND ");
    table_write_sound(table, TABLE_SQLITE, sql);
}

/* The ids of rows whose time is over, but for odd ones. SQLite ends its walk over the index at the
 * first of the two bounds alone; the other one says that it may use that index. */
static void add_gone(struct buf *sql, const struct table *table)
{
    const char *gone = table_column_of(table, TABLE_GONE)->name;
    buf_printf(sql, "SELECT id FROM %s WHERE %s <= ? AND %s < " NEVER, table->name, gone, gone);
    add_is_sound(sql, table);
    buf_printf(sql, " ORDER BY %s LIMIT ?", gone);
}

static void add_sweep(struct buf *sql, const struct table *table)
{
    if (table->is_log) {
        buf_printf(sql,
                   "DELETE FROM %s WHERE %s <= ? AND id IN (SELECT id FROM %s ORDER BY id LIMIT ?)",
                   table->name, table_column_of(table, TABLE_GONE)->name, table->name);
        add_is_sound(sql, table);
        return;
    }
    buf_printf(sql, "DELETE FROM %s WHERE id IN (", table->name);
    add_gone(sql, table);
    buf_add_char(sql, ')');
}

/* Children: of one row, or of all that are swept. */
static void add_orphans(struct buf *sql, const struct table *table,
                        enum sqlite_table_statement which)
{
    buf_printf(sql, "DELETE FROM %s WHERE %s", table->name, parent_name(table));
    if (which == TABLE_SQL_REMOVE_CHILDREN) {
        buf_add_str(sql, "=?");
        return;
    }
    buf_add_str(sql, " IN (");
    add_gone(sql, table->parent);
    buf_add_char(sql, ')');
}

static void add_statement(struct buf *sql, const struct table *table,
                          enum sqlite_table_statement which)
{
    switch (which) {
    case TABLE_SQL_INSERT:
        add_insert(sql, table);
        if (!table->is_log)
            buf_add_str(sql, " ON CONFLICT(id) DO UPDATE SET version=version"
                             " WHERE version=excluded.version ON CONFLICT DO NOTHING");
        return;
    case TABLE_SQL_ADD:
        add_sum(sql, table);
        return;
    case TABLE_SQL_TOUCH:
        buf_printf(sql, "UPDATE %s SET version=? WHERE id=? AND CAST(version AS INTEGER) IN (?, ?)",
                   table->name);
        return;
    case TABLE_SQL_UPDATE:
        add_update(sql, table);
        return;
    case TABLE_SQL_REMOVE:
        buf_printf(sql, "DELETE FROM %s WHERE id=? AND CAST(version AS INTEGER)=?", table->name);
        return;
    case TABLE_SQL_LIST:
    case TABLE_SQL_FIND:
        add_statement_sql(sql, table, which);
        return;
    case TABLE_SQL_SWEEP:
        add_sweep(sql, table);
        return;
    case TABLE_SQL_REMOVE_CHILDREN:
    case TABLE_SQL_SWEEP_CHILDREN:
        add_orphans(sql, table, which);
        return;
    case TABLE_SQL_COUNT:
        break;
    }
    UNREACHABLE();
}

/* ---- all tables ---- */

void sqlite_tables_init(struct sqlite_backend *sqlite, const struct table *const *tables)
{
    sqlite->backend.odd_rows = buf_make(SIZE_MAX);
    for (; *tables; tables++) {
        CHECK(sqlite->n_tables < SQLITE_TABLES_MAX && (*tables)->row_size <= TABLE_ROW_MAX);
        sqlite->tables[sqlite->n_tables++] = (struct sqlite_table){.table = *tables};
    }
}

void sqlite_tables_fini(struct sqlite_backend *sqlite)
{
    for (size_t i = 0; i < sqlite->n_tables; i++) {
        struct sqlite_table *table = &sqlite->tables[i];
        for (int which = 0; which < TABLE_SQL_COUNT; which++)
            sqlite3_finalize(table->statements[which]);
        for (size_t k = 0; k < table->n_queries; k++)
            sqlite3_finalize(table->queries[k].statement);
    }
    sqlite3_finalize(sqlite->tables_due);
    sqlite3_finalize(sqlite->odd_rows);
    buf_fini(&sqlite->backend.odd_rows);
}

/* ---- statements ---- */

int sqlite_table_prepare(struct sqlite_backend *sqlite, const struct buf *sql,
                         sqlite3_stmt **ret_statement)
{
    CHECK(!sql->too_large);
    return buf_ok(sql) ? sqlite3_prepare_v3(sqlite->db, sql->at, (int)sql->len,
                                            SQLITE_PREPARE_PERSISTENT, ret_statement, NULL)
                       : SQLITE_NOMEM;
}

struct sqlite_table *sqlite_table_find(struct sqlite_backend *sqlite, const struct table *table)
{
    size_t at = 0;
    while (at < sqlite->n_tables && sqlite->tables[at].table != table)
        at++;
    CHECK(at < sqlite->n_tables);
    return &sqlite->tables[at];
}

struct sqlite_binding sqlite_table_bind(struct sqlite_backend *sqlite, const struct table *table,
                                        enum sqlite_table_statement which)
{
    sqlite3_stmt **statement = &sqlite_table_find(sqlite, table)->statements[which];
    if (!*statement) {
        struct buf sql BUF_AUTO = buf_make(SQLITE_TABLE_SQL_MAX);
        add_statement(&sql, table, which);
        sqlite_note(sqlite, sqlite_table_prepare(sqlite, &sql, statement));
    }
    return (struct sqlite_binding){.sqlite = sqlite, .statement = *statement};
}

void sqlite_bind_column(struct sqlite_binding *binding, const struct table_column *column,
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
        sqlite_bind_column(binding, &table->columns[i], change->row);
}

/* Of a touch all but the columns. */
static void bind_update(struct sqlite_binding *binding, const struct table_change *change)
{
    const struct table *table = change->table;
    sqlite_bind_number(binding, change->version);
    for (size_t i = 0; i < table->n_columns && change->act == TABLE_UPDATE; i++)
        if (table->columns[i].role != TABLE_KEY)
            sqlite_bind_column(binding, &table->columns[i], change->row);
    sqlite_bind_number(binding, change->row->id);
    sqlite_bind_number(binding, change->row->version);
    sqlite_bind_number(binding, change->version);
}

/* In each of its child tables, by a statement with these parameters. */
static void remove_children(struct sqlite_backend *sqlite, const struct table *parent,
                            enum sqlite_table_statement which, const int64_t *numbers, size_t n)
{
    for (size_t i = 0; i < sqlite->n_tables && sqlite_ok(sqlite); i++) {
        if (sqlite->tables[i].table->parent != parent)
            continue;
        struct sqlite_binding binding = sqlite_table_bind(sqlite, sqlite->tables[i].table, which);
        for (size_t k = 0; k < n; k++)
            sqlite_bind_number(&binding, numbers[k]);
        sqlite_run(&binding);
    }
}

static void bind_change(struct sqlite_binding *binding, const struct table_change *change)
{
    switch (change->act) {
    case TABLE_INSERT:
    case TABLE_ADD:
        bind_insert(binding, change);
        return;
    case TABLE_UPDATE:
    case TABLE_TOUCH:
        bind_update(binding, change);
        return;
    case TABLE_REMOVE:
        sqlite_bind_number(binding, change->row->id);
        sqlite_bind_number(binding, change->row->version);
        return;
    }
    UNREACHABLE();
}

/* False: it did not fit. */
static bool write_table_row(struct sqlite_backend *sqlite, struct table_change *change)
{
    static const enum sqlite_table_statement which[] = {[TABLE_INSERT] = TABLE_SQL_INSERT,
                                                        [TABLE_UPDATE] = TABLE_SQL_UPDATE,
                                                        [TABLE_TOUCH] = TABLE_SQL_TOUCH,
                                                        [TABLE_REMOVE] = TABLE_SQL_REMOVE,
                                                        [TABLE_ADD] = TABLE_SQL_ADD};
    struct sqlite_binding binding = sqlite_table_bind(sqlite, change->table, which[change->act]);
    bind_change(&binding, change);
    bool changed = sqlite_change(&binding);
    change->is_stale = sqlite_ok(sqlite) && !changed && !backend_may_miss(change);
    if (change->act == TABLE_REMOVE && !change->is_stale)
        remove_children(sqlite, change->table, TABLE_SQL_REMOVE_CHILDREN, &change->row->id, 1);
    return !change->is_stale;
}

const struct backend_change *sqlite_write_rows(struct sqlite_backend *sqlite,
                                               struct backend_group *group)
{
    const struct backend_change *change = group->changes;
    sqlite_run_named(sqlite, SQL_SAVEPOINT);
    for (; sqlite_ok(sqlite) && change && change->brought; change = change->next)
        if (!write_table_row(sqlite, change->brought)) {
            group->result = GROUP_CONFLICT;
            sqlite_run_named(sqlite, SQL_ROLLBACK_TO);
            break;
        }
    sqlite_run_named(sqlite, SQL_RELEASE);
    return change;
}

/* ---- sweeping ---- */

static size_t sweep_rows(struct sqlite_backend *sqlite, const struct table *table, size_t max)
{
    const int64_t numbers[] = {sqlite->state.now - table->keep_us, (int64_t)max};
    remove_children(sqlite, table, TABLE_SQL_SWEEP_CHILDREN, numbers, 2);
    struct sqlite_binding binding = sqlite_table_bind(sqlite, table, TABLE_SQL_SWEEP);
    sqlite_bind_number(&binding, numbers[0]);
    sqlite_bind_number(&binding, numbers[1]);
    return sqlite_run(&binding) ? (size_t)sqlite3_changes(sqlite->db) : 0;
}

/* Whether there is a row whose time is over, odd or not; NULL for a log without rows. Of a log the
 * oldest one says so. */
static void add_is_due(struct buf *sql, const struct table *table)
{
    const char *gone = table_column_of(table, TABLE_GONE)->name;
    if (table->is_log)
        buf_printf(sql, " OR (SELECT %s FROM %s ORDER BY id LIMIT 1) <= ?1 - %lld", gone,
                   table->name, (long long)table->keep_us);
    else
        buf_printf(sql, " OR EXISTS(SELECT 1 FROM %s WHERE %s <= ?1 - %lld AND %s < " NEVER ")",
                   table->name, gone, (long long)table->keep_us, gone);
}

/* Of all tables at once: mostly nothing is due, and one statement takes a third of the time that
 * preparing each table's own takes. Whether a row is odd is left to those: the condition is most of
 * what SQLite would have to parse. */
static bool look_for_any_due(struct sqlite_backend *sqlite)
{
    if (!sqlite->tables_due) {
        struct buf sql BUF_AUTO = buf_make(SQLITE_TABLE_SQL_MAX);
        buf_add_str(&sql, "SELECT ?1 IS NULL");
        for (size_t i = 0; i < sqlite->n_tables; i++)
            if (table_column_of(sqlite->tables[i].table, TABLE_GONE))
                add_is_due(&sql, sqlite->tables[i].table);
        sqlite_note(sqlite, sqlite_table_prepare(sqlite, &sql, &sqlite->tables_due));
    }
    struct sqlite_binding binding = {.sqlite = sqlite, .statement = sqlite->tables_due};
    sqlite_bind_number(&binding, sqlite->state.now);
    bool is_due = sqlite_step(&binding) && sqlite3_column_int(binding.statement, 0) != 0;
    sqlite3_reset(binding.statement);
    return is_due;
}

size_t sqlite_sweep_tables(struct sqlite_backend *sqlite, size_t max)
{
    size_t steps = 0;
    if (max == 0 || !look_for_any_due(sqlite))
        return 0;
    for (size_t i = 0; i < sqlite->n_tables && sqlite_ok(sqlite) && steps < max; i++)
        if (table_column_of(sqlite->tables[i].table, TABLE_GONE))
            steps += sweep_rows(sqlite, sqlite->tables[i].table, max - steps);
    return steps;
}

/* ---- odd rows ---- */

static void add_odd(struct buf *sql, const struct table *table)
{
    buf_printf(sql, "%sSELECT '%s', id FROM (SELECT id FROM %s WHERE NOT ",
               sql->len > 0 ? " UNION ALL " : "", table->name, table->name);
    table_write_sound(table, TABLE_SQLITE, sql);
    buf_printf(sql, " ORDER BY id LIMIT %d)", BACKEND_ODD_MOST);
}

void sqlite_find_odd(struct sqlite_backend *sqlite)
{
    struct buf *odd = &sqlite->backend.odd_rows;
    buf_clear(odd);
    if (sqlite->n_tables == 0)
        return;
    if (!sqlite->odd_rows) {
        struct buf sql BUF_AUTO = buf_make(SQLITE_TABLE_SQL_MAX);
        for (size_t i = 0; i < sqlite->n_tables; i++)
            add_odd(&sql, sqlite->tables[i].table);
        sqlite_note(sqlite, sqlite_table_prepare(sqlite, &sql, &sqlite->odd_rows));
    }
    struct sqlite_binding binding = {.sqlite = sqlite, .statement = sqlite->odd_rows};
    while (sqlite_step(&binding))
        buf_printf(odd, "%s %lld\n", (const char *)sqlite3_column_text(binding.statement, 0),
                   (long long)sqlite3_column_int64(binding.statement, 1));
    sqlite3_reset(binding.statement);
}
