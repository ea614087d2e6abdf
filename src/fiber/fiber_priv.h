/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the fiber folder: what a loop (loop.c) and a fiber are made of, what the kernel says of
 * descriptors (io.c), and the stack of the guard handler (guard.c). Users include fiber/fiber.h.
 *
 * States of a fiber, asserted at every move:
 *
 *          fiber_spawn             its turn             fiber_block
 *   IDLE -------------> RUNNABLE ------------> RUNNING -------------> PARKED
 *    ^                      ^ ^   fiber_yield   | |                     |
 *    |                      | '-----------------' |                     |
 *    |                      '---------------------+---------------------'
 *    '------------- ENDED <-----------------------'      loop_ready
 *       its loop left its stack
 */
#ifndef PAWL_FIBER_FIBER_PRIV_H
#define PAWL_FIBER_FIBER_PRIV_H

#include "fiber/fiber.h"
#include "fiber/stack.h"
#include "fiber/switch.h"
#include "fiber/timers.h"
#include <stdatomic.h>
#include <sys/epoll.h>

/* Fibers that run between two polls of descriptors, deadlines and the inbox. */
#define LOOP_ITERATION_FIBERS 64
/* Events taken from the kernel at once. */
#define LOOP_ITERATION_EVENTS 128
/* Sources one fiber waits for. */
#define FIBER_SOURCES_MAX 4
/* Reads, writes and accepts of a fiber whose descriptors never run dry before it gives way. */
#define FIBER_RUN_CALLS 64

enum fiber_state {
    FIBER_IDLE, /* in the pool, with its stack */
    FIBER_RUNNABLE,
    FIBER_RUNNING,
    FIBER_PARKED,
    FIBER_ENDED,
};

struct fiber {
    struct parker parker; /* first: the two are cast into each other */
    struct loop *loop;
    enum fiber_state state;
    bool wakeable;      /* parked in a wait that a wake ends */
    bool woken;         /* a wake not yet used up */
    bool expired;       /* the deadline of the present wait passed */
    unsigned run_calls; /* since it was resumed; up to FIBER_RUN_CALLS */
    struct timer timer;
    const struct fiber_source *sources; /* of the present wait; on its own stack */
    size_t n_sources;
    struct fiber *queue_next; /* in the runnable queue or the pool */
    struct fiber *live_prev;  /* among all that are not idle */
    struct fiber *live_next;
    const char *name;
    void (*run)(void *argument);
    void *argument;
    struct stack stack;
    struct context context;
    /* Wakes from other threads: at most one post at a time. */
    atomic_bool wake_posted;
    struct loop_post wake_post;
};

struct loop {
    struct context context; /* the thread's own stack */
    struct fiber *running;
    struct fiber *runnable; /* queue, served from the head */
    struct fiber *runnable_last;
    struct fiber *idle; /* pool: the stack used last is the warmest */
    struct fiber *live;
    size_t n_live;
    size_t max_fibers;
    struct timers timers;
    int epoll_fd;
    int event_fd;
    bool entered; /* inside loop_run */
    char *signal_stack;
    struct epoll_event events[LOOP_ITERATION_EVENTS];
    /* Below: shared with other threads. */
    _Atomic(struct loop_post *) inbox; /* newest first */
    atomic_bool sleeping;              /* the inbox alone would not be seen */
    atomic_bool stopping;
};

/* Puts a parked fiber into the runnable queue; any other is left as it is. */
void loop_ready(struct fiber *fiber);

/* Runs the loop until it resumes the fiber. */
void loop_switch_from(struct fiber *fiber, enum fiber_state next);

/* Sets up `fiber` as a pooled fiber of the loop. False: no memory. */
bool fiber_init(struct fiber *fiber, struct loop *loop);
void fiber_fini(struct fiber *fiber);

/* fiber_wait; `wakeable` says whether a wake of the parker ends it (else it is kept). */
enum fiber_wake fiber_block(const struct fiber_source *sources, size_t n, int64_t deadline_us,
                            bool wakeable);

/* Whether one of the sources of the fiber's present wait is ready. */
bool fiber_sources_ready(const struct fiber *fiber);

/* What the kernel reports of a descriptor. */
void io_event(struct fiber_io *io, uint32_t events);

/* The calling thread's alternate signal stack, for the guard handler. The kernel's frame is up to
 * 11 KiB with AMX. */
#define GUARD_STACK_BYTES ((size_t)32 * 1024)
void guard_stack_use(char *signal_stack);
void guard_stack_leave(void);

#endif
