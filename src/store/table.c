/* SPDX-License-Identifier: Apache-2.0 */
#include "store/table.h"

#include "base/check.h"

static const char *field(const struct table_column *column, const void *row)
{
    return (const char *)row + column->offset;
}

int64_t table_number(const struct table_column *column, const void *row)
{
    int64_t wide;
    int32_t narrow;
    switch (column->size) {
    case sizeof wide:
        memcpy(&wide, field(column, row), sizeof wide);
        return wide;
    case sizeof narrow:
        memcpy(&narrow, field(column, row), sizeof narrow);
        return narrow;
    default:
        CHECK(column->size == sizeof(bool));
        return *field(column, row);
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
    memcpy(&text, field(column, row), sizeof text);
    return text;
}

void table_set_text(const struct table_column *column, void *row, struct slice value)
{
    CHECK(column->size == sizeof value);
    memcpy((char *)row + column->offset, &value, sizeof value);
}

const struct table_column *table_column_of(const struct table *table, enum table_role role)
{
    for (size_t i = 0; i < table->n_columns; i++)
        if (table->columns[i].role == role)
            return &table->columns[i];
    return NULL;
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
