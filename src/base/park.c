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

void thread_parker_init(struct thread_parker *parker)
{
    parker->parker = (struct parker){.park = thread_park, .wake = thread_wake};
    mutex_init(&parker->mutex);
    cond_init(&parker->cond);
    parker->woken = false;
}

void thread_parker_fini(struct thread_parker *parker)
{
    cond_fini(&parker->cond);
    mutex_fini(&parker->mutex);
}
