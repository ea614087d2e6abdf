/* SPDX-License-Identifier: Apache-2.0 */
#include "store/find.h"

#include "base/check.h"

struct finding {
    const struct table *table;
    struct store_found *found;
    size_t limit;
};

static void forget_rows(void *argument)
{
    ((struct finding *)argument)->found->n = 0;
}

/* With its texts. NULL: no memory. */
static struct table_row *copy_row(struct arena *arena, const struct table *table,
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
            copy_row(finding->found->arena, finding->table, row);
}

enum store_status store_find_rows(struct store *store, const struct table_query *query,
                                  struct parker *parker, int64_t deadline_us,
                                  struct store_found *found)
{
    struct finding finding = {query->table, found, query->by == TABLE_BY_KEY ? 1 : query->limit};
    struct table_query own = *query;
    own.restart = forget_rows;
    own.each = keep_row;
    own.argument = &finding;
    found->n = 0;
    found->rows = arena_alloc(found->arena, finding.limit * sizeof(void *));
    struct store_op op = {.kind = STORE_QUERY, .query = &own};
    store_run(store, &op, parker, deadline_us);
    found->next_due = op.next_due;
    found->now = op.store_now;
    return op.status == STORE_DONE && found->arena->failed ? STORE_NO_MEMORY : op.status;
}
