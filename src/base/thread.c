/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"
#include "base/check.h"
#include "base/mem.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define NAME_SIZE 16 /* the kernel's limit, NUL included */
/* Longer waits are cut to this, so that the sum with the clock cannot overflow. */
#define DURATION_LONGEST_US (INT64_C(100) * 365 * 24 * 3600 * 1000000)

void mutex_init(struct mutex *mutex)
{
    CHECK(pthread_mutex_init(&mutex->native, NULL) == 0);
}

void mutex_fini(struct mutex *mutex)
{
    CHECK(pthread_mutex_destroy(&mutex->native) == 0);
}

void mutex_lock(struct mutex *mutex)
{
    CHECK(pthread_mutex_lock(&mutex->native) == 0);
}

void mutex_unlock(struct mutex *mutex)
{
    CHECK(pthread_mutex_unlock(&mutex->native) == 0);
}

void cond_init(struct cond *cond)
{
    pthread_condattr_t attributes;
    CHECK(pthread_condattr_init(&attributes) == 0);
    CHECK(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0);
    CHECK(pthread_cond_init(&cond->native, &attributes) == 0);
    CHECK(pthread_condattr_destroy(&attributes) == 0);
}

void cond_fini(struct cond *cond)
{
    CHECK(pthread_cond_destroy(&cond->native) == 0);
}

void cond_signal(struct cond *cond)
{
    CHECK(pthread_cond_signal(&cond->native) == 0);
}

void cond_broadcast(struct cond *cond)
{
    CHECK(pthread_cond_broadcast(&cond->native) == 0);
}

void cond_wait(struct cond *cond, struct mutex *mutex)
{
    CHECK(pthread_cond_wait(&cond->native, &mutex->native) == 0);
}

bool cond_wait_for(struct cond *cond, struct mutex *mutex, int64_t duration_us)
{
    struct timespec until;
    if (duration_us <= 0)
        duration_us = 0;
    if (duration_us > DURATION_LONGEST_US)
        duration_us = DURATION_LONGEST_US;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &until) == 0);
    int64_t ns = until.tv_nsec + duration_us % 1000000 * 1000;
    until.tv_sec += (time_t)(duration_us / 1000000 + ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    int rc = pthread_cond_timedwait(&cond->native, &mutex->native, &until);
    CHECK(rc == 0 || rc == ETIMEDOUT);
    return rc == 0;
}

struct start {
    void (*run)(void *);
    void *argument;
    char name[NAME_SIZE];
};

static void *thread_main(void *given)
{
    struct start start = *(struct start *)given;
    mem_free(given);
    /* A name is for people who look at the process: without one it runs as well. */
    (void)pthread_setname_np(pthread_self(), start.name);
    start.run(start.argument);
    mem_thread_end();
    return NULL;
}

bool thread_start(struct thread *thread, const char *name, void (*run)(void *), void *argument)
{
    CHECK(strlen(name) < NAME_SIZE);
    struct start *start = mem_alloc(sizeof *start);
    if (!start)
        return false;
    *start = (struct start){.run = run, .argument = argument};
    memcpy(start->name, name, strlen(name) + 1);
    int rc = pthread_create(&thread->native, NULL, thread_main, start);
    CHECK(rc == 0 || rc == EAGAIN);
    if (rc != 0)
        mem_free(start);
    return rc == 0;
}

void thread_join(struct thread *thread)
{
    CHECK(pthread_join(thread->native, NULL) == 0);
}

void thread_detach(struct thread *thread)
{
    CHECK(pthread_detach(thread->native) == 0);
}

static _Thread_local bool is_loop;

void thread_at_fork(void (*in_child)(void))
{
    CHECK(pthread_atfork(NULL, NULL, in_child) == 0);
}

void thread_mark_loop(bool runs)
{
    is_loop = runs;
}

bool thread_is_loop(void)
{
    return is_loop;
}
