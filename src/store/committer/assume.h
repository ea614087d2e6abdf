/* SPDX-License-Identifier: Apache-2.0 */
/*
 * assume: a batch without a load (backend.pairs; docs/model/optimistic.pml). Of a plain begin it is
 * assumed that nothing has its key, of a plain finish that the row of its claim is as this process
 * saved it, and core decides on that. What is not so, or changed nothing and so was proved by
 * nothing, was told to nobody, and is decided again behind a load (store_links.loads).
 *
 *      take -> decide -> pairs -> report          every batch that is not one of those below
 *
 *      load    the oldest operation is not plain; a waiter's time has come; nothing may begin
 *      a batch without operations
 *              a chore is due; the last batch failed; nothing was read for a second
 *
 * Core decides with a time that is the last one that was read, and what has passed since that batch
 * was SENT: never behind the store's. A claim begins by the store's own clock, so that its lease
 * ends there no sooner than its owner believes (docs/model/sent.pml). For committer.c alone.
 */
#ifndef PAWL_STORE_COMMITTER_ASSUME_H
#define PAWL_STORE_COMMITTER_ASSUME_H

#include "store/committer/state.h"

struct batch;

/* Whether the oldest operation may go without a load, and all like it; and whether the next batch
 * is for them: else a chore is due, or too little was read lately, and a batch without operations
 * comes first; while there is a backlog of what is to be swept, one with all of them. */
bool assume_fits(struct committer *c, int64_t boot);
bool assume_is_ready(const struct committer *c, int64_t boot);

/* As batch_run, which does all others. */
enum backend_status assume_run(struct committer *c, struct batch *batch);

#endif
