/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers: a few threads and a bounded queue for what blocks or takes long (name resolution,
 * files, hashing and compressing large bodies). fiber_offload parks the calling fiber until it is
 * done.
 */
#ifndef PAWL_FIBER_OFFLOAD_H
#define PAWL_FIBER_OFFLOAD_H

#include <stdbool.h>
#include <stddef.h>

struct workers;

/* `n_threads` workers, at most `max_queued` waiting jobs; NULL: no resources. */
struct workers *workers_new(size_t n_threads, size_t max_queued);

/* Ends the threads after the jobs already queued. Accepts NULL. */
void workers_free(struct workers *workers);

/* Runs `run(argument)` on a worker and returns when it has ended. From a fiber: parks it. From a
 * thread that is not a loop: blocks. False: the queue is full, nothing was run. */
bool fiber_offload(struct workers *workers, void (*run)(void *), void *argument);

#endif
