/* SPDX-License-Identifier: Apache-2.0 */
/* counters: what commands counted in the store, where no `serve` sees them (store/tasks.h). */
#ifndef PAWL_OPERATOR_COUNTERS_H
#define PAWL_OPERATOR_COUNTERS_H

#include "store/find.h"
#include "store/tasks.h"

#define COUNTERS_MOST 256

struct counters {
    struct arena arena;
    struct counter_sum {
        struct slice name;   /* of the series */
        struct slice labels; /* as Prometheus writes them */
        int64_t value;
    } at[COUNTERS_MOST];
    size_t n;
};

/* Reads them; `*ret_counters` is to be freed whatever the result. */
enum store_status counters_read(struct store *store, struct parker *parker,
                                struct counters *ret_counters);
void counters_fini(struct counters *counters);

#endif
