/* SPDX-License-Identifier: Apache-2.0 */
/* counters: what commands counted in the store, where no `serve` sees them (runner/tally.h). */
#ifndef PAWL_OPERATOR_COUNTERS_H
#define PAWL_OPERATOR_COUNTERS_H

#include "observe/page.h"
#include "store/tables/tasks.h"

#define COUNTERS_MOST 256 /* sums */
#define COUNTERS_ROWS ((size_t)COUNTERS_MOST * STORE_COUNTER_SLOTS)

struct counters {
    struct arena arena;
    struct counter_sum {
        struct slice name;   /* of the series */
        struct slice labels; /* as Prometheus writes them */
        int64_t value;
    } at[COUNTERS_MOST];
    size_t n;
};

void counters_init(struct counters *counters);
void counters_fini(struct counters *counters);

/* The query that reads them into `*counters`. */
struct table_query counters_query(struct counters *counters);

/* The series that may be counted there. NULL behind the last. */
extern const struct page_series *const counters_series[];

/* Appends the samples of a series. A label tells them from what a process counts itself: each
 * `serve` on the store shows the same ones. */
void counters_add_samples(const struct counters *counters, const struct page_series *series,
                          struct buf *page);

#endif
