/* SPDX-License-Identifier: Apache-2.0 */
/* finding: a query whose rows are copied, with their texts; find.h is the one that runs it on a
 * store. */
#ifndef PAWL_STORE_FINDING_H
#define PAWL_STORE_FINDING_H

#include "base/arena.h"
#include "store/op.h"

struct store_found {
    struct arena *arena; /* the caller's: rows and texts lie in it */
    struct table_row **rows;
    size_t n;
    int64_t next_due; /* of what is due: when the first one is that was left out; CLOCK_NEVER */
    int64_t now;      /* store time */
};

struct finding {
    struct table_query query;
    struct store_found *found;
    size_t limit;
};

/* Makes the operation of a query, whose callbacks are this one's; its limit is what fits into
 * memory. */
void finding_start(struct finding *finding, const struct table_query *query,
                   struct store_found *found, struct store_op *ret_op);
/* After it has ended. STORE_NO_MEMORY: the rows did not fit. */
enum store_status finding_end(const struct finding *finding, const struct store_op *op);

#endif
