/* SPDX-License-Identifier: Apache-2.0 */
/*
 * courier: delivers what must arrive later (contract section 9). It knows tasks, lanes and orders,
 * and nothing of what is delivered: that is a kind's, a struct of functions.
 *
 *   courier_run, a fiber: lanes in turn                 a fiber for each delivery
 *        |                                                   |
 *        |  what is due, in a lane that has room             |  kind->claim: the attempt is counted
 *        |-------------------------------------------------->|  kind->attempt: sends it, once
 *        |  wakes up: due, woken, or once a second           |  kind->end: stores what came of it
 *        '<--------------------------------------------------'
 *
 * The stored row is the queue: nothing is kept in memory that a crash could lose. A task is the
 * courier's whose claim was committed, by its row's version; whoever is late gets a conflict. All
 * calls but courier_wake, courier_drain and courier_write_series are for the loop's thread.
 */
#ifndef PAWL_COURIER_COURIER_H
#define PAWL_COURIER_COURIER_H

#include "base/buf.h"
#include "courier/lanes.h"
#include "store/rows.h"
#include "store/tables/tasks.h"

#define COURIER_ANSWER_MAX ((size_t)4096) /* bytes of a response that are kept */

/* One attempt at one task. */
struct courier_delivery {
    struct store_task stored; /* as it was claimed */
    struct arena arena;       /* its texts, and the kind's while the attempt lasts */
    struct parker *parker;    /* of the fiber */
    int64_t send_by;          /* boot time: no first byte from then on */
    int64_t until;            /* boot time: the attempt must have ended */
    int attempts_most;        /* by the kind's claim; 0: as many as its schedule has */
    int64_t keep_done_us;     /* likewise; 0: as the kind's terms say */
    void *own;                /* the kind's (own_size); NULL before its claim */
};

/* What a claim came to. */
enum courier_claim {
    COURIER_CLAIMED, /* it is saved */
    COURIER_TAKEN,   /* somebody else was first */
    COURIER_DOWN,    /* the store does not say: nothing is saved */
    COURIER_BUSY,    /* the operation runs elsewhere: put off for verdict.wait_us */
    COURIER_SETTLED, /* there is nothing to send: it becomes verdict.state for verdict.reason */
};

struct courier_verdict {
    enum courier_claim claim;
    int64_t wait_us;
    enum task_state state;
    enum task_reason reason;
    bool lets_pass; /* dead, it does not hold its order */
};

/* What an attempt came to. */
struct courier_result {
    struct task_result task;
    struct slice answer; /* the beginning of the response's body; borrowed until the end */
    int64_t sent_at;     /* boot time: its first byte left; 0: none did */
    struct slice key;    /* the task's from now on; borrowed until the end; empty: as it was */
};

/* What a kind may put with a task's end: changes that follow from it, */
#define COURIER_FOLLOW_MAX ((size_t)104)
/* and those of its own. */
#define COURIER_OWN_MAX ((size_t)4)

struct courier_limits {
    int in_flight;      /* attempts at a time */
    int64_t timeout_us; /* of an attempt; the lease is this and TASK_LEASE_EXTRA_US */
    int64_t keep_done_us;
    const struct retry_schedule *schedule; /* of attempts; NULL: that of the task's profile */
};

/* What is delivered, and how. Each function runs in the delivery's fiber, and may wait, but for
 * `serves`, `limits_of`, `saved` and `label`. */
struct courier_kind {
    struct slice name;            /* pawl_task.kind */
    struct courier_limits limits; /* of every lane */
    int64_t keep_dead_us;
    size_t own_size; /* of a delivery's own, which is all zero at its claim; 0: it has none */

    /* Whether this process delivers to a lane. What it does not serve is left as it is, for others.
     * NULL: it serves them all. */
    bool (*serves)(const struct courier_kind *kind, struct slice lane);
    /* Those of one lane. NULL: as of every other. */
    struct courier_limits (*limits_of)(const struct courier_kind *kind, struct slice lane);

    /* Saves the claimed task, which was put, with what else belongs to it. What it finds by `rows`
     * lies in the delivery's arena. NULL: alone, and there is no `own`. */
    struct courier_verdict (*claim)(const struct courier_kind *kind,
                                    struct courier_delivery *delivery, struct rows *rows);
    /* Sends it, once. What cannot be sent is RETRY_FINAL with its reason. */
    struct courier_result (*attempt)(const struct courier_kind *kind,
                                     struct courier_delivery *delivery);
    /* Saves what was put, with what else belongs to the end. Nothing was: the task is another
     * one's by now, and only what is the kind's own is to be saved. May be called again after a
     * conflict. NULL: that alone. */
    enum store_status (*end)(const struct courier_kind *kind, struct courier_delivery *delivery,
                             struct rows *rows);
    /* Puts what else changes where a task ends, waits again, or is lost (`delivery` NULL): it is as
     * it will be. What it puts lies in the arena of `rows`, or outlives it. A conflict of it is one
     * of the end. NULL: nothing does. */
    enum store_status (*follow)(const struct courier_kind *kind, struct courier_delivery *delivery,
                                const struct store_task *ended, struct rows *rows);
    /* The task has ended or waits again, or was lost, and that is saved. NULL: nobody counts. */
    void (*saved)(const struct courier_kind *kind, const struct store_task *task);
    /* Gives back what is in `own`, at the very end. NULL: nothing is. */
    void (*fini)(const struct courier_kind *kind, struct courier_delivery *delivery);
    /* What metrics call a lane: one of a closed set, valid until the next call.
     * NULL: SERIES_OTHER of series.h. */
    struct slice (*label)(const struct courier_kind *kind, struct slice lane);
    void *argument;
};

struct courier_config {
    struct store *store;
    const struct courier_kind *const *kinds;
    size_t n_kinds;
    int overall;   /* attempts at a time; 0: LANES_OVERALL */
    int64_t owner; /* names this process: a number that no other one has */
};

struct courier;

/* NULL: no memory. The config's store and kinds must outlive it. */
struct courier *courier_new(const struct courier_config *config);
/* Nothing is being delivered any more. Accepts NULL. */
void courier_free(struct courier *courier);

enum courier_mode {
    COURIER_UNTIL_EMPTY, /* until nothing waits for its time */
    COURIER_ONCE,        /* until nothing is due */
    COURIER_FOLLOW,      /* until courier_drain */
};

enum courier_end {
    COURIER_FINISHED, /* as the mode says */
    COURIER_DRAINED,
    COURIER_STORE_DEAD, /* the store has stopped for good */
};

/* Delivers, in a fiber; what it began has ended when it returns. While the store is down it waits.
 */
enum courier_end courier_run(struct courier *courier, enum courier_mode mode);

/* From any thread, while it runs: there is something new to look at. */
void courier_wake(struct courier *courier);

/* From any thread: nothing more is begun. */
void courier_drain(struct courier *courier);

/* What it did since it was made. */
struct courier_counts {
    uint64_t attempts;
    uint64_t retries;
    uint64_t done;
    uint64_t dead;
    uint64_t lost; /* attempts whose owner had died */
    struct lanes_counts lanes;
};
struct courier_counts courier_count(const struct courier *courier);

/* Appends its series (series.h) to what Prometheus reads. From any thread; never blocks. */
void courier_write_series(struct courier *courier, struct buf *page);

#endif
