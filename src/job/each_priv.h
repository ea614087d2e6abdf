/* SPDX-License-Identifier: Apache-2.0 */
/* What each.c (workers, start and end) and each_feed.c (from the input to the queue) share. */
#ifndef PAWL_JOB_EACH_PRIV_H
#define PAWL_JOB_EACH_PRIV_H

#include "job/each.h"

/* ---- each.c ---- */

/* Puts an item behind those that are to be run. */
void each_enqueue(struct each *each, struct each_item *item);

/* Counts how an item ended, and reports it; `end->item` is given back. */
void each_end_item(struct each *each, const struct each_end *end);

/* Without a worker. */
void each_end_unrun(struct each *each, struct each_item *item, enum each_result result);

/* A fiber of it has ended. */
void each_fiber_ended(struct each *each);

/* Wakes a worker that has nothing to do. */
void each_wake_worker(struct each *each);

/* ---- each_feed.c ---- */

/* The fiber that reads the input. */
void each_feed(void *argument);

/* Counts in the store what was skipped since the last time. */
void each_count_skipped(struct each *each, struct parker *parker);

#endif
