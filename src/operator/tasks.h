/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tasks: what the courier delivers, as operators see it and act on it, whatever its kind: lists,
 * JSON, retry, drop, pause.
 */
#ifndef PAWL_OPERATOR_TASKS_H
#define PAWL_OPERATOR_TASKS_H

#include "base/buf.h"
#include "store/find.h"
#include "store/task_audit.h"

#define TASKS_TIMEOUT_US (10 * CLOCK_US_PER_S) /* for one operation of the store */

/* The words for the states of a task, divided by '|', in the order of enum task_state. */
#define TASKS_STATE_NAMES "waiting|sending|done|dead|dropped"

/* Tasks of which kind, in which store, and what the caller waits with. */
struct tasks_source {
    struct store *store;
    struct parker *parker;
    struct slice kind;
};

/* ---- lists: tasks_list.c ---- */

#define TASKS_PAGE_MOST ((size_t)256)

/* Which tasks. */
struct tasks_wanted {
    bool has_state; /* only those in `state` */
    enum task_state state;
    struct slice ord;  /* of this order; empty: any */
    struct slice lane; /* of this lane; empty: any */
    int64_t since;     /* ended then or later; 0: whenever */
    int64_t after;     /* ids above this one */
};

struct tasks_row {
    const struct store_task *stored;
    struct slice method; /* of its request; empty: it has none */
    struct slice url;
};

/* A page of a list, oldest first. */
struct tasks_page {
    struct arena arena;
    struct tasks_row *rows;
    size_t n;
    int64_t next; /* `after` of the page behind it; 0: the end was reached */
    int64_t now;  /* store time */
};
#define TASKS_PAGE_AUTO __attribute__((cleanup(tasks_page_fini)))

/* Frees it. Accepts a struct that is all zero. */
void tasks_page_fini(struct tasks_page *page);

/* Lists one page of at most TASKS_PAGE_MOST tasks; `*ret_page` is to be freed whatever the
 * result. */
enum store_status tasks_list(const struct tasks_source *source, const struct tasks_wanted *wanted,
                             struct tasks_page *ret_page);

/* All of one task. */
struct tasks_whole {
    struct arena arena;
    const struct store_task *stored;     /* NULL: there is none */
    const struct store_request *request; /* NULL: it has none */
    const struct store_task_list *list;  /* in which it is a step; NULL: in none */
    struct slice body;                   /* of the request, unpacked */
    const struct table_row **attempts;   /* struct store_attempt, in order */
    size_t n_attempts;
    int64_t now;
};
#define TASKS_WHOLE_AUTO __attribute__((cleanup(tasks_whole_fini)))

/* Frees it. Accepts a struct that is all zero. */
void tasks_whole_fini(struct tasks_whole *whole);

/* Reads a task; `*ret_whole` is to be freed whatever the result. */
enum store_status tasks_read(const struct tasks_source *source, int64_t id,
                             struct tasks_whole *ret_whole);

/* What is paused or broken, of all kinds: struct store_lane, in `arena`. */
enum store_status tasks_lanes(const struct tasks_source *source, struct arena *arena,
                              struct store_found *ret_found);

/* ---- JSON: tasks_json.c ---- */

/* Appends one JSON object: what every kind shows in a list. */
void tasks_add_json(struct buf *buf, const struct tasks_row *row);

/* The same, and all that is known of the task. */
void tasks_add_whole_json(struct buf *buf, const struct tasks_whole *whole);

/* ---- acts: tasks_act.c ---- */

enum tasks_act {
    TASKS_RETRY,
    TASKS_REPLAY, /* the same, and of what is done */
    TASKS_DROP,
};

struct tasks_wish {
    int64_t id;
    enum tasks_act act;
    struct store_actor actor; /* force: TASKS_REPLAY of what is TASKS_DISABLED or TASKS_LATE */
    int64_t after_us;         /* from now on until it is due, where it is sent again */
};

/* How long after the first attempt the handler of a received event is taken to know its key. */
#define TASKS_WINDOW_US (INT64_C(7) * 86400 * CLOCK_US_PER_S)

/* What came of an act. */
enum tasks_end {
    TASKS_ACTED,
    TASKS_NOT_FOUND,
    TASKS_NOT_ALLOWED, /* not in that state */
    TASKS_SENDING,     /* not while it is being sent */
    TASKS_DISABLED,    /* not to an endpoint that is disabled */
    TASKS_LATE,        /* not where its receiver may not know the key any more */
    TASKS_LINKED,      /* it is in a list, whose own acts these are */
};

struct tasks_acted {
    enum tasks_end end;
    enum task_state state; /* in which it was found */
};

/* Does it. A dead task that is retried waits again, and counts from the start; where a task ends
 * that was the first of its order, the next one is due. */
enum store_status tasks_act(const struct tasks_source *source, const struct tasks_wish *wish,
                            struct tasks_acted *ret_acted);

/* Pauses a lane, or an order in all lanes (an empty lane), as the row says; or resumes it.
 * `*ret_changed`: it was not so already. */
enum store_status tasks_pause(const struct tasks_source *source, const struct store_lane *lane,
                              bool resume, const struct store_actor *actor, bool *ret_changed);

/* Acts of operators on tasks, lanes and endpoints, by id after `after`, oldest first: at most
 * TASKS_PAGE_MOST, of all kinds, struct store_task_audit in `arena`. */
enum store_status tasks_acts(const struct tasks_source *source, int64_t after, struct arena *arena,
                             struct store_found *ret_found);

/* Why these acts were done, one for each, in the arena; empty: nobody said. */
enum store_status tasks_reasons(const struct tasks_source *source, const struct store_found *acts,
                                struct arena *arena, struct slice **ret_reasons);

#endif
