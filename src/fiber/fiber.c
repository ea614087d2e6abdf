/* SPDX-License-Identifier: Apache-2.0 */
#include "fiber/fiber.h"

#include "base/check.h"
#include "base/clock.h"
#include "fiber/fiber_priv.h"

static struct fiber *fiber_running(void)
{
    struct fiber *self = fiber_self();
    CHECK(self);
    return self;
}

/* ---- the parker ---- */

/* Late, its fiber may have ended: fiber_spawn forgets the wakes of an idle one. */
static void fiber_woken(struct fiber *fiber)
{
    fiber->woken = true;
    if (fiber->wakeable)
        loop_ready(fiber);
}

/* An exchange, not a store: it must see all that came before a wake that found the flag set. */
static void fiber_wake_arrived(void *argument)
{
    struct fiber *fiber = argument;
    CHECK(atomic_exchange(&fiber->wake_posted, false));
    fiber_woken(fiber);
}

static void fiber_wake(struct parker *parker)
{
    struct fiber *fiber = (struct fiber *)parker;
    if (loop_current() == fiber->loop)
        fiber_woken(fiber);
    else if (!atomic_exchange(&fiber->wake_posted, true))
        loop_post(fiber->loop, &fiber->wake_post);
}

static bool fiber_park(struct parker *parker, int64_t deadline_us)
{
    CHECK((struct fiber *)parker == fiber_running());
    return fiber_block(NULL, 0, deadline_us, true) == FIBER_WOKEN;
}

struct parker *fiber_parker(void)
{
    return &fiber_running()->parker;
}

/* ---- pool ---- */

bool fiber_init(struct fiber *fiber, struct loop *loop)
{
    struct stack stack;
    if (!stack_open(&stack))
        return false;
    *fiber = (struct fiber){
        .parker = {.park = fiber_park, .wake = fiber_wake},
        .loop = loop,
        .state = FIBER_IDLE,
        .stack = stack,
        .wake_post = {.run = fiber_wake_arrived, .argument = fiber},
    };
    return true;
}

void fiber_fini(struct fiber *fiber)
{
    CHECK(fiber->state == FIBER_IDLE);
    stack_close(&fiber->stack);
}

/* ---- waiting ---- */

static bool source_ready(const struct fiber_source *source)
{
    const struct fiber_io *io = source->io;
    return ((source->want & FIBER_READ) != 0 && io->readable) ||
           ((source->want & FIBER_WRITE) != 0 && io->writable) ||
           ((source->want & FIBER_HANGUP) != 0 && io->hung_up);
}

bool fiber_sources_ready(const struct fiber *fiber)
{
    for (size_t i = 0; i < fiber->n_sources; i++)
        if (source_ready(&fiber->sources[i]))
            return true;
    return false;
}

static void fiber_watch(struct fiber *self)
{
    for (size_t i = 0; i < self->n_sources; i++) {
        struct fiber_io *io = self->sources[i].io;
        CHECK(io->fd >= 0 && io->loop == self->loop && !io->waiter);
        io->waiter = self;
    }
}

static void fiber_unwatch(struct fiber *self)
{
    for (size_t i = 0; i < self->n_sources; i++)
        self->sources[i].io->waiter = NULL;
}

/* Whether the wait has come to its end, and by what. */
static bool take_fiber_wake(struct fiber *self, enum fiber_wake *ret_wake)
{
    if (fiber_sources_ready(self)) {
        *ret_wake = FIBER_READY;
    } else if (self->wakeable && self->woken) {
        self->woken = false;
        *ret_wake = FIBER_WOKEN;
    } else if (self->expired) {
        *ret_wake = FIBER_DEADLINE;
    } else {
        return false;
    }
    return true;
}

enum fiber_wake fiber_block(const struct fiber_source *sources, size_t n, int64_t deadline_us,
                            bool wakeable)
{
    struct fiber *self = fiber_running();
    CHECK(n <= FIBER_SOURCES_MAX && (n == 0 || sources));
    self->sources = sources;
    self->n_sources = n;
    self->wakeable = wakeable;
    self->expired = false;
    enum fiber_wake wake;
    if (!take_fiber_wake(self, &wake)) {
        fiber_watch(self);
        timers_arm(&self->loop->timers, &self->timer, deadline_us);
        do
            loop_switch_from(self, FIBER_PARKED);
        while (!take_fiber_wake(self, &wake));
        timers_disarm(&self->loop->timers, &self->timer);
        fiber_unwatch(self);
    }
    self->wakeable = false;
    self->sources = NULL;
    self->n_sources = 0;
    return wake;
}

enum fiber_wake fiber_wait(const struct fiber_source *sources, size_t n, int64_t deadline_us)
{
    return fiber_block(sources, n, deadline_us, true);
}

void fiber_sleep_until(int64_t deadline_us)
{
    CHECK(fiber_block(NULL, 0, deadline_us, false) == FIBER_DEADLINE);
}

void fiber_yield(void)
{
    loop_switch_from(fiber_running(), FIBER_RUNNABLE);
}
