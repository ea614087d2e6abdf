/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service: a thread with a loop of its own, the fibers that work on it until it drains, and the
 * plan by which they work, which a reload replaces meanwhile.
 *
 *      service_new      the owner's struct, zeroed, which begins with a struct service; the owner
 *                       fills it in, with the first plan
 *      service_start    its thread runs; the call returns once that plan is in force
 *      service_prepare  keeps the next plan
 *      service_reload   gives it to `take`, and returns once it is in force; or to `drop`
 *      service_drain    calls `drain`: the fibers begin no more, and end when that has ended
 *      service_stop     the thread has ended
 *      service_free     calls `fini`, and frees the loop
 *
 * A plan is in force once the owner says so (service_taken): it may have to do something first. It
 * is the service's from service_prepare on, and the owner's from `take` on.
 *
 * One thread, which runs no loop, calls all of these. `take` and `drain` are called on the loop's
 * thread, outside any fiber, and must not block.
 */
#ifndef PAWL_FIBER_SERVICE_H
#define PAWL_FIBER_SERVICE_H

#include "fiber/fiber.h"

#define SERVICE_FIBERS_MAX 2

/* A kind of service: what its owner does. `owner` is its struct, of `size` bytes. */
struct service_kind {
    const char *name; /* of the thread, at most 15 bytes */
    size_t size;
    size_t max_fibers; /* of the loop */
    struct service_fiber {
        const char *name;
        void (*run)(void *owner);
    } fibers[SERVICE_FIBERS_MAX]; /* that it starts with */
    void (*take)(void *owner, void *plan);
    void (*drain)(void *owner);
    void (*drop)(void *plan);  /* accepts NULL */
    void (*fini)(void *owner); /* of all that the owner has filled in */
};

struct service {
    const struct service_kind *kind;
    struct loop *loop;
    bool draining; /* the loop's: to begin no more */
    /* service.c's own */
    struct thread thread;
    void *next; /* plan */
    struct loop_post take, drain;
    atomic_bool taking; /* a plan that is not in force yet */
    struct thread_parker taken;
    int ended;     /* eventfd */
    bool stopping; /* `drain` is posted */
};

/* NULL: no memory or descriptors. */
void *service_new(const struct service_kind *kind);

/* The owner; NULL: it is not filled in (no memory), and was freed. */
void *service_start(struct service *service, bool is_filled);

/* False: `plan` is NULL. */
bool service_prepare(struct service *service, void *plan);
/* Serves by what was prepared from now on; without `keep` it is forgotten. */
void service_reload(struct service *service, bool keep);

/* A descriptor that is readable once all fibers have ended. */
int service_drain(void *owner);

/* Drains, unless that was called, and waits for the end. */
void service_stop(void *owner);

/* Only once no other thread can wake its fibers any more (fiber/fiber.h). */
void service_free(void *owner);

/* On the loop's thread: the plan that the owner was filled in with, or took, is in force. */
void service_taken(struct service *service);

#endif
