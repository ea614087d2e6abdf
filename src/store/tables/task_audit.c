/* SPDX-License-Identifier: Apache-2.0 */
#include "store/tables/task_audit.h"

#define COLUMN(kind, role, field, name)                                                            \
    TABLE_COLUMN(struct store_task_audit, kind, role, field, name)

static const struct table_column columns[] = {
    COLUMN(INT, GONE, at, "at"),         COLUMN(TEXT, PLAIN, actor, "actor"),
    COLUMN(TEXT, PLAIN, act, "act"),     COLUMN(TEXT, PLAIN, kind, "kind"),
    COLUMN(INT, PLAIN, task, "task"),    COLUMN(TEXT, PLAIN, lane, "lane"),
    COLUMN(TEXT, PLAIN, key, "key"),     COLUMN(TEXT, PLAIN, from, "from_state"),
    COLUMN(TEXT, PLAIN, to, "to_state"), COLUMN(INT, PLAIN, force, "forced"),
};

const struct table task_audit_table = {
    .name = "pawl_task_audit",
    .columns = columns,
    .n_columns = sizeof columns / sizeof *columns,
    .row_size = sizeof(struct store_task_audit),
    .keep_us = STORE_AUDIT_KEEP_US,
    .is_log = true,
};
