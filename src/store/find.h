/* SPDX-License-Identifier: Apache-2.0 */
/* find: rows of modules, copied for whoever asks for a few of them and goes on with them later. */
#ifndef PAWL_STORE_FIND_H
#define PAWL_STORE_FIND_H

#include "store/finding.h"
#include "store/store.h"

/* Runs a query, whose callbacks are this one's; its limit is what fits into memory.
 * STORE_NO_MEMORY: it did not. */
enum store_status store_find_rows(struct store *store, const struct table_query *query,
                                  struct parker *parker, int64_t deadline_us,
                                  struct store_found *found);

#endif
