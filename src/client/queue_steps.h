/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queue_steps: closed lists of queued operations, all or nothing (core/steps.h). What follows from
 * the end of one of their tasks is saved in its commit: the state of the list, the undo of a step
 * that is done (undo.h), and where a step failed the reverses, tasks of profile `webhook` in an
 * order of their own, under keys that were minted when the list was added. Rows of a list are kept
 * until it is over, and then go together.
 *
 * queue_steps_act.c has what people do to lists.
 */
#ifndef PAWL_CLIENT_QUEUE_STEPS_H
#define PAWL_CLIENT_QUEUE_STEPS_H

#include "client/queue.h"
#include "client/undo.h"
#include "courier/courier.h"

/* Adds what follows from the end of a task, or of an attempt; of one that is in no list, nothing.
 * `response` NULL: it ended without one. */
enum store_status queue_steps_follow(const struct store_task *ended,
                                     const struct undo_response *response, struct rows *rows);

/* What a person wants of a task of a list, or of the whole list. */
struct queue_steps_wish {
    int64_t id; /* of the task */
    enum steps_act act;
    struct slice response; /* STEPS_SETTLE_DONE: the body that it had; the undo of a step is filled
                              in from it */
    const struct queue_operation *operation; /* STEPS_EDIT: it is this from now on; without a URL
                                                or a method as before */
    struct store_actor actor;
    struct store_saver *saver; /* NULL: it is saved alone */
};

struct queue_steps_drop {
    struct slice list; /* its number, or its name */
    bool keep;         /* what is done is not undone */
    struct store_actor actor;
};

enum queue_steps_end {
    QUEUE_STEPS_NONE, /* it is in no list, or there is no such task or list */
    QUEUE_STEPS_ACTED,
    QUEUE_STEPS_REFUSED, /* nothing was changed: `answer` says why */
};

struct queue_steps_acted {
    enum queue_steps_end end;
    enum steps_answer answer;
    int64_t list;
    enum steps_state before; /* of the list */
    enum steps_state after;
    enum task_state found;      /* of the task, before */
    char key[KEY_TEXT_MAX + 1]; /* STEPS_EDIT: its new one */
};

/* Does it where the list allows it (core/steps.h). */
enum store_status queue_steps_act(struct store *store, const struct queue_steps_wish *wish,
                                  struct parker *parker, struct queue_steps_acted *ret_acted);
enum store_status queue_steps_drop(struct store *store, const struct queue_steps_drop *wish,
                                   struct parker *parker, struct queue_steps_acted *ret_acted);

#endif
