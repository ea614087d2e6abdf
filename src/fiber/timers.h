/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deadlines of one loop: a binary heap, room for all of them taken at the start, so that arming
 * one never fails. A timer knows its index in the heap and is taken out in O(log n).
 */
#ifndef PAWL_FIBER_TIMERS_H
#define PAWL_FIBER_TIMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timer {
    size_t index; /* in the heap, from 1; 0: not armed */
};

struct timer_slot {
    int64_t deadline_us;
    struct timer *timer;
};

struct timers {
    struct timer_slot *heap; /* heap[0] is unused */
    size_t n;
    size_t room;
};

/* False: out of memory. */
bool timers_init(struct timers *timers, size_t room);
void timers_fini(struct timers *timers);

/* Arms an idle timer. CLOCK_NEVER takes no slot. At most `room` at a time. */
void timers_arm(struct timers *timers, struct timer *timer, int64_t deadline_us);

/* Accepts an idle timer. */
void timers_disarm(struct timers *timers, struct timer *timer);

/* The earliest deadline, CLOCK_NEVER when none is armed. */
int64_t timers_next(const struct timers *timers);

/* Disarms and returns the earliest timer whose deadline is at or before `now_us`, or NULL. */
struct timer *timers_take_due(struct timers *timers, int64_t now_us);

#endif
