/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop: one iteration takes the inbox, the deadlines that passed and some runnable fibers, then
 * asks the kernel for events, sleeping there only when no fiber is runnable.
 *
 * Wakes from other threads come through the inbox, a list that many push to and the loop empties.
 * The eventfd is written only when the loop sleeps or is about to: the loop first says `sleeping`,
 * then looks at the inbox once more; a sender first pushes, then looks at `sleeping`. All four are
 * sequentially consistent, so one of the two sees the other. The eventfd is watched by edge, so it
 * is never read: each write is an edge of its own.
 */
#include "fiber/fiber_priv.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* scripts/gdb-fibers.py begins here. */
static _Thread_local struct loop *loop_of_thread;

struct loop *loop_current(void)
{
    return loop_of_thread;
}

struct fiber *fiber_self(void)
{
    return !loop_of_thread ? NULL : loop_of_thread->running;
}

/* ---- birth and death ---- */

static bool loop_watch(struct loop *loop)
{
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    return loop->epoll_fd >= 0 && loop->event_fd >= 0 &&
           epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->event_fd, &event) == 0;
}

struct loop *loop_new(size_t max_fibers)
{
    struct loop *loop = mem_zalloc(1, sizeof *loop);
    if (!loop)
        return NULL;
    loop->max_fibers = max_fibers;
    loop->epoll_fd = loop->event_fd = -1;
    loop->signal_stack = mem_alloc(GUARD_STACK_BYTES);
    if (!loop->signal_stack || !timers_init(&loop->timers, max_fibers) || !loop_watch(loop)) {
        loop_free(loop);
        return NULL;
    }
    return loop;
}

void loop_free(struct loop *loop)
{
    if (!loop)
        return;
    CHECK(loop->n_live == 0 && !loop->entered);
    while (loop->idle) {
        struct fiber *fiber = loop->idle;
        loop->idle = fiber->queue_next;
        fiber_fini(fiber);
        mem_free(fiber);
    }
    timers_fini(&loop->timers);
    mem_free(loop->signal_stack);
    if (loop->epoll_fd >= 0)
        close(loop->epoll_fd);
    if (loop->event_fd >= 0)
        close(loop->event_fd);
    mem_free(loop);
}

/* ---- inbox ---- */

static void loop_rouse(struct loop *loop)
{
    if (!atomic_load(&loop->sleeping) || !atomic_exchange(&loop->sleeping, false))
        return;
    uint64_t one = 1;
    CHECK(write(loop->event_fd, &one, sizeof one) == sizeof one);
}

void loop_post(struct loop *loop, struct loop_post *post)
{
    struct loop_post *head = atomic_load(&loop->inbox);
    do
        post->next = head;
    while (!atomic_compare_exchange_weak(&loop->inbox, &head, post));
    loop_rouse(loop);
}

void loop_stop(struct loop *loop)
{
    atomic_store(&loop->stopping, true);
    loop_rouse(loop);
}

