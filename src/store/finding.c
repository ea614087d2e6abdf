/* SPDX-License-Identifier: Apache-2.0 */
#include "store/finding.h"

#include "base/check.h"

static void forget_rows(void *argument)
{
    ((struct finding *)argument)->found->n = 0;
}

/* With its texts. NULL: no memory. */
static struct table_row *copy_found_row(struct arena *arena, const struct table *table,
                                        const struct table_row *row)
{
    struct table_row *copy = arena_alloc(arena, table->row_size);
    if (!copy)
        return NULL;
    memcpy(copy, row, table->row_size);
    for (size_t i = 0; i < table->n_columns; i++)
        if (table->columns[i].kind != TABLE_INT)
            table_set_text(&table->columns[i], copy,
                           arena_copy(arena, table_text(&table->columns[i], row)));
    return copy;
}

static void keep_row(void *argument, const struct table_row *row)
{
    struct finding *finding = argument;
    CHECK(finding->found->n < finding->limit);
    if (finding->found->rows)
        finding->found->rows[finding->found->n++] =
            copy_found_row(finding->found->arena, finding->query.table, row);
}

void finding_start(struct finding *finding, const struct table_query *query,
                   struct store_found *found, struct store_op *ret_op)
{
    size_t limit = query->by == TABLE_BY_KEY ? 1 : query->limit;
    *finding = (struct finding){.query = *query, .found = found, .limit = limit};
    finding->query.restart = forget_rows;
    finding->query.each = keep_row;
    finding->query.argument = finding;
    found->n = 0;
    found->rows = arena_alloc(found->arena, limit * sizeof(void *));
    *ret_op = (struct store_op){.kind = STORE_QUERY, .query = &finding->query};
}

enum store_status finding_end(const struct finding *finding, const struct store_op *op)
{
    struct store_found *found = finding->found;
    found->next_due = op->result.next_due;
    found->now = op->result.store_now;
    return op->result.status == STORE_DONE && found->arena->failed ? STORE_NO_MEMORY
                                                                   : op->result.status;
}
