/* SPDX-License-Identifier: Apache-2.0 */
/* A job lives on its caller's stack: once `done` is set, the worker does not touch it again. */
#include "fiber/offload.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/park.h"
#include "fiber/fiber.h"

struct job {
    void (*run)(void *argument);
    void *argument;
    struct parker *parker; /* the caller's */
    atomic_int done;
    struct job *next;
};

struct workers {
    struct mutex mutex;
    struct cond queued; /* a job came, or closing */
    struct job *first;
    struct job *last;
    size_t n_queued;
    size_t max_queued;
    bool closing;
    size_t n_threads;
    struct thread threads[];
};

/* ---- the worker's side; under the lock ---- */

static struct job *workers_next(struct workers *workers)
{
    while (!workers->first && !workers->closing)
        cond_wait(&workers->queued, &workers->mutex);
    struct job *job = workers->first;
    if (job) {
        workers->first = job->next;
        workers->n_queued--;
    }
    return job;
}

static void worker_main(void *argument)
{
    struct workers *workers = argument;
    mutex_lock(&workers->mutex);
    struct job *job;
    while ((job = workers_next(workers))) {
        mutex_unlock(&workers->mutex);
        job->run(job->argument);
        parker_publish(job->parker, &job->done, true);
        mutex_lock(&workers->mutex);
    }
    mutex_unlock(&workers->mutex);
}

/* ---- birth and death ---- */

struct workers *workers_new(size_t n_threads, size_t max_queued)
{
    struct workers *workers = mem_zalloc(1, sizeof *workers + n_threads * sizeof(struct thread));
    if (!workers)
        return NULL;
    workers->max_queued = max_queued;
    mutex_init(&workers->mutex);
    cond_init(&workers->queued);
    while (workers->n_threads < n_threads) {
        if (!thread_start(&workers->threads[workers->n_threads], "worker", worker_main, workers)) {
            workers_free(workers);
            return NULL;
        }
        workers->n_threads++;
    }
    return workers;
}

void workers_free(struct workers *workers)
{
    if (!workers)
        return;
    mutex_lock(&workers->mutex);
    workers->closing = true;
    cond_broadcast(&workers->queued);
    mutex_unlock(&workers->mutex);
    for (size_t i = 0; i < workers->n_threads; i++)
        thread_join(&workers->threads[i]);
    CHECK(!workers->first);
    cond_fini(&workers->queued);
    mutex_fini(&workers->mutex);
    mem_free(workers);
}

/* ---- the caller's side ---- */

static bool workers_submit(struct workers *workers, struct job *job)
{
    mutex_lock(&workers->mutex);
    CHECK(!workers->closing);
    bool room = workers->n_queued < workers->max_queued;
    if (room) {
        if (!workers->first)
            workers->first = job;
        else
            workers->last->next = job;
        workers->last = job;
        workers->n_queued++;
        cond_signal(&workers->queued);
    }
    mutex_unlock(&workers->mutex);
    return room;
}

static bool job_perform(struct workers *workers, struct job *job)
{
    if (!workers_submit(workers, job))
        return false;
    while (!atomic_load_explicit(&job->done, memory_order_acquire))
        job->parker->park(job->parker, CLOCK_NEVER);
    return true;
}

bool fiber_offload(struct workers *workers, void (*run)(void *), void *argument)
{
    struct job job = {.run = run, .argument = argument};
    if (fiber_self()) {
        job.parker = fiber_parker();
        return job_perform(workers, &job);
    }
    CHECK(!thread_is_loop());
    struct thread_parker blocked;
    thread_parker_init(&blocked);
    job.parker = &blocked.parker;
    bool ran = job_perform(workers, &job);
    thread_parker_fini(&blocked);
    return ran;
}