static struct loop_post *inbox_take(struct loop *loop)
{
    struct loop_post *newest = atomic_exchange(&loop->inbox, NULL);
    struct loop_post *oldest = NULL;
    while (newest) {
        struct loop_post *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

static void loop_run_inbox(struct loop *loop)
{
    if (!atomic_load_explicit(&loop->inbox, memory_order_relaxed))
        return;
    for (struct loop_post *post = inbox_take(loop), *next; post; post = next) {
        next = post->next; /* it is its owner's again once called */
        post->run(post->argument);
    }
}

/* ---- fibers ---- */

static void loop_enqueue(struct fiber *fiber)
{
    struct loop *loop = fiber->loop;
    fiber->state = FIBER_RUNNABLE;
    fiber->queue_next = NULL;
    if (!loop->runnable)
        loop->runnable = fiber;
    else
        loop->runnable_last->queue_next = fiber;
    loop->runnable_last = fiber;
}

void loop_ready(struct fiber *fiber)
{
    if (fiber->state == FIBER_PARKED)
        loop_enqueue(fiber);
}

void loop_switch_from(struct fiber *fiber, enum fiber_state next)
{
    struct loop *loop = fiber->loop;
    CHECK(fiber->state == FIBER_RUNNING && loop->running == fiber);
    if (next == FIBER_RUNNABLE)
        loop_enqueue(fiber);
    else
        fiber->state = next;
    if (next == FIBER_ENDED)
        context_leave(&fiber->context, &loop->context);
    context_switch(&fiber->context, &loop->context);
    CHECK(fiber->state == FIBER_RUNNING && loop->running == fiber);
}

static void fiber_main(void *argument)
{
    struct fiber *self = argument;
    self->run(self->argument);
    loop_switch_from(self, FIBER_ENDED);
}

static struct fiber *loop_take_idle(struct loop *loop)
{
    struct fiber *fiber = loop->idle;
    if (fiber) {
        loop->idle = fiber->queue_next;
        return fiber;
    }
    fiber = mem_zalloc(1, sizeof *fiber);
    if (!fiber || !fiber_init(fiber, loop)) {
        mem_free(fiber);
        return NULL;
    }
    return fiber;
}

bool fiber_spawn(struct loop *loop, const char *name, void (*run)(void *), void *argument)
{
    CHECK(loop_of_thread == loop || !loop->entered);
    if (loop->n_live == loop->max_fibers)
        return false;
    struct fiber *fiber = loop_take_idle(loop);
    if (!fiber)
        return false;
    CHECK(fiber->state == FIBER_IDLE);
    fiber->name = name;
    fiber->run = run;
    fiber->argument = argument;
    fiber->woken = false;
    context_init(&fiber->context, &fiber->stack, fiber_main, fiber);
    fiber->live_prev = NULL;
    fiber->live_next = loop->live;
    if (loop->live)
        loop->live->live_prev = fiber;
    loop->live = fiber;
    loop->n_live++;
    loop_enqueue(fiber);
    return true;
}

static void loop_bury(struct loop *loop, struct fiber *fiber)
{
    context_fini(&fiber->context);
    *(!fiber->live_prev ? &loop->live : &fiber->live_prev->live_next) = fiber->live_next;
    if (fiber->live_next)
        fiber->live_next->live_prev = fiber->live_prev;
    loop->n_live--;
    fiber->state = FIBER_IDLE;
    fiber->queue_next = loop->idle;
    loop->idle = fiber;
}

static void loop_resume(struct loop *loop, struct fiber *fiber)
{
    CHECK(fiber->state == FIBER_RUNNABLE);
    fiber->state = FIBER_RUNNING;
    fiber->run_calls = 0;
    loop->running = fiber;
    context_switch(&loop->context, &fiber->context);
    loop->running = NULL;
    CHECK(fiber->state != FIBER_RUNNING);
    if (fiber->state == FIBER_ENDED)
        loop_bury(loop, fiber);
}

static void loop_run_fibers(struct loop *loop)
{
    for (int i = 0; i < LOOP_ITERATION_FIBERS && loop->runnable; i++) {
        struct fiber *fiber = loop->runnable;
        loop->runnable = fiber->queue_next;
        loop_resume(loop, fiber);
    }
}

/* ---- an iteration ---- */

static void loop_run_deadlines(struct loop *loop)
{
    if (timers_next(&loop->timers) == CLOCK_NEVER)
        return;
    int64_t now_us = clock_boot_us();
    struct timer *timer;
    while ((timer = timers_take_due(&loop->timers, now_us))) {
        struct fiber *fiber = (void *)((char *)timer - offsetof(struct fiber, timer));
        fiber->expired = true;
        loop_ready(fiber);
    }
}

static bool loop_done(struct loop *loop)
{
    return loop->n_live == 0 && atomic_load(&loop->stopping) && !atomic_load(&loop->inbox);
}

static void loop_poll(struct loop *loop)
{
    int timeout_ms = 0;
    if (!loop->runnable) {
        atomic_store(&loop->sleeping, true);
        if (!atomic_load(&loop->inbox) && !loop_done(loop))
            timeout_ms = clock_poll_ms(timers_next(&loop->timers));
    }
    int n = epoll_wait(loop->epoll_fd, loop->events, LOOP_ITERATION_EVENTS, timeout_ms);
    CHECK(n >= 0 || errno == EINTR);
    atomic_store_explicit(&loop->sleeping, false, memory_order_relaxed);
    /* No fiber runs in between: no event outlives its descriptor. */
    for (int i = 0; i < n; i++)
        if (loop->events[i].data.ptr)
            io_event(loop->events[i].data.ptr, loop->events[i].events);
}

void loop_run(struct loop *loop)
{
    CHECK(!loop_of_thread && !loop->entered);
    thread_mark_loop(true);
    loop_of_thread = loop;
    loop->entered = true;
    guard_stack_use(loop->signal_stack);
    context_init_thread(&loop->context);
    for (;;) {
        loop_run_inbox(loop);
        loop_run_deadlines(loop);
        loop_run_fibers(loop);
        if (loop_done(loop))
            break;
        loop_poll(loop);
    }
    guard_stack_leave();
    loop->entered = false;
    loop_of_thread = NULL;
    thread_mark_loop(false);
}
