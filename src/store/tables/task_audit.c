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

struct store_task_audit store_audit_task(const struct store_actor *actor, const char *act,
                                         const struct store_task *before,
                                         const struct store_task *after, int64_t now)
{
    return (struct store_task_audit){.at = now,
                                     .actor = actor->name,
                                     .act = slice_of(act),
                                     .kind = before->kind,
                                     .task = before->row.id,
                                     .lane = before->lane,
                                     .key = before->key,
                                     .from = task_state_name(before->task.state),
                                     .to = task_state_name(after->task.state),
                                     .force = actor->force};
}

size_t store_audit_add(struct store_task_audit *audit, const struct store_actor *actor,
                       struct table_change changes[STORE_AUDIT_CHANGES])
{
    audit->why = (struct store_reason){.at = audit->at,
                                       .text = slice_first(actor->reason, STORE_REASON_MAX)};
    changes[0] =
        (struct table_change){.table = &task_audit_table, .act = TABLE_INSERT, .row = &audit->row};
    if (actor->reason.len == 0)
        return 1;
    changes[1] = (struct table_change){
        .table = &reason_table, .act = TABLE_INSERT, .row = &audit->why.row, .parent = &audit->row};
    return 2;
}
