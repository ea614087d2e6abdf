/* SPDX-License-Identifier: Apache-2.0 */
/* What a store holds, and what this process did with it: counted in committer/watch.c. */
#ifndef PAWL_STORE_COUNTS_H
#define PAWL_STORE_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Upper bounds of the buckets below, each up to and with its bound; one more takes the rest. */
#define STORE_COMMIT_BUCKETS 10
#define STORE_BATCH_BUCKETS 9
extern const int64_t store_commit_bounds_us[STORE_COMMIT_BUCKETS];
extern const int64_t store_batch_bounds[STORE_BATCH_BUCKETS];

/* What this process has done with the store since it opened it. */
struct store_work {
    uint64_t batches;    /* committed ones that wrote */
    uint64_t operations; /* in them */
    uint64_t reads;      /* operations in batches that wrote nothing */
    uint64_t commit_buckets[STORE_COMMIT_BUCKETS + 1]; /* of those that wrote, not cumulated: from
                                                          the wish to begin until the commit
                                                          returned */
    uint64_t commit_us;                                /* their sum */
    uint64_t batch_buckets[STORE_BATCH_BUCKETS + 1];   /* the same batches by their operations */
    uint64_t checkpoints;                              /* of the WAL */
    uint64_t retries_full;                             /* batches rolled back for want of space */
    uint64_t retries_busy; /* the same because another process held it, or it was deleted */
};

#define STORE_ODD_MOST 1000         /* odd rows of a table that are looked for */
#define STORE_RECORDS "pawl_record" /* as odd rows of records are called, whatever their tables */
#define STORE_EXPIRED_MOST 10000    /* rows that one count of `expired` may read */

/* Of the store and of this process's work on it, from any thread; never by scanning. The counts by
 * status are kept with each batch. The gauges are looked up every five seconds: `stale` by owner
 * (of a process that does not beat any more all its leases, once the longest has lapsed), the
 * others by an index, `expired` up to STORE_EXPIRED_MOST. */
struct store_counts {
    int64_t pending;  /* somebody runs it, or ran it until the lease lapsed */
    int64_t released; /* pending, and nobody runs it */
    int64_t complete;
    int64_t failed;
    int64_t unknown;
    int64_t forgets;        /* since the store was made */
    int64_t stale;          /* pending, and the lease has lapsed */
    int64_t unknown_oldest; /* store time: since when the oldest unknown one is; 0: there is none */
    int64_t expired;        /* past their time and still there: records, kept bodies */
    int64_t expired_oldest; /* store time at which the first of them was due; 0: there is none */
    size_t queued;
    size_t waiting;
    int64_t last_ok_at;    /* boot time of the last batch that committed; an idle store has one a
                              second, so that it shows that it works */
    uint64_t space_free;   /* bytes, as read each second; UINT64_MAX: not known */
    uint64_t disk_reserve; /* bytes below which no new operation begins; 0: not known */
    bool clock_refused;    /* the wall clock is past the year 2200, and is not believed */
    uint64_t clock_jumps;  /* how often store time went ahead by more than a week at once, */
    int64_t clock_jump_us; /* and by how much the last time */
    uint64_t went_back;    /* how often this process noticed that it lacks what it acknowledged; */
    int64_t back_since;    /* the last time: what was acknowledged from then on may be missing */
    int64_t back_above;    /* the highest token that this process had drawn by then */
    struct store_work work;
};
#endif
