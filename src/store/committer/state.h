/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state: what a committer knows between two batches, and what of it committer.c and batch.c share:
 * chores.c does what is due without an operation; watch.c counts, and looks after space and
 * retries; back.c knows what follows where the store went back. shared.h has what the committers
 * of a store have in common.
 */
#ifndef PAWL_STORE_COMMITTER_STATE_H
#define PAWL_STORE_COMMITTER_STATE_H

#include "base/thread.h"
#include "store/committer/apply.h"
#include "store/committer/collect.h"
#include "store/committer/machine.h"
#include "store/committer/op_list.h"
#include "store/committer/shared.h"
#include "store/committer/waiters.h"
#include "store/counts.h"

#define COMMITTER_BATCH_MAX 256                   /* operations in one transaction */
#define BEATS_OF_LEASE 3                          /* in the time of a lease */
#define COMMITTER_SWEEP_MAX 64                    /* expired rows in one transaction, and one */
                                                  /* more for each of its operations */
#define COMMITTER_RETRY_US (INT64_C(100) * 1000)  /* after no space, busy, gone */
#define COMMITTER_SWEEP_US (INT64_C(1000) * 1000) /* between two sweeps */
#define COMMITTER_LOCKED_US (INT64_C(10) * 1000)  /* between two tries of a begin that is locked */
#define COMMITTER_LOOK_US (INT64_C(50) * 1000)    /* for other processes, while any waits */
#define COMMITTER_WAKE_US INT64_C(10)             /* and more for each that such a look woke */
#define COMMITTER_GAUGE_US (INT64_C(5000) * 1000) /* between two readings of the gauges */
#define COMMITTER_FULL_US (INT64_C(2000) * 1000)  /* after no space it counts as full */

/* What comes due by time. */
enum committer_due {
    DUE_BEAT, /* CLOCK_NEVER: no lease is held */
    DUE_SWEEP,
    DUE_LOOK, /* for other processes, while any waits */
    DUE_GAUGE,
    DUE_RETRY, /* held, away: the next batch */
    DUE_WRITE, /* full: the next batch that writes */
    DUE_TELL,  /* while backend_back is untold: the next batch that does nothing else */
    DUE_JOIN,  /* it gets no keys until a batch committed: the next one; CLOCK_NEVER: it does */
    COMMITTER_DUES,
};

struct committer {
    struct store *store; /* whose it is */
    size_t at;           /* among its committers */
    struct backend *backend;
    struct thread thread;
    bool has_thread;
    struct rowset rows; /* of the batch under way */

    struct mutex mutex;
    struct cond cond;
    struct op_list queue;               /* mutex */
    struct waiters waiters;             /* mutex */
    struct op_list locked;              /* mutex: what is on what somebody's transaction holds */
    struct backend_counts counts;       /* mutex: after the last batch */
    struct backend_gauges gauges;       /* mutex: as last read */
    struct buf decisions;               /* mutex: as last read */
    struct buf odd_rows;                /* mutex: as last read */
    struct buf held_rows;               /* mutex: a module's */
    struct weakness weakness;           /* mutex: as last read */
    struct backend_back back;           /* mutex: as last noticed */
    struct store_work work;             /* mutex */
    struct backend_clock clock;         /* mutex: after the last batch */
    struct terms terms;                 /* mutex: as the last batch found or set them */
    char problem[BACKEND_PROBLEM_SIZE]; /* mutex: what the last batch that failed met */
    bool stopping;                      /* mutex */
    int64_t stop_by;                    /* mutex: boot time; then what is queued is given up */
    size_t wakes_at;                    /* mutex: the thread waits on cond, and is woken when so
                                           many operations are queued; 0: it does not wait */
    struct collect collect;             /* mutex */
    struct handed handed;               /* mutex */

    struct backend_read
        read; /* of the last batch, if that committed; `boot` 0: none, or it failed */
    int64_t due[COMMITTER_DUES]; /* boot times */
    int64_t lease_least;         /* shortest lease that it has taken */
    bool backlog;                /* the last sweep found a full slice */
    bool registered;             /* of a serve: the store names it as the last one */

    atomic_llong busy_since; /* boot time at which the running or failing batch began; 0: idle */
    atomic_llong forgets;
    atomic_llong memory;  /* backend_memory: what caches compare */
    atomic_llong highest; /* token that the last batch may have drawn */
    atomic_llong seen_at; /* boot time of the last batch that committed: `forgets` was read then */
    atomic_ullong space_free; /* store_counts */
    atomic_ullong reserve;    /* the disk reserve as it was last reckoned; 0: not known */
    atomic_bool low_on_space; /* under it */
    atomic_llong full_until;  /* boot time; until then a batch without space makes it full */
    atomic_int state;         /* enum committer_state */
    atomic_bool takes_keys;   /* those whose hash says so; of the first one always */
    atomic_bool expects_ends; /* a begin waits, or may be about to */
    atomic_size_t in_flight;  /* operations that may come together, after the last batch, */
    atomic_llong measured_at; /* and its boot time */
};

static inline enum committer_state committer_state(const struct committer *c)
{
    return (enum committer_state)atomic_load(&c->state);
}

/* While there is no space a batch that writes fails, with all that only read in it. */
static inline bool committer_writes_wait(const struct committer *c, int64_t boot)
{
    return committer_state(c) == COMMITTER_FULL && boot < c->due[DUE_WRITE];
}

/* Whether its thread is to be signalled for what is there now: only one signal a wait. Under the
 * mutex. */
static inline bool committer_takes_signal(struct committer *c, bool any)
{
    bool waits = any && c->wakes_at > 0;
    c->wakes_at = waits ? 0 : c->wakes_at;
    return waits;
}

/* ---- chores.c: what is due beside operations ---- */

/* What a batch of so many operations is to do; what is known of leases once it was done, before the
 * batch takes any; and what follows once it is saved. */
struct backend_chores committer_chores(const struct committer *c, int64_t boot, size_t operations);
void committer_note_beat(struct committer *c, const struct backend_chores *done);
void committer_chores_done(struct committer *c, int64_t boot, const struct backend_chores *done);

/* ---- back.c: a store that went back ---- */

/* What a begin ends as that would write, under those terms; STORE_DONE: none does. */
enum store_status committer_closed(const struct committer *c, bool may_write,
                                   const struct terms *terms);
/* How many records were forgotten, for counts and caches. */
void committer_note_forgets(struct committer *c, int64_t forgets);
void committer_note_epoch(struct committer *c, int64_t epoch);
/* What caches compare, of all committers but that one; NULL: of all. Read before a load it moves no
 * later than what that load finds. */
int64_t committer_memory(const struct store *store, const struct committer *but);
/* What a batch noticed, whatever became of it: what this process remembers counts no more, and
 * nothing is begun before the store says so, unless that is accepted. */
void committer_note_back(struct committer *c);
/* The terms of a store that says so. */
struct terms committer_told(const struct committer *c, const struct backend_read *read);
/* Whether a process with this config may go on with the store as it is; else says why not. */
bool committer_may_go_on(const struct committer *c, char **ret_problem);

/* ---- watch.c: counts, space and retries ---- */

struct batch;

/* Counts a batch that committed. Under the mutex. */
void committer_note_batch(struct committer *c, const struct batch *batch);
/* And what failed: one that will be tried again, or some of its operations. Under the mutex. */
void committer_note_retry(struct committer *c, enum backend_status status);

/* What the backend last saw of free space: low_on_space, space_free, reserve. */
void committer_note_space(struct committer *c);

#endif
