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
#include "cli/lib/request.h"
#include "client/queue.h"
#include "operator/tasks.h"

/* What `webhook endpoint` takes. */
struct endpoint_options {
    const char *name;
    const char *url;
    const char *types; /* divided by commas */
    struct flag_texts secrets;
    struct flag_texts options; /* NAME=VALUE */
    int64_t overlap_us;
};

/* What the command line of a subcommand said, and its store. Large: not for the stack. */
struct queue_session {
    struct request_options request;
    const char *command;    /* "queue add": for complaints */
    const char *store_path; /* NULL: the default */
    const char *operand;    /* URL or ID; NULL: none */
    const char *group;      /* NULL: none */
    const char *linked;     /* add: the file of a list; NULL: none */
    bool json;
    unsigned on_failure;  /* add: 0 or 1: park; 2: skip */
    int64_t lasts_us;     /* add; 0: as the profile says; CLOCK_NEVER: no deadline */
    size_t attempts;      /* add; 0: any number */
    int64_t remember_us;  /* add; 0: not given */
    int64_t dedupe_us;    /* add; 0: nothing is compared */
    size_t most;          /* add; 0: any number */
    bool force;           /* edit, drop, replay */
    const char *url;      /* edit; NULL: as it is */
    const char *lists;    /* drop: a whole list; NULL: the operand, or many */
    bool keep;            /* drop */
    const char *to;       /* edit, acts on many: below this URL; NULL: `id`, or any */
    struct slice reason;  /* acts; may be empty */
    unsigned state;       /* list: of TASKS_STATE_NAMES, from 1; 0: any */
    bool dead;            /* list; acts: all that are */
    bool parked;          /* acts: all that are */
    bool dry_run;         /* acts */
    bool settles_done;    /* settle */
    bool settles_undone;  /* settle */
    const char *response; /* settle; NULL: none */
    bool only_new;        /* drain: the exit code says nothing of what was dead before */
    size_t limit;         /* list */
    bool once;            /* drain */
    bool follow;          /* drain */
    size_t in_flight;     /* drain; 0: not given */
    int64_t max_time_us;  /* drain: of an attempt */
    bool prometheus;      /* stats */

    const char *event_id;   /* publish; NULL: one is minted */
    const char *tenant;     /* publish; NULL: none */
    const char *event_time; /* publish; NULL: now */
    int64_t since;          /* acts on many: ended (parked: added) then or later; 0: whenever */
    int64_t until;          /* the same: not later */
    size_t rate;            /* replay: of many, in a second */
    const char *lane;       /* list, replay: endpoint or source; NULL: any */

    struct endpoint_options endpoint;

    const struct tasks_kind *kind; /* of its tasks */
    struct buf actor;              /* for the audit */
    struct operands operands;
    int64_t id; /* of the operand */
    struct store *store;
    struct thread_parker parker;
    struct tasks_source source; /* of the open store */
};

#define QUEUE_LIMIT_DEFAULT 1000
#define QUEUE_RATE_DEFAULT 10
#define QUEUE_MAX_TIME_US (30 * CLOCK_US_PER_S)

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

/* Runs a command of the room: reads its options, a struct queue_session, and acts on them. */
command_fn queue_run;

/* ---- queue_add.c ---- */

/* Adds the line of a head; of a file of headers (`@`) its name. */
void queue_add_field(struct buf *fields, const struct header *line);

/* ---- queue_act.c ---- */

/* Says what came of an act; `done`: what it is then. An exit code. */
int queue_report_act(const struct queue_session *session, const struct tasks_acted *acted,
                     const char *done);

#endif
