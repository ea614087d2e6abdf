/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task_audit: what operators did by hand to tasks, to lanes, and to the endpoints of webhooks, each
 * act written with what it changed, in one operation. What changed nothing is not among them. Acts
 * on records: audit.h.
 */
#ifndef PAWL_STORE_TASK_AUDIT_H
#define PAWL_STORE_TASK_AUDIT_H

#include "store/tables/audit.h"

struct store_task_audit {
    struct table_row row; /* first */
    int64_t at;           /* store time */
    struct slice actor;
    struct slice act;  /* as its command is called: "replay" */
    struct slice kind; /* of the task */
    int64_t task;      /* 0: the act is on a lane, an order or an endpoint */
    struct slice lane; /* or the endpoint's name */
    struct slice key;  /* of the task, before the act; of an order its name */
    struct slice from; /* state; empty: it was not there */
    struct slice to;   /* the same */
    bool force;        /* `force` was given, needed or not */

    struct store_reason why; /* no column: what is written beside it (store_audit_put) */
};

/* Its rows are struct store_task_audit. */
extern const struct table task_audit_table;

#endif
