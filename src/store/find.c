/* SPDX-License-Identifier: Apache-2.0 */
#include "store/find.h"

#include "base/clock.h"
#include <string.h>

#define PAGE ((size_t)500)

enum store_status store_find_rows(struct store *store, const struct table_query *query,
                                  struct parker *parker, int64_t deadline_us,
                                  struct store_found *found)
{
    struct finding finding;
    struct store_op op;
    finding_start(&finding, query, found, &op);
    store_run(store, &op, parker, deadline_us);
    return finding_end(&finding, &op);
}

/* ---- all ---- */

/* What it has outgrown stays in the arena. */
static bool append(struct store_found *all, size_t *room, const struct store_found *page)
{
    if (all->n + page->n > *room) {
        *room = 2 * (all->n + page->n);
        const struct table_row **rows = arena_alloc(all->arena, *room * sizeof *rows);
        if (!rows)
            return false;
        if (all->n > 0)
            memcpy(rows, all->rows, all->n * sizeof *rows);
        all->rows = rows;
    }
    if (page->n > 0)
        memcpy(all->rows + all->n, page->rows, page->n * sizeof *page->rows);
    all->n += page->n;
    all->now = page->now;
    return true;
}

enum store_status store_find_all(struct store *store, const struct table *table,
                                 struct parker *parker, int64_t within_us,
                                 struct store_found *found)
{
    struct store_found page;
    enum store_status status;
    size_t room = 0;
    *found = (struct store_found){.arena = found->arena, .next_due = CLOCK_NEVER};
    do {
        const struct table_query query = {.table = table,
                                          .after = found->n > 0 ? found->rows[found->n - 1]->id : 0,
                                          .limit = PAGE};
        page = (struct store_found){.arena = found->arena};
        status =
            store_find_rows(store, &query, parker, clock_after(clock_boot_us(), within_us), &page);
        if (status == STORE_DONE && !append(found, &room, &page))
            status = STORE_NO_MEMORY;
    } while (status == STORE_DONE && page.n == PAGE);
    return status;
}
