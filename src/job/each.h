/* SPDX-License-Identifier: Apache-2.0 */
/*
 * each: jobs for the items of an input, many at a time, each once per key. What is done for an item
 * is its kind's affair: a command, a request.
 *
 *      input --feed--> items --name--> looked up, 256 at a time, without a claim
 *                        | malformed      | done: skipped        | done as something else: changed
 *                        v                v                      v
 *                     counted          counted                counted
 *                                         | else
 *                                         v
 *            queue --workers--> groups --slots--> runner --> run, failed, in doubt: counted
 *                                                    | in progress elsewhere
 *                                                    v
 *                    looked at again at the end, or where no more can be held, until it is final
 *                    or lapsed; those of its group wait for it
 *
 * Nothing is claimed that is not about to start, and a slot is free for the next item as soon as
 * the end of its last one is on its way to the store: both are in one commit (contract section 7,
 * Jobs). So what is in doubt after a kill is at most one item a slot.
 *
 * All runs in fibers of one loop. Bounds: EACH_QUEUE_MOST items and EACH_BYTES_MOST bytes wait
 * beyond those that are run; then the input waits.
 */
#ifndef PAWL_JOB_EACH_H
#define PAWL_JOB_EACH_H

#include "job/feed.h"
#include "job/groups.h"
#include "job/items.h"
#include "job/slots.h"

#define EACH_LOOKED_UP ((size_t)256)
#define EACH_QUEUE_MOST ((size_t)16 * 1024)
#define EACH_BYTES_MOST ((size_t)64 * 1024 * 1024)
#define EACH_RETRYING_MOST ((size_t)64) /* items that wait for their next attempt, in no slot */

/* An item as it is run. One block of memory. */
struct each_item {
    struct groups_item grouped; /* first: its place in lists, and its group */
    uint64_t number;
    struct slice text; /* as it was read */
    struct slice key;
    struct digest payload_hash; /* what is compared */
    struct digest target_hash;
    size_t n_texts;
    const char *const *texts; /* what its kind made of it: ends with NULL */
    size_t bytes;             /* of the block */
    bool is_elsewhere;        /* it was in progress there, and is looked at again */
};

/* A copy of everything, in one block (mem_free). NULL: no memory. */
struct each_item *each_item_new(const struct each_item *from);

enum each_result {
    EACH_RUN,
    EACH_SKIPPED, /* it was done before */
    EACH_FAILED,
    EACH_DOUBT,   /* it may have been done, and is not run before that is settled */
    EACH_CHANGED, /* it was done, as something else */
    EACH_BAD,     /* it is malformed, or lacks what the templates name */
    EACH_LEFT,    /* not run: it was stopped, the store is down, in progress elsewhere */
    EACH_RESULTS,
};

/* How an item ended. */
struct each_end {
    const struct each_item *item; /* NULL: it is malformed */
    enum each_result result;
    void *own;                        /* of the worker that ran it; NULL: none did */
    enum runner_result runner_result; /* with one */
    int64_t started_at;               /* wall time */
    int64_t took_us;
    struct slice problem; /* EACH_BAD: a sentence */
};

/* What is done for an item. */
struct each_kind {
    /* Once the header of a CSV input was read: whether it has the columns that are named. False:
     * `problem` says what it lacks. */
    bool (*check)(void *argument, const struct items *items, struct buf *problem);
    /* Makes an item of what was read; `scratch` is emptied afterwards. NULL: `problem` says why
     * not, or is empty without memory. */
    struct each_item *(*name)(void *argument, const struct item *read, struct arena *scratch,
                              struct buf *problem);
    /* What a worker needs. NULL: no memory. */
    void *(*open)(void *argument);
    void (*close)(void *own);
    /* The runner of an item, ready to run; its parker and gate are filled in afterwards. NULL: no
     * memory. */
    struct runner *(*prepare)(void *own, const struct each_item *item);
    /* After it has ended, and all that was made for it. */
    void (*report)(void *argument, const struct each_end *end);
    /* Whether it takes more reports now; no: the parker is woken once it does. */
    bool (*ask_room)(void *argument, struct parker *parker);
    /* Nothing is left but `n` items that are in progress elsewhere, or were when their pawl died.
     */
    void (*waits)(void *argument, size_t n);
    /* Sends a signal to what is run. */
    void (*signal)(void *own, int number);
};

struct each_worker;
struct loop;

struct each {
    /* The caller's, borrowed. */
    const struct each_kind *kind;
    void *argument; /* of the kind */
    struct store *store;
    struct engine *engine;
    struct slice rule;
    struct feed *feed;
    enum items_form form;
    size_t jobs;
    int64_t apart_us; /* between two beginnings; 0: no bound */
    bool fails_fast;
    bool is_dry;                  /* nothing is run: what would be is reported as EACH_LEFT */
    enum record_unknown unknown;  /* the policy of its runners */
    void (*done)(void *argument); /* all has ended */

    /* What came of it. */
    uint64_t counts[EACH_RESULTS];
    uint64_t unproved;   /* items that ran although their records may be missing */
    uint64_t read;       /* items, */
    uint64_t bytes_read; /*   and of the input */
    bool all_read;       /* the input has ended, */
    bool input_ended;    /*   or is read no more, and all that was read is queued or has ended */
    bool store_is_down;  /* it was stopped by that, */
    bool store_is_dead;  /*   or by that */
    bool lingers;        /* the store may still write from its memory: it is never freed */
    char *problem;       /* why the input cannot be read on (mem_free); NULL: it can */
    /* With store_is_down: store_closed_by. */
    enum store_status closed;

    /* Its own. */
    struct slots slots;
    struct groups groups;
    struct items items;
    struct retry_budget budget;
    struct each_list {
        struct groups_item *first, *last;
    } ready, queue, later; /* whose turn it is in their groups; to be run; in progress elsewhere */
    size_t held;           /* items that were named, and have not ended; */
    size_t held_bytes;     /*   what they take */
    struct parker *feeder; /* of its fiber; NULL: it has not begun, or has ended */
    bool feeder_waits;     /* for room */
    struct each_worker *workers, *idle;
    size_t n_workers, busy, ended;
    uint64_t skipped_counted; /* in the store, */
    int64_t counted_at;       /*   then: boot time */
};

/* Fibers that it takes of the loop. */
size_t each_fibers(size_t jobs);

/* Starts it on a loop. False: no memory. */
bool each_start(struct each *each, struct loop *loop);

/* Begins nothing more; what runs goes on to its end. */
void each_stop(struct each *each);
bool each_is_stopped(const struct each *each);

/* Sends a signal to all that runs. */
void each_signal(struct each *each, int number);

void each_fini(struct each *each);

#endif
