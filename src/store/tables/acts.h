/* SPDX-License-Identifier: Apache-2.0 */
/* acts: what an operator does to a task, a lane, an order or an endpoint is saved with its row of
 * the audit (task_audit.h), and by whom and why. */
#ifndef PAWL_STORE_ACTS_H
#define PAWL_STORE_ACTS_H

#include "store/rows.h"
#include "store/tables/task_audit.h"
#include "store/tables/tasks.h"

/* Who acts, and how. */
struct store_actor {
    struct slice name;
    bool force;
    struct slice reason; /* as they say it; may be empty */
};

/* Saves what an act puts with what is the caller's, in one commit; STORE_CONFLICT: it is decided
 * again. */
struct store_saver {
    enum store_status (*save)(struct store_saver *saver, struct rows *rows);
};

/* An act on a task that was found as `before`, and is `after` from now on. */
struct store_task_audit store_audit_task(const struct store_actor *actor, const char *act,
                                         const struct store_task *before,
                                         const struct store_task *after, int64_t now);

/* Puts what writes it down, with the actor's reason: at most so many changes. */
#define STORE_AUDIT_CHANGES ((size_t)2)
void store_audit_put(struct store_task_audit *audit, const struct store_actor *actor,
                     struct rows *rows);

#endif
