/* SPDX-License-Identifier: Apache-2.0 */
#include "store/find.h"

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
