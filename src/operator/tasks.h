/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tasks: what the courier delivers, as operators see it and act on it, whatever its kind: lists,
 * JSON, retry, drop, pause.
 */
#ifndef PAWL_OPERATOR_TASKS_H
#define PAWL_OPERATOR_TASKS_H

#include "base/buf.h"
#include "store/tables/acts.h"

/* The words for the states of a task, divided by '|', in the order of enum task_state, and last
 * that of what waits behind one that is dead: until a person retries or drops that one. */
#define TASKS_STATE_NAMES "waiting|sending|done|dead|dropped|parked"
#define TASKS_STATE_PARKED TASK_STATE_COUNT

/* Tasks of which kind, in which store, and what the caller waits with. */
struct tasks_source {
    struct store *store;
    struct parker *parker;
    struct slice kind;
};

static inline struct rows tasks_rows(const struct tasks_source *source, struct arena *arena)
{
    return (struct rows){.store = source->store, .parker = source->parker, .arena = arena};
}

/* ---- kinds: tasks_kinds.c ---- */

/* A kind of tasks, and what people are told of it. */
struct tasks_kind {
    const char *name;
    const char *noun;  /* of one of them, */
    const char *nouns; /* and of several */
    const char *lane;  /* what its lane, order and key are called */
    const char *order;
    const char *key;
    const char *column;  /* its key, as the heading of a list has it, */
    const char *heading; /* and the columns at its end */
};
enum { TASKS_KIND_QUEUE, TASKS_KIND_WEBHOOK, TASKS_KIND_INBOX, TASKS_KIND_COUNT };
extern const struct tasks_kind tasks_kinds[TASKS_KIND_COUNT];

/* ---- lists: tasks_list.c ---- */

#define TASKS_PAGE_MOST ((size_t)256)

enum tasks_parked { TASKS_PARKED_TOO, TASKS_PARKED_NOT, TASKS_PARKED_ONLY };

/* Which tasks. */
struct tasks_wanted {
    bool has_state; /* only those in `state` */
    enum task_state state;
    struct slice ord;  /* of this order; empty: any */
    struct slice lane; /* of this lane; empty: any */
    struct slice to;   /* for this URL or one below it; empty: any */
    enum tasks_parked parked;
    int64_t since; /* ended, or if it has not, was added then or later; 0: whenever */
    int64_t until; /* the same, then or earlier; 0: whenever */
    int64_t after; /* ids above this one */
};

struct tasks_row {
    const struct store_task *stored;
    const struct store_task *head; /* the first of its order, for which it waits; NULL: none */
    struct slice method;           /* of its request; empty: it has none */
    struct slice url;
};

/* Only those in a state of TASKS_STATE_NAMES, by its place there. */
void tasks_want_state(struct tasks_wanted *wanted, size_t state);

/* As lists name its state; and since when it waits for a head that fails, 0: for none that does. */
struct slice tasks_state_name(const struct store_task *stored, const struct store_task *head);
int64_t tasks_held_since(const struct store_task *head);

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

/* How many of its kind are in that state; of those that are dead, which are not in a list that is
 * over. */
enum store_status tasks_count(const struct tasks_source *source, enum task_state state,
                              size_t *ret_n);

/* All of one task. */
struct tasks_whole {
    struct arena arena;
    const struct store_task *stored;     /* NULL: there is none */
    const struct store_task *head;       /* as in a row */
    const struct store_request *request; /* NULL: it has none */
    const struct store_task_list *list;  /* in which it is a step; NULL: in none */
    struct slice body;                   /* of the request, unpacked */
    struct table_row *const *attempts;   /* struct store_attempt, in order */
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
    TASKS_SETTLE_DONE, /* it was done */
    TASKS_SETTLE_NOT,  /* none of its attempts had its effect */
};

struct tasks_wish {
    int64_t id;
    enum tasks_act act;
    struct store_actor actor;  /* force: TASKS_REPLAY of what is TASKS_DISABLED or TASKS_LATE */
    int64_t after_us;          /* from now on until it is due, where it is sent again */
    int64_t version;           /* only if its row still has it; 0: whatever it became */
    struct slice response;     /* TASKS_SETTLE_DONE: the body that it had; empty: none is known */
    struct store_saver *saver; /* NULL: it is saved alone */
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
    TASKS_CHANGED,     /* by somebody else, since it was looked at */
    TASKS_END_COUNT,
};

struct tasks_acted {
    enum tasks_end end;
    enum task_state state; /* in which it was found */
};

/* Does it. A dead task that is retried waits again, and counts from the start; where a task ends
 * that was the first of its order, the next one is due. */
enum store_status tasks_act(const struct tasks_source *source, const struct tasks_wish *wish,
                            struct tasks_acted *ret_acted);

/* All of those that are wanted, each by an act of its own. */
struct tasks_many {
    struct tasks_wanted wanted;
    struct tasks_wish wish; /* all but `id` and `version` */
    size_t rate;  /* so many a second of each lane, where they are sent again; 0: at once */
    bool holding; /* only those that hold their order */
    bool dry_run; /* nothing is changed: each is taken to be acted on */
    void (*each)(void *argument, size_t n); /* told how many there were so far */
    void *argument;
};

/* Acts on them, and counts what came of each. Whatever the status, what it counts was done. */
enum store_status tasks_act_on_many(const struct tasks_source *source,
                                    const struct tasks_many *many, size_t ret_n[TASKS_END_COUNT]);

/* Pauses a lane, or an order in all lanes (an empty lane), as the row says; or resumes it.
 * `*ret_changed`: it was not so already. */
enum store_status tasks_pause(const struct tasks_source *source, const struct store_lane *lane,
                              bool resume, const struct store_actor *actor, bool *ret_changed);

#endif
