/* SPDX-License-Identifier: Apache-2.0 */
/* queue_lists: acts on what is in a list (client/queue_steps.h), for the commands that take an ID
 * of anything. Exit codes; what was not done is explained. */
#ifndef PAWL_CLI_QUEUE_LISTS_H
#define PAWL_CLI_QUEUE_LISTS_H

#include "cli/tasks/queue.h"
#include "client/queue_steps.h"

/* Of the session's ID, in its open store. `done`: what it is then. */
int queue_lists_act(struct queue_session *session, enum steps_act act, const char *done);
int queue_lists_edit(struct queue_session *session, const struct queue_operation *operation);

/* The two halves of these: the act, of the session's ID and actor, and what is said of it. */
enum store_status queue_lists_try(struct queue_session *session, struct queue_steps_wish *wish,
                                  struct queue_steps_acted *ret_acted);
int queue_lists_report(const struct queue_session *session, enum store_status status,
                       const struct queue_steps_acted *acted, const char *done);

/* `queue drop --list`; `keep`: what is done stays. */
int queue_lists_drop(struct queue_session *session, bool keep);

#endif
