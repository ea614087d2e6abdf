/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queue_steps: closed lists of queued operations, all or nothing (core/steps.h). What follows from
 * the end of one of their tasks is saved in its commit: the state of the list, the undo of a step
 * that is done (undo.h), and where a step failed the reverses, tasks of profile `webhook` in an
 * order of their own, under keys that were minted when the list was added.
 */
#ifndef PAWL_CLIENT_QUEUE_STEPS_H
#define PAWL_CLIENT_QUEUE_STEPS_H

#include "client/undo.h"
#include "courier/courier.h"
#include "store/task_audit.h"

/* Adds what follows from the end of a task; of one that is in no list, nothing. `response` NULL: it
 * ended without one. */
enum store_status queue_steps_follow(const struct store_task *ended,
                                     const struct undo_response *response,
                                     struct courier_follow *follow);

enum queue_steps_act { QUEUE_STEPS_RETRY, QUEUE_STEPS_DROP };

enum queue_steps_end {
    QUEUE_STEPS_ACTED,
    QUEUE_STEPS_NONE,   /* it is in no list, or there is no such task */
    QUEUE_STEPS_CLOSED, /* its list goes on by itself, or has ended */
};

struct queue_steps_acted {
    enum queue_steps_end end;
    int64_t list;
    enum steps_state state; /* of the list, before */
};

struct queue_steps_wish {
    int64_t id; /* of the task */
    enum queue_steps_act act;
    struct store_actor actor;
};

/* A person takes up the task that parked its list: sends it again under its key, or says that it
 * was not done (a step: the reverses run) or is given up (a reverse: the next one runs). */
enum store_status queue_steps_act(struct store *store, const struct queue_steps_wish *wish,
                                  struct parker *parker, struct queue_steps_acted *ret_acted);

#endif
