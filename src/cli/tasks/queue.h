/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pawl queue`: operations that wait on disk until they can be sent; and what of `pawl webhook` is
 * about deliveries, and `pawl inbox`, which are tasks, too. What the parts of the commands share:
 * queue.c (command line, the store), queue_add.c, queue_edit.c, queue_list.c (list, show),
 * queue_act.c (retry, replay, drop, pause, resume), queue_settle.c, queue_lists.c (what is done to
 * lists), queue_audit.c, queue_drain.c,
 * webhook_publish.c, webhook_endpoint.c, inbox_remove.c. stats.c is `pawl stats`. What programs
 * read, and what an act does, is operator/tasks.h.
 */
#ifndef PAWL_CLI_QUEUE_H
#define PAWL_CLI_QUEUE_H

#include "cli/command/command.h"
#include "client/queue.h"
#include "operator/tasks.h"

/* What the options of all of these begin with, their store, and where they are. Options are large:
 * not for the stack. */
struct queue_session {
    const char *command;    /* "queue add": for complaints */
    const char *store_path; /* NULL: the default */
    const char *operand;    /* URL or ID; NULL: none */
    const char *group;      /* NULL: none */
    const char *lists;      /* drop: a whole list; NULL: the operand, or many */
    bool json;
    bool force;          /* edit, drop, replay, remove */
    struct slice reason; /* acts; may be empty */

    const struct tasks_kind *kind; /* of its tasks */
    struct buf actor;              /* for the audit */
    struct operands operands;
    int64_t id; /* of the operand */
    struct store *store;
    struct thread_parker parker;
    struct tasks_source source; /* of the open store */
};

#define LIMIT_DEFAULT 1000

/* Flags, and ends of commands. */
#define FLAG_LISTED_GROUP(member)                                                                  \
    FLAG(member, "group", 0, "G", ANY, "only operations of this group")
#define FLAG_EDIT_FORCE(member)                                                                    \
    SWITCH(member, "force", 0, "even if an attempt may have taken effect")
#define FLAG_ENDPOINT(member)                                                                      \
    FLAG(member, "endpoint", 0, "NAME", ANY, "only deliveries to this endpoint")
#define FLAG_SOURCE(member) FLAG(member, "source", 0, "NAME", ANY, "only events of this source")
#define NO_OPERATION EXIT_FINAL_ERROR, "no such operation, or its state does not allow it"
#define NO_EVENT EXIT_FINAL_ERROR, "no such event, or its state does not allow it"
#define NO_DELIVERY EXIT_FINAL_ERROR, "no such delivery, or its state does not allow it"

/* ---- queue.c ---- */

/* Opens the store in this role; `create` makes it where there is none. An exit code; anything but 0
 * was explained. */
int queue_open(struct queue_session *session, enum store_role role, bool create);

/* Who acts, for the audit; with --force. */
struct store_actor queue_actor(struct queue_session *session);

/* An exit code; anything but 0 it explains. */
int queue_complain(const struct queue_session *session, enum store_status status);

/* Runs a command of the room: reads its options, which begin with a session, and acts on them. */
command_fn queue_run;

/* ---- queue_add.c ---- */

/* Adds the line of a head; of a file of headers (`@`) its name. */
void queue_add_field(struct buf *fields, const struct header *line);

/* ---- queue_act.c ---- */

/* Says what came of an act; `done`: what it is then. An exit code. */
int queue_report_act(const struct queue_session *session, const struct tasks_acted *acted,
                     const char *done);

#endif
