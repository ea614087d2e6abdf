/* SPDX-License-Identifier: Apache-2.0 */
#include "store/same.h"

#define SAME(kind, role, field) TABLE_COLUMN(struct store_same, kind, role, field, #field)

static const struct table_column columns[] = {
    SAME(BYTES, KEY, hash),
    SAME(INT, LINK, task),
    SAME(INT, GONE, until),
};

const struct table same_table = {
    .name = "pawl_same",
    .columns = columns,
    .n_columns = COUNT_OF(columns),
    .row_size = sizeof(struct store_same),
    .keep_us = STORE_SAME_KEEP_US,
};
