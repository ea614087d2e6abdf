/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tallies: what `serve` shows of work that others do on its store: what commands counted there, and
 * which tasks are in it. Read every five seconds, all in one batch, so that a scrape waits for
 * nothing; a value that cannot be read stays as it was.
 *
 *      watch (each second) --due--> asks --all have ended--> what is shown --'
 *
 * Counts of tasks are bounded (TALLIES_MOST), by an index: no table is walked, and no row is shared
 * by those who add or deliver.
 */
#ifndef PAWL_OPERATOR_TALLIES_H
#define PAWL_OPERATOR_TALLIES_H

#include "base/buf.h"
#include "store/store.h"

struct metrics;

#define TALLIES_MOST 10000 /* tasks of one kind and state that are counted */

struct tallies;

/* NULL: no memory. Both must outlive it. */
struct tallies *tallies_new(struct store *store, struct metrics *metrics);
/* Once the store is closed. Accepts NULL. */
void tallies_free(struct tallies *tallies);

/* Once a second, always on one thread. Never blocks. */
void tallies_watch(struct tallies *tallies);

/* Appends the gauges of tasks. From any thread. Never blocks. */
void tallies_write(struct tallies *tallies, struct buf *page);

#endif
