/* SPDX-License-Identifier: Apache-2.0 */
#include "fiber/timers.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"

bool timers_init(struct timers *timers, size_t room)
{
    struct timer_slot *heap = mem_zalloc(room + 1, sizeof *heap);
    if (heap == NULL)
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

static void put(struct timers *timers, size_t place, struct timer_slot slot)
{
    timers->heap[place] = slot;
    slot.timer->place = place;
}

static void sift_up(struct timers *timers, size_t place, struct timer_slot slot)
{
    while (place > 1 && slot.deadline_us < timers->heap[place / 2].deadline_us) {
        put(timers, place, timers->heap[place / 2]);
        place /= 2;
    }
    put(timers, place, slot);
}

static void sift_down(struct timers *timers, size_t place, struct timer_slot slot)
{
    const struct timer_slot *heap = timers->heap;
    for (;;) {
        size_t child = place * 2;
        if (child < timers->n && heap[child + 1].deadline_us < heap[child].deadline_us)
            child++;
        if (child > timers->n || slot.deadline_us <= heap[child].deadline_us)
            break;
        put(timers, place, heap[child]);
        place = child;
    }
    put(timers, place, slot);
}

void timers_arm(struct timers *timers, struct timer *timer, int64_t deadline_us)
{
    CHECK(timer->place == 0);
    if (deadline_us == CLOCK_NEVER)
        return;
    CHECK(timers->n < timers->room);
    timers->n++;
    sift_up(timers, timers->n, (struct timer_slot){deadline_us, timer});
}

void timers_disarm(struct timers *timers, struct timer *timer)
{
    size_t place = timer->place;
    if (place == 0)
        return;
    CHECK(place <= timers->n && timers->heap[place].timer == timer);
    timer->place = 0;
    struct timer_slot last = timers->heap[timers->n--];
    if (last.timer == timer)
        return;
    if (place > 1 && last.deadline_us < timers->heap[place / 2].deadline_us)
        sift_up(timers, place, last);
    else
        sift_down(timers, place, last);
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
