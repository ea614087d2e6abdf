/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sessions: the committers of a store, each with a session, a queue and waiters of its own. Most
 * backends have one. Where a commit costs a round trip several overlap: operations on records go by
 * their keys, everything else (lists, commands, rows of modules) and all chores but beats to the
 * first one.
 *
 *      submit -> the one of its key, if that takes keys; else the first -> queue -> batch -> ended
 *
 * To the store they are what several processes are: each batch compares what it read, and each has
 * a mark of its own. So any committer may have any operation, but one that may have been committed
 * stays where it is (docs/model/README.md). What they know of each other is only this:
 *
 *      ended    whoever ends a record hands its key over to those in which a begin waits, or may be
 *               about to: they decide again (docs/model/wakes.pml)
 *      memory   caches compare what all of them say together
 *
 * A further one starts once `active` wants it, and takes keys once it has a session; while it has
 * none its operations are the first one's. `active` follows what is in flight where the config says
 * so: a batch costs more than a second session brings, as long as it is small.
 */
#ifndef PAWL_STORE_SESSIONS_H
#define PAWL_STORE_SESSIONS_H

#include "store/committer/state.h"

#define SESSIONS_OPS 128   /* in flight, for each session but the last */
#define SESSIONS_SMOOTH 32 /* batches of the first one: what is in flight for less counts less */
#define SESSIONS_FRESH_US (INT64_C(250) * 1000) /* what was measured before counts no more */

/* Starts the thread of a committer, unless its caller steps it. False: no resources. */
bool sessions_start(struct committer *c);
/* committer_step; behind a batch of the first one: how many get keys from now on. */
bool sessions_step(struct committer *c);
/* Ends all of them, and frees them. */
void sessions_end(struct store *store);

#endif
