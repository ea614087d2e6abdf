/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feed: reads a descriptor from a thread of its own, so that the loop waits for nobody who writes
 * to it, and so that it need not be made non-blocking, which others who have it open would see too.
 * One piece is read ahead.
 */
#ifndef PAWL_JOB_FEED_H
#define PAWL_JOB_FEED_H

#include "base/park.h"
#include "base/slice.h"

struct feed;

enum feed_result {
    FEED_BYTES,
    FEED_NOTHING, /* not yet */
    FEED_END,
    FEED_FAILED, /* `*ret_error`: the number of the error */
};

/* NULL: no memory, or no thread. The descriptor is borrowed. */
struct feed *feed_new(int fd);

/* The next piece, which stays until the next call. FEED_NOTHING: the parker is woken when there
 * is something to take. */
enum feed_result feed_take(struct feed *feed, struct parker *parker, struct slice *ret_bytes,
                           int *ret_error);

/* Ends it. A thread that is still waiting for input is left behind, with what it has. Accepts
 * NULL. */
void feed_free(struct feed *feed);

#endif
