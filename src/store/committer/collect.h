/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect: whether the next batch waits for more operations. Where a batch costs round trips, those
 * whose operations have just ended come back with their next ones while it is under way, and each
 * half of them gets a batch of its own. A short wait behind a batch brings them together.
 *
 * It ends as soon as as many are queued as were at it before, so that a client alone never waits;
 * it lasts a part of what a batch takes, and where it brings nothing it is left out for a while.
 */
#ifndef PAWL_STORE_COLLECT_H
#define PAWL_STORE_COLLECT_H

#include <stddef.h>
#include <stdint.h>

#define COLLECT_PART 4 /* of what the last batch took: the longest wait behind it */
#define COLLECT_MOST_US 1000
#define COLLECT_ENOUGH 64 /* operations: with so many what a batch costs by itself is little */
#define COLLECT_REST 64   /* batches without a wait after one that brought nothing */

struct collect {
    size_t most;   /* operations that may come together; 0: no batch yet */
    int64_t until; /* boot time */
    unsigned rest; /* batches that do not wait */
};

/* A batch has ended so many operations, and so many are queued behind it. */
void collect_note_batch(struct collect *collect, size_t ended, size_t queued, int64_t began,
                        int64_t now);

/* How long to wait for more than those that are queued; 0: not at all. */
int64_t collect_wait_us(const struct collect *collect, size_t queued, int64_t now);

/* There was a wait. */
void collect_note_wait(struct collect *collect, size_t queued_before, size_t queued);

#endif
