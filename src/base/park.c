/* SPDX-License-Identifier: Apache-2.0 */
#include "base/park.h"
#include "base/check.h"
#include "base/clock.h"

/* The condition waits on a clock that stands still in suspend, and that no test moves: the boot
 * clock is looked at again at least this often. */
#ifdef PAWL_HOOKS
#define LOOK_AGAIN_US (10 * CLOCK_US_PER_MS)
#else
#define LOOK_AGAIN_US (60 * CLOCK_US_PER_S)
#endif

static struct thread_parker *thread_parker_of(struct parker *parker)
{
    return (struct thread_parker *)parker;
}

static bool thread_park(struct parker *parker, int64_t deadline_us)
{
    struct thread_parker *self = thread_parker_of(parker);
    CHECK(!thread_is_loop());
    mutex_lock(&self->mutex);
    while (!self->woken) {
        int64_t now_us = clock_boot_us();
        if (now_us >= deadline_us)
            break;
        bool soon = deadline_us < clock_after(now_us, LOOK_AGAIN_US);
        cond_wait_for(&self->cond, &self->mutex, soon ? deadline_us - now_us : LOOK_AGAIN_US);
    }
    bool woken = self->woken;
    self->woken = false;
    mutex_unlock(&self->mutex);
    return woken;
}

static void thread_wake(struct parker *parker)
{
    struct thread_parker *self = thread_parker_of(parker);
    mutex_lock(&self->mutex);
    self->woken = true;
    cond_signal(&self->cond);
    mutex_unlock(&self->mutex);
}

/* All of it under the lock: who sees the word, and comes to thread_parker_fini, finds it held. */
static void thread_publish(struct parker *parker, atomic_int *word, int value)
{
    struct thread_parker *self = thread_parker_of(parker);
    mutex_lock(&self->mutex);
    atomic_store_explicit(word, value, memory_order_release);
    self->woken = true;
    cond_signal(&self->cond);
    mutex_unlock(&self->mutex);
}

/* Its owner may free a parker that wraps another one as soon as it sees the word: whom to wake is
 * read before. */
void parker_publish(struct parker *parker, atomic_int *word, int value)
{
    struct parker *target = parker ? parker_target(parker) : NULL;
    if (target && target->publish) {
        target->publish(target, word, value);
        return;
    }
    atomic_store_explicit(word, value, memory_order_release);
    if (target)
        target->wake(target);
}

void thread_parker_init(struct thread_parker *parker)
{
    parker->parker =
        (struct parker){.park = thread_park, .wake = thread_wake, .publish = thread_publish};
    mutex_init(&parker->mutex);
    cond_init(&parker->cond);
    parker->woken = false;
}

void thread_parker_fini(struct thread_parker *parker)
{
    mutex_lock(&parker->mutex);
    mutex_unlock(&parker->mutex);
    cond_fini(&parker->cond);
    mutex_fini(&parker->mutex);
}
