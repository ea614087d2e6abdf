/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queue: operations that wait on disk until they can be sent. Each is a task of the courier's (kind
 * `queue`, its lane the origin of its URL) and its request; its success is written to the record
 * that `pawl send` keeps of the same operation, too (client/operation.h).
 *
 * queue_line.c reads operations as lines of JSON, queue_again.c finds lists that are added again.
 */
#ifndef PAWL_CLIENT_QUEUE_H
#define PAWL_CLIENT_QUEUE_H

#include "base/json/json.h"
#include "base/text/url.h"
#include "core/request/key_header.h"
#include "store/same.h"
#include "store/store.h"
#include "store/tables/acts.h"

/* An operation as it is given. Slices are borrowed. */
struct queue_operation {
    struct slice key;    /* empty: one is minted, */
    bool dated;          /*   as a UUIDv7 */
    struct slice method; /* empty: POST with a body, else GET */
    struct slice url;
    struct slice fields; /* header lines, each with its CR LF; of `@FILE` that file's, whenever it
                            is sent */
    struct slice body;
    bool has_body;
    struct slice group;   /* what stays in order; empty: nothing does */
    struct slice answers; /* what the caller knows of them (retry_choices_read) */
    bool skips;           /* its final failure does not hold its group */
    int attempts;         /* at most; 0: any number */
    int64_t remember_us;  /* its success; 0: TASK_KEEP_DONE_US */
    int64_t lasts_us;     /* from now to its deadline; 0: as its profile says; CLOCK_NEVER: it has
                             none */
    struct slice undo;    /* of a step of a list: its reverse (undo.h); empty: none */
};

/* The orders of a list (queue_steps.h), before its name: of its steps, and of their reverses. */
#define QUEUE_STEPS_ORDER "list:"
#define QUEUE_UNDO_ORDER "undo:"
/* Of all services of a list (store_task_list.deduping). */
#define QUEUE_LIST_DEDUPES "*"

/* ---- queue.c ---- */

#define QUEUE_BATCH_MOST ((size_t)64) /* operations of one commit */

enum queue_end {
    QUEUE_ADDED,
    QUEUE_KNOWN,     /* the same operation is there under its key */
    QUEUE_OTHER,     /* another one is */
    QUEUE_SAME,      /* one that sends the same is, under another key: nothing was added */
    QUEUE_FULL,      /* nothing was added: with it there would be more than `most` */
    QUEUE_NOT_FOUND, /* edit */
    QUEUE_ENDED,     /* edit: it is done or dropped */
    QUEUE_SENDING,   /* edit: it is being sent */
    QUEUE_LINKED,    /* edit: it is a step of a list */
    QUEUE_IN_DOUBT,  /* edit: an attempt may have taken effect; not without force */
};

struct queue_added {
    enum queue_end end;
    int64_t id;
    enum task_state state; /* in which it was found */
    char key[KEY_TEXT_MAX + 1];
};

/* Whether it can be sent some day. False: `problem` gets what is wrong. */
bool queue_check(const struct queue_operation *operation, struct buf *problem);

struct queue_adding {
    const struct queue_operation *operations; /* checked; at most QUEUE_BATCH_MOST */
    size_t n;
    struct queue_added *added; /* as many: what became of each */
    size_t most;               /* operations that may wait or be sent, of all; 0: any number. Adds
                                  with a bound count one after the other; those without do not */
    size_t n_added;            /* of so many of them, whatever the result: they are on disk */
    int64_t dedupe_us; /* the window of queue_same_find, then `n` is 1; 0: nothing is compared */
};

/* Adds operations, in one commit where nobody interferes. */
enum store_status queue_add(struct store *store, struct queue_adding *adding,
                            struct parker *parker);

struct queue_list {
    bool dedupes; /* its services answer a key that they know as they did first */
    int64_t id;   /* result */
};

/* Adds them as a closed list (queue_steps.h): at most STEPS_MOST, each without a group. All of them
 * are on disk, or none is (the first one's end is QUEUE_FULL); STORE_CONFLICT: one of their keys is
 * there. */
enum store_status queue_add_linked(struct store *store, struct queue_adding *adding,
                                   struct parker *parker, struct queue_list *list);

/* What of an operation its caller chose for single statuses, and its attempts, in lines. Lives in
 * `arena`, or is the operation's. */
struct slice queue_answers(const struct queue_operation *operation, struct arena *arena);

/* The lane of what goes to a URL, and the method with which it is sent. */
struct slice queue_lane(const struct url *url, struct arena *arena);
struct slice queue_method(const struct queue_operation *operation);

struct queue_edit {
    int64_t id;
    const struct queue_operation *operation; /* its body and fields */
    struct store_actor actor;                /* force: even if an attempt may have taken effect */
};

/* Gives an operation another body, with the fields it brings, and a new key. Without a body only
 * its fields change: it stays the operation that it was, under its key, and is due now. */
enum store_status queue_edit(struct store *store, const struct queue_edit *edit,
                             struct parker *parker, struct queue_added *ret_added);

/* ---- queue_same.c ---- */

struct queue_same {
    int64_t window_us;
    struct arena *arena;   /* for what is read */
    struct store_same row; /* result; its hash is in the arena */
};

/* Looks for an operation under another key that sends the same (method, URL, media type and body,
 * as `pawl send` compares them) and was added with a window, too: one that is not over counts, and
 * whatever became of one that was not dropped as long as its window lasts. It is reported as
 * QUEUE_SAME. Else `same->row` is to be brought with the one that is added, linked to it: whoever
 * brings another one of this hash meanwhile conflicts. */
enum store_status queue_same_find(struct store *store, const struct queue_operation *operation,
                                  struct parker *parker, struct queue_same *same,
                                  struct queue_added *ret_added);

/* ---- queue_again.c ---- */

/* Looks for a list that was added with the same steps under the same keys, after one of them was
 * found to be there: `added` says what became of each. `list->id` 0: there is none. Of undos that
 * were filled in since, their text is not compared. */
enum store_status queue_find_list(struct store *store, const struct queue_adding *adding,
                                  struct parker *parker, struct queue_list *list);

/* ---- queue_line.c ---- */

/*
 * Reads an operation from a line of JSON:
 *
 *      {"url": "https://...", "method": "POST", "headers": {"Name": "value"}, "header_files": [..],
 *       "json": any value | "data": "text", "key": "...", "group": "...",
 *       "on_failure": "park|skip", "deadline": "1h" | "none", "attempts": 10,
 *       "remember": "24h", "undo": {..}}
 *
 * "undo" is kept as it is given (undo.h), for a step of a list.
 *
 * What it leaves out is as in `*operation`, whose fields stay and get its own behind them. All
 * lives in `arena` or `line`. False: `*ret_problem` says what is wrong.
 */
bool queue_line_read(struct slice line, struct arena *arena, struct queue_operation *operation,
                     struct slice *ret_problem);

#endif
