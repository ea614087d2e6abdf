/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The committer: turns queued operations into batches, one transaction and one sync each, and
 * wakes their owners after the commit returned.
 *
 * A passive object: committer_step does one batch. The store's thread is a loop round it; the
 * simulation calls it by hand. The mutex guards queue, waiters and what is marked so; everything
 * else belongs to whoever steps.
 *
 * One batch is drawn in batch.h. What goes wrong with it:
 *   full        outcomes stay queued and are tried again; meanwhile begins may read, not write
 *   held, away  everything stays queued; after `timeout_us` begins are refused at submit
 *   dead        everything ends as STORE_DEAD (machine.h has the states)
 *
 * submit.c is its door for other threads; watch.c counts.
 */
#ifndef PAWL_STORE_COMMITTER_H
#define PAWL_STORE_COMMITTER_H

#include "store/committer/state.h"

/* One more of the store. Takes over `backend`. NULL: no memory (the backend is the caller's still).
 */
struct committer *committer_new(struct store *store, struct backend *backend);
/* Everything queued must have ended. Closes the backend. */
void committer_free(struct committer *c);

/* Reads the store, and registers this process in its role. BACKEND_OK or what failed. After
 * BACKEND_FULL it may go on: it replays, and begins nothing until a later batch registered it. */
enum backend_status committer_register(struct committer *c);

/* Does one batch if anything is due. False: nothing was. */
bool committer_step(struct committer *c);

/* Before it: waits a moment for operations that come together (collect.h). */
void committer_collect(struct committer *c);

/* Waits until something may be due, or committer_stop. */
void committer_wait(struct committer *c);

/* Ends all waiting begins, and lets the thread end once the queue is empty. */
void committer_stop(struct committer *c);
bool committer_stopped(struct committer *c);

#endif
