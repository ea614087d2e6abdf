/* SPDX-License-Identifier: Apache-2.0 */
#include "store/table.h"

#include "base/check.h"
#include "base/crypto/digest.h"

static const char *field_of_column(const struct table_column *column, const void *row)
{
    return (const char *)row + column->offset;
}

int64_t table_number(const struct table_column *column, const void *row)
{
    int64_t wide;
    int32_t narrow;
    switch (column->size) {
    case sizeof wide:
        memcpy(&wide, field_of_column(column, row), sizeof wide);
        return wide;
    case sizeof narrow:
        memcpy(&narrow, field_of_column(column, row), sizeof narrow);
        return narrow;
    default:
        CHECK(column->size == sizeof(bool));
        return *field_of_column(column, row);
    }
}

void table_set_number(const struct table_column *column, void *row, int64_t value)
{
    char *at = (char *)row + column->offset;
    int32_t narrow = (int32_t)value;
    bool truth = value != 0;
    if (column->size == sizeof value)
        memcpy(at, &value, sizeof value);
    else if (column->size == sizeof narrow)
        memcpy(at, &narrow, sizeof narrow);
    else
        memcpy(at, &truth, sizeof truth);
}

struct slice table_text(const struct table_column *column, const void *row)
{
    struct slice text;
    CHECK(column->size == sizeof text);
    memcpy(&text, field_of_column(column, row), sizeof text);
    return text;
}

void table_set_text(const struct table_column *column, void *row, struct slice value)
{
    CHECK(column->size == sizeof value);
    memcpy((char *)row + column->offset, &value, sizeof value);
}

/* ---- what holds of every row ---- */

bool table_fits(const struct table_column *column, int64_t value)
{
    if (column->size == sizeof(int32_t))
        return value >= INT32_MIN && value <= INT32_MAX;
    return column->size != sizeof(bool) || value == 0 || value == 1;
}

static bool is_within_bounds(int64_t value, int64_t least, int64_t most)
{
    return value >= least && value <= most;
}

static bool holds_relation(const struct table *table, const struct table_relation *relation,
                           const void *row)
{
    const struct table_column *columns = table->columns, *column = &columns[relation->column];
    if (relation->when != TABLE_ALWAYS &&
        !is_within_bounds(table_number(&columns[relation->when], row), relation->from,
                          relation->to))
        return true;
    switch (relation->claim) {
    case TABLE_IS_WITHIN:
        return is_within_bounds(table_number(column, row), relation->least, relation->most);
    case TABLE_IS_EMPTY:
        return table_text(column, row).len == 0;
    case TABLE_IS_AS:
        return slice_eq(table_text(column, row), table_text(&columns[relation->as], row));
    }
    UNREACHABLE();
}

bool table_is_sound(const struct table *table, const void *row)
{
    for (size_t i = 0; i < table->n_relations; i++)
        if (!holds_relation(table, &table->relations[i], row))
            return false;
    return true;
}

/* Written at every start, and so without printf. */
static void write_name(const char *before, const struct table_column *column, struct buf *sql)
{
    buf_add_str(sql, before);
    buf_add_char(sql, '"');
    buf_add_str(sql, column->name);
    buf_add_char(sql, '"');
}

static void write_bounds(const char *between, int64_t least, int64_t most, struct buf *sql)
{
    buf_add_char(sql, ' ');
    buf_add_str(sql, between);
    buf_add_char(sql, ' ');
    buf_add_i64(sql, least);
    buf_add_str(sql, " AND ");
    buf_add_i64(sql, most);
}

static void write_fits(const struct table_column *column, enum table_dialect dialect,
                       struct buf *sql)
{
    if (column->kind != TABLE_INT)
        return;
    if (dialect == TABLE_SQLITE) {
        write_name(" AND typeof(", column, sql);
        buf_add_str(sql, ") = 'integer'");
    }
    if (column->size == sizeof(int32_t)) {
        write_name(" AND ", column, sql);
        write_bounds("BETWEEN", INT32_MIN, INT32_MAX, sql);
    } else if (column->size == sizeof(bool)) {
        write_name(" AND ", column, sql);
        buf_add_str(sql, " IN (0, 1)");
    }
}

static void write_claim(const struct table *table, const struct table_relation *relation,
                        struct buf *sql)
{
    write_name("", &table->columns[relation->column], sql);
    switch (relation->claim) {
    case TABLE_IS_WITHIN:
        write_bounds("BETWEEN", relation->least, relation->most, sql);
        return;
    case TABLE_IS_EMPTY:
        buf_add_str(sql, " = ''");
        return;
    case TABLE_IS_AS:
        write_name(" = ", &table->columns[relation->as], sql);
        return;
    }
    UNREACHABLE();
}

/* In a CASE the planner of PostgreSQL sees one condition. Without, it tries to prove each part by
 * each part of the index of odd rows, which took up to 0.6 s a statement. */
void table_write_sound(const struct table *table, enum table_dialect dialect, struct buf *sql)
{
    bool is_planned = dialect == TABLE_POSTGRES;
    buf_add_str(sql, is_planned ? "(CASE WHEN 1 = 1" : "(1 = 1");
    for (size_t i = 0; i < table->n_columns; i++)
        write_fits(&table->columns[i], dialect, sql);
    for (size_t i = 0; i < table->n_relations; i++) {
        const struct table_relation *relation = &table->relations[i];
        if (relation->may_grow && dialect == TABLE_POSTGRES_CHECK)
            continue;
        buf_add_str(sql, " AND (");
        if (relation->when != TABLE_ALWAYS) {
            write_name("", &table->columns[relation->when], sql);
            write_bounds("NOT BETWEEN", relation->from, relation->to, sql);
            buf_add_str(sql, " OR ");
        }
        write_claim(table, relation, sql);
        buf_add_char(sql, ')');
    }
    buf_add_str(sql, is_planned ? " THEN true ELSE false END)" : ")");
}

bool table_mark(const struct table *table, enum table_dialect dialect,
                char ret_mark[TABLE_MARK_SIZE])
{
    struct buf sql BUF_AUTO = buf_make(SIZE_MAX);
    table_write_sound(table, dialect, &sql);
    struct digest digest = digest_of(buf_slice(&sql));
    hex_encode(digest.bytes, TABLE_MARK_SIZE / 2, ret_mark);
    ret_mark[TABLE_MARK_SIZE - 1] = '\0';
    return buf_ok(&sql);
}

/* ---- roles ---- */

const struct table_column *table_column_of(const struct table *table, enum table_role role)
{
    for (size_t i = 0; i < table->n_columns; i++)
        if (table->columns[i].role == role)
            return &table->columns[i];
    return NULL;
}

void table_write_key(const struct table *table, struct buf *sql)
{
    const char *between = "";
    for (size_t i = 0; i < table->n_columns; i++) {
        if (table->columns[i].role != TABLE_KEY)
            continue;
        buf_printf(sql, "%s%s", between, table->columns[i].name);
        between = ", ";
    }
}

const struct table_column *table_query_due(const struct table_query *query)
{
    const struct table_index *index = query->index;
    if (query->by != TABLE_BY_INDEX)
        return NULL;
    const struct table_column *last =
        table_index_column(query->table, index, (size_t)index->n_columns - 1);
    return last->role == TABLE_DUE ? last : NULL;
}
