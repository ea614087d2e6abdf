/* SPDX-License-Identifier: Apache-2.0 */
#include "job/slots.h"

#include "base/check.h"
#include <assert.h>

/* On the stack of the fiber that waits. */
struct slots_waiter {
    struct parker *parker;
    struct slots_waiter *next;
};

static_assert(offsetof(struct slots, gate) == 0, "gates are cast into slots");

static void wake_first(const struct slots *slots)
{
    if (slots->first)
        parker_wake(slots->first->parker);
}

static void join_slots(struct slots *slots, struct slots_waiter *waiter)
{
    CHECK(!slots->first == !slots->last);
    *(slots->last ? &slots->last->next : &slots->first) = waiter;
    slots->last = waiter;
}

/* Wherever it waits: once closed, they leave in any order. */
static void leave_slots(struct slots *slots, const struct slots_waiter *waiter)
{
    struct slots_waiter **link = &slots->first, *before = NULL;
    while (*link != waiter) {
        before = *link;
        link = &before->next;
    }
    *link = waiter->next;
    if (slots->last == waiter)
        slots->last = before;
    wake_first(slots);
}

static bool may_take_slot(const struct slots *slots, const struct slots_waiter *waiter)
{
    return slots->first == waiter && slots->taken < slots->most &&
           clock_boot_us() >= slots->next_at;
}

static bool enter(struct runner_gate *gate, struct parker *parker)
{
    struct slots *slots = (struct slots *)gate;
    struct slots_waiter waiter = {.parker = parker};
    join_slots(slots, &waiter);
    while (!gate->closed && !may_take_slot(slots, &waiter)) {
        bool is_next = slots->first == &waiter && slots->taken < slots->most;
        parker->park(parker, is_next ? slots->next_at : CLOCK_NEVER);
    }
    if (!gate->closed) {
        slots->taken++;
        CHECK(slots->taken <= slots->most);
        slots->next_at = clock_after(clock_boot_us(), slots->apart_us);
    }
    leave_slots(slots, &waiter);
    return !gate->closed;
}

static void leave(struct runner_gate *gate)
{
    struct slots *slots = (struct slots *)gate;
    CHECK(slots->taken > 0);
    slots->taken--;
    wake_first(slots);
}

void slots_init(struct slots *slots, size_t most, int64_t apart_us)
{
    CHECK(most > 0 && apart_us >= 0);
    *slots = (struct slots){
        .gate = {.enter = enter, .leave = leave}, .most = most, .apart_us = apart_us};
}

void slots_close(struct slots *slots)
{
    slots->gate.closed = true;
    for (struct slots_waiter *waiter = slots->first; waiter; waiter = waiter->next)
        parker_wake(waiter->parker);
}
