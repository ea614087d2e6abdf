/* SPDX-License-Identifier: Apache-2.0 */
#include "store/tables/acts.h"

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

void store_audit_put(struct store_task_audit *audit, const struct store_actor *actor,
                     struct rows *rows)
{
    audit->why = (struct store_reason){.at = audit->at,
                                       .text = slice_first(actor->reason, STORE_REASON_MAX)};
    rows_put(rows, TABLE_INSERT, &task_audit_table, &audit->row, NULL);
    if (actor->reason.len > 0)
        rows_put(rows, TABLE_INSERT, &reason_table, &audit->why.row, &audit->row);
}
