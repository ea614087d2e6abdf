/* SPDX-License-Identifier: Apache-2.0 */
/*
 * park: wait until another thread wakes you. Two implementations: a thread (here: mutex and
 * condition, for commands, the library and tests) and a fiber (fiber/, by its loop's inbox).
 *
 * A wake is remembered: wake before park makes that park return at once; several wakes before one
 * park count as one. Wakes may be spurious: the caller always looks at what it waits for, under the
 * lock or atomic of its owner. A parker must outlive every possible wake; what ends by
 * parker_publish wakes a thread parker for the last time before its owner can be done with it.
 */
#ifndef PAWL_BASE_PARK_H
#define PAWL_BASE_PARK_H

#include "base/thread.h"
#include <stdatomic.h>

struct parker {
    /* Returns when woken (true) or when the boot clock passed `deadline_us` (false). */
    bool (*park)(struct parker *parker, int64_t deadline_us);
    /* From any thread; never blocks. */
    void (*wake)(struct parker *parker);
    /* The same, and `*word` is `value` before; NULL: for one that outlives every wake. */
    void (*publish)(struct parker *parker, atomic_int *word, int value);
    struct parker *waker; /* whom others wake; NULL: this one. A parker that wraps another one (to
                             wait for more than a wake) names it here, and need not outlive wakes */
    bool interrupted;     /* set by park when its owner gave up waiting (a client that left); said
                             once: later parks wait on */
};

/* Whom to wake for `parker`: the one that outlives every wake. */
static inline struct parker *parker_target(struct parker *parker)
{
    return parker->waker ? parker->waker : parker;
}

/* Wakes who parks on `parker`. */
static inline void parker_wake(struct parker *parker)
{
    struct parker *target = parker_target(parker);
    target->wake(target);
}

/* Sets the word (release) by which the owner of `parker` sees that what it waits for has ended, and
 * wakes it. The owner may give up the word as soon as it has seen that, and a thread's parker by
 * thread_parker_fini, which waits for the wake. `parker` NULL: nobody waits. */
void parker_publish(struct parker *parker, atomic_int *word, int value);

struct thread_parker {
    struct parker parker; /* first: the two are cast into each other */
    struct mutex mutex;
    struct cond cond;
    bool woken;
};

void thread_parker_init(struct thread_parker *parker);
void thread_parker_fini(struct thread_parker *parker);

#endif
