/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tasks: what the courier delivers, as rows (store/table.h): the tasks themselves, what each sends,
 * its attempts, lanes that have something to say, closed lists, counters. core/task.h decides what
 * becomes of a task; its row's version is the token without which nothing is written to it.
 * orders.h says what an order's sequence is.
 */
#ifndef PAWL_STORE_TASKS_H
#define PAWL_STORE_TASKS_H

#include "core/steps.h"
#include "store/table.h"

/* Kinds of tasks. The lane of a queued operation is the origin of its URL, that of a delivery the
 * name of its endpoint, that of an event that was received the name of its source. */
#define QUEUE_KIND "queue"
#define WEBHOOK_KIND "webhook"
#define INBOX_KIND "inbox"

struct store_task {
    struct table_row row; /* first */
    struct slice kind;    /* of (kind, lane, key) there is one; `edit` gives a new key */
    struct slice lane;
    struct slice key;
    struct slice ord; /* what must stay in sequence; empty: nothing */
    struct task task;
    int64_t lasts_us; /* from its first attempt to its deadline; 0: it has none */
    bool skips;       /* dead, it does not hold its order */
    int64_t event;    /* the row id of the event that it tells; 0: of none */
    int64_t envelope; /* the row id of how it tells it (store/tables/events.h); 0: as its endpoint
                         says */
    int64_t endpoint; /* the row id of whom; 0: of whoever had the lane's name then */
    int64_t why;      /* store_task_reason, where an older pawl would stop at its number; 0 */
    int64_t list_id;  /* 0: in none */
    int64_t step;     /* of that list, from 1; of its reverse: below 0 */

    /* What follows from the others (store_task_derive): of (kind, running) there is one. */
    struct slice running; /* sending: ord */
    struct slice open;    /* waiting, sending, or its order waits for it: ord */
};

/* What a task sends: its id is the task's. */
struct store_request {
    struct table_row row; /* first */
    struct slice method;
    struct slice url;
    struct slice fields; /* lines of a head */
    struct slice body;
    bool packed;       /* the body is one zstd frame */
    struct slice undo; /* the reverse of a step of a list (client/undo.h); empty: none */
    struct slice undo_key;
    struct slice response; /* of a step that has a reverse */
    struct slice answers;  /* what its caller knows of them (core/retry/retry.h); empty: nothing */
};

struct arena;

/* Its body as it was given, in the arena where it is packed. False: it is damaged, longer than
 * `max`, or does not fit into memory. */
bool store_request_unpack(const struct store_request *request, size_t max, struct arena *arena,
                          struct slice *ret_body);

/* An attempt that failed, or the last one. */
struct store_attempt {
    struct table_row row; /* first */
    int64_t task;         /* its row id */
    int n;                /* from 1: task.tries */
    int64_t at;
    int64_t wait_us; /* from when it was due to its first byte, or to its beginning if none left */
    int64_t took_us;
    int status; /* 0: no response */
    enum task_reason reason;
    struct slice answer; /* the first bytes of its body */
};

enum store_lane_state { STORE_LANE_PAUSED = 1, STORE_LANE_BROKEN };

/* A lane, or one of its orders, that has something to say. */
struct store_lane {
    struct table_row row; /* first */
    struct slice kind;
    struct slice lane;
    struct slice ord;
    enum store_lane_state state;
    int64_t until; /* CLOCK_NEVER: until somebody says so */
    struct slice why;
    int64_t since;
};

/* A closed list of steps, each of them a task. */
struct store_task_list {
    struct table_row row; /* first */
    struct slice name;
    enum steps_state state;
    int64_t created_at;
    int64_t gone_at;       /* its tasks go with it */
    struct slice deduping; /* lines: origins that answer a known key as they did first; `*`: all, as
                              whoever added the list says */
};

#define STORE_COUNTER_SLOTS 16 /* a process adds to one of them: the value is their sum */

struct store_counter {
    struct table_row row; /* first */
    struct slice name;
    struct slice labels;
    int slot;
    int64_t value;
};

extern const struct table task_table, request_table, attempt_table, lane_table, task_list_table,
    counter_table;

/* By which tasks are found: (kind, lane, key), (kind, lane, time), (kind, open order), (kind,
 * running order), (kind, end of the lease) of those that are sending, (kind, state), (list, step),
 * (event). Behind those columns by id. */
enum task_index {
    TASK_BY_KEY,
    TASK_BY_LANE,
    TASK_BY_ORDER,
    TASK_BY_RUNNING,
    TASK_BY_LEASE,
    TASK_BY_STATE,
    TASK_BY_STEP,
    TASK_BY_EVENT,
    TASK_INDEX_COUNT
};
extern const struct table_index task_indexes[TASK_INDEX_COUNT];

/* By (task, number). */
extern const struct table_index attempt_index;

/* Before a task is written: what follows from its state. Texts are those of `ord`. One that is in a
 * list is not swept: whoever ends the list says when. */
void store_task_derive(struct store_task *task);

/* Why it ended or waits. An older pawl that reads a reason of a number which it does not know takes
 * the store for damaged; so it is told another one. */
enum task_reason store_task_reason(const struct store_task *task);

#endif
