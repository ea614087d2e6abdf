/* SPDX-License-Identifier: Apache-2.0 */
#include "store/tables/identity.h"

#define IDENTITY(kind, role, field) TABLE_COLUMN(struct store_identity, kind, role, field, #field)

static const struct table_column columns[] = {
    IDENTITY(TEXT, KEY, rule),
    IDENTITY(TEXT, PLAIN, made_of),
    IDENTITY(TEXT, PLAIN, becomes),
};

const struct table identity_table = {
    .name = "pawl_identity",
    .columns = columns,
    .n_columns = COUNT_OF(columns),
    .row_size = sizeof(struct store_identity),
};
