/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads, mutexes, conditions: the one owner of <pthread.h>. Failures of pthread calls are bugs
 * and end the process; thread_start alone may fail for want of resources.
 */
#ifndef PAWL_BASE_THREAD_H
#define PAWL_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct mutex {
    pthread_mutex_t native;
};
struct cond {
    pthread_cond_t native; /* on CLOCK_MONOTONIC */
};
struct thread {
    pthread_t native;
};

void mutex_init(struct mutex *mutex);
void mutex_fini(struct mutex *mutex);
void mutex_lock(struct mutex *mutex);
void mutex_unlock(struct mutex *mutex);

void cond_init(struct cond *cond);
void cond_fini(struct cond *cond);
/* Wakes one waiter, or all of them. */
void cond_signal(struct cond *cond);
void cond_broadcast(struct cond *cond);
/* Waits for a signal; the mutex is held before and after. May return without one. */
void cond_wait(struct cond *cond, struct mutex *mutex);
/* Waits at most `duration_us` microseconds; false when that time passed. */
bool cond_wait_for(struct cond *cond, struct mutex *mutex, int64_t duration_us);

/* Starts `run(argument)` on a new thread called `name` (at most 15 bytes). False: no resources. */
bool thread_start(struct thread *thread, const char *name, void (*run)(void *), void *argument);
void thread_join(struct thread *thread);
/* Gives up on a thread that may never end; it runs on with what it holds. */
void thread_detach(struct thread *thread);

/* Calls `in_child` in every process that is forked from now on, before fork returns there. */
void thread_at_fork(void (*in_child)(void));

/* Threads mark themselves while they run a loop; code that may block asserts
 * CHECK(!thread_is_loop()). */
void thread_mark_loop(bool runs);
bool thread_is_loop(void);

#endif
