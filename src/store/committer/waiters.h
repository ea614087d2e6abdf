/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Begins that wait on somebody else's live lease: by key, in order of arrival, and by the time at
 * which each wants to decide again. Not locked: the committer's mutex guards it.
 */
#ifndef PAWL_STORE_WAITERS_H
#define PAWL_STORE_WAITERS_H

#include "store/backend.h"

#define WAITERS_BUCKETS 4096

struct waiters {
    struct store_op *buckets[WAITERS_BUCKETS]; /* the oldest of each key, linked by other_key */
    struct store_op **heap;                    /* earliest wake_at first */
    size_t n;
    size_t room; /* of the heap; max may be below it, and n for a while above max */
    size_t max;
    size_t max_per_key;
};

/* Room for `max` waiters. False: no memory. */
bool waiters_init(struct waiters *waiters, size_t max, size_t max_per_key);
void waiters_fini(struct waiters *waiters);

/* Room for as many, which never shrinks. False: no memory. */
bool waiters_make_room(struct waiters *waiters, size_t max);

/* Other limits from now on, for which there is room; begins that wait already stay. */
void waiters_limit(struct waiters *waiters, size_t max, size_t max_per_key);

/* Adds `op` with op->wake_at. False: too many in all, or for its key; one that waited before
 * (op->waits) and was taken out comes back, whatever limits were set meanwhile. */
bool waiters_add(struct waiters *waiters, struct store_op *op);

/* Takes out one that waits. */
void waiters_remove(struct waiters *waiters, struct store_op *op);

/* What they wait for, once a key: as many as fit into `most`. */
size_t waiters_watch(const struct waiters *waiters, struct backend_watch *ret_watches, size_t most);

/* The oldest waiter of a key, which stays in, and the one after another of its key; NULL: none. */
const struct store_op *waiters_first(const struct waiters *waiters, const struct digest *key);
const struct store_op *waiters_after(const struct store_op *op);

/* Takes out the oldest waiter of a key; NULL: none left. */
struct store_op *waiters_take_key(struct waiters *waiters, const struct digest *key);

/* One whose time has come, still in; NULL: none. */
struct store_op *waiters_due(const struct waiters *waiters, int64_t now_us);

/* Takes out one, of its key the oldest; NULL: none. */
struct store_op *waiters_take_any(struct waiters *waiters);

/* When the next one's time comes; CLOCK_NEVER without waiters. */
int64_t waiters_next(const struct waiters *waiters);

#endif
