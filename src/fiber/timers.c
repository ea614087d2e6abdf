/* SPDX-License-Identifier: Apache-2.0 */
#include "fiber/timers.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"

bool timers_init(struct timers *timers, size_t room)
{
    struct timer_slot *heap = mem_zalloc(room + 1, sizeof *heap);
    if (!heap)
        return false;
    *timers = (struct timers){.heap = heap, .room = room};
    return true;
}

void timers_fini(struct timers *timers)
{
    CHECK(timers->n == 0);
    mem_free(timers->heap);
    *timers = (struct timers){0};
}

static void put_timer(struct timers *timers, size_t index, struct timer_slot slot)
{
    timers->heap[index] = slot;
    slot.timer->index = index;
}

static void sift_up(struct timers *timers, size_t index, struct timer_slot slot)
{
    while (index > 1 && slot.deadline_us < timers->heap[index / 2].deadline_us) {
        put_timer(timers, index, timers->heap[index / 2]);
        index /= 2;
    }
    put_timer(timers, index, slot);
}

static void sift_down(struct timers *timers, size_t index, struct timer_slot slot)
{
    const struct timer_slot *heap = timers->heap;
    for (;;) {
        size_t child = index * 2;
        if (child < timers->n && heap[child + 1].deadline_us < heap[child].deadline_us)
            child++;
        if (child > timers->n || slot.deadline_us <= heap[child].deadline_us)
            break;
        put_timer(timers, index, heap[child]);
        index = child;
    }
    put_timer(timers, index, slot);
}

void timers_arm(struct timers *timers, struct timer *timer, int64_t deadline_us)
{
    CHECK(timer->index == 0);
    if (deadline_us == CLOCK_NEVER)
        return;
    CHECK(timers->n < timers->room);
    timers->n++;
    sift_up(timers, timers->n, (struct timer_slot){deadline_us, timer});
}

void timers_disarm(struct timers *timers, struct timer *timer)
{
    size_t index = timer->index;
    if (index == 0)
        return;
    CHECK(index <= timers->n && timers->heap[index].timer == timer);
    timer->index = 0;
    struct timer_slot last = timers->heap[timers->n--];
    if (last.timer == timer)
        return;
    if (index > 1 && last.deadline_us < timers->heap[index / 2].deadline_us)
        sift_up(timers, index, last);
    else
        sift_down(timers, index, last);
}

int64_t timers_next(const struct timers *timers)
{
    return timers->n == 0 ? CLOCK_NEVER : timers->heap[1].deadline_us;
}

struct timer *timers_take_due(struct timers *timers, int64_t now_us)
{
    if (timers->n == 0 || timers->heap[1].deadline_us > now_us)
        return NULL;
    struct timer *timer = timers->heap[1].timer;
    timers_disarm(timers, timer);
    return timer;
}
