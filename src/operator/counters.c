/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/counters.h"

#define ARENA_MAX ((size_t)16 * 1024 * 1024)
#define PAGE_ROWS ((size_t)256)
#define TIMEOUT_US (10 * CLOCK_US_PER_S)

void counters_fini(struct counters *counters)
{
    arena_fini(&counters->arena);
}

/* Each process adds to a slot of its own. */
static void add(struct counters *counters, const struct store_counter *row)
{
    struct counter_sum *sum = counters->at;
    struct counter_sum *end = counters->at + counters->n;
    while (sum < end && !(slice_eq(sum->name, row->name) && slice_eq(sum->labels, row->labels)))
        sum++;
    if (sum == end && counters->n == COUNTERS_MOST)
        return;
    if (sum == end)
        counters->at[counters->n++] = (struct counter_sum){row->name, row->labels, 0};
    sum->value += row->value;
}

enum store_status counters_read(struct store *store, struct parker *parker,
                                struct counters *ret_counters)
{
    struct table_query query = {.table = &counter_table, .limit = PAGE_ROWS};
    struct store_found found = {.arena = &ret_counters->arena};
    ret_counters->arena = arena_make(ARENA_MAX);
    ret_counters->n = 0;
    do {
        enum store_status status = store_find_rows(
            store, &query, parker, clock_after(clock_boot_us(), TIMEOUT_US), &found);
        if (status != STORE_DONE)
            return status;
        for (size_t i = 0; i < found.n; i++) {
            add(ret_counters, (const struct store_counter *)found.rows[i]);
            query.after = found.rows[i]->id;
        }
    } while (found.n == PAGE_ROWS);
    return STORE_DONE;
}
