/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/counters.h"
#include "base/check.h"

#define ARENA_MAX ((size_t)1024 * 1024)

const struct page_series *const counters_series[] = {
    SERIES(RETRY_OPERATIONS), SERIES(RETRY_ATTEMPTS), SERIES(RETRY_EXHAUSTED), SERIES(JOBS), NULL};

void counters_init(struct counters *counters)
{
    counters->arena = arena_make(ARENA_MAX);
    counters->n = 0;
}

void counters_fini(struct counters *counters)
{
    arena_fini(&counters->arena);
}

static void restart_counters(void *argument)
{
    struct counters *counters = argument;
    counters->n = 0;
}

/* Each process adds to a slot of its own. */
static void add_counted_row(void *argument, const struct table_row *row)
{
    struct counters *counters = argument;
    const struct store_counter *counter = (const struct store_counter *)row;
    struct counter_sum *sum = counters->at;
    struct counter_sum *end = counters->at + counters->n;
    CHECK(counters->n <= COUNTERS_MOST);
    if (!slice_starts(counter->name, SLICE("pawl_")))
        return; /* what nobody counts: client/queue.c bounds adds by one */
    while (sum < end &&
           !(slice_eq(sum->name, counter->name) && slice_eq(sum->labels, counter->labels)))
        sum++;
    if (sum == end && counters->n == COUNTERS_MOST)
        return;
    if (sum == end)
        counters->at[counters->n++] =
            (struct counter_sum){arena_copy(&counters->arena, counter->name),
                                 arena_copy(&counters->arena, counter->labels), 0};
    sum->value += counter->value;
}

struct table_query counters_query(struct counters *counters)
{
    return (struct table_query){.table = &counter_table,
                                .limit = COUNTERS_ROWS,
                                .restart = restart_counters,
                                .each = add_counted_row,
                                .argument = counters};
}

void counters_add_samples(const struct counters *counters, const struct page_series *series,
                          struct buf *page)
{
    for (size_t i = 0; i < counters->n; i++)
        if (slice_eq(counters->at[i].name, slice_of(series->name)))
            buf_printf(page, "%s{%.*s,counted_in=\"store\"} %lld\n", series->name,
                       SLICE_ARG(counters->at[i].labels), (long long)counters->at[i].value);
}
