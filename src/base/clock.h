/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two clocks, in microseconds. Wall time is for what is stored (it may step); boot time
 * (CLOCK_BOOTTIME, goes on in suspend, never steps) is for deadlines and for an attempt's own view
 * of its lease. Builds with hooks read both from the file $PAWL_TEST_CLOCK names, where a test
 * moves them: it holds one little-endian int64, microseconds added to both clocks.
 */
#ifndef PAWL_BASE_CLOCK_H
#define PAWL_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define CLOCK_US_PER_MS INT64_C(1000)
#define CLOCK_US_PER_S INT64_C(1000000)
#define CLOCK_NEVER INT64_MAX

int64_t clock_wall_us(void);
int64_t clock_boot_us(void);

#ifdef PAWL_HOOKS
/* From now on both clocks stand at these values; boot 0: the machine's again. */
void clock_test_set(int64_t wall_us, int64_t boot_us);
/* Whether a test moved them: then they are no clocks of this machine. */
bool clock_test_moved(void);
#endif

/* Which boot of which machine boot time counts in; 0: not known. */
int64_t clock_boot_id(void);

/* base + duration without overflow; CLOCK_NEVER stays never. A negative duration is over already.
 */
static inline int64_t clock_after(int64_t base_us, int64_t duration_us)
{
    return duration_us > 0 && base_us > CLOCK_NEVER - duration_us ? CLOCK_NEVER
                                                                  : base_us + duration_us;
}

/* Whichever comes first. */
static inline int64_t clock_first(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

/* Whichever comes last; of two durations the longer one. */
static inline int64_t clock_last(int64_t a_us, int64_t b_us)
{
    return a_us > b_us ? a_us : b_us;
}

/* Microseconds from `now_us` until `then_us`, not below 0. */
static inline int64_t clock_left(int64_t now_us, int64_t then_us)
{
    int64_t left;
    if (then_us <= now_us)
        return 0;
    return __builtin_sub_overflow(then_us, now_us, &left) ? CLOCK_NEVER : left;
}

/* The same in seconds, rounded up. */
static inline int64_t clock_seconds_left(int64_t now_us, int64_t then_us)
{
    int64_t left = clock_left(now_us, then_us);
    return left / CLOCK_US_PER_S + (left % CLOCK_US_PER_S > 0);
}

/* Milliseconds from `now_us` until `deadline_us` for poll-like calls: 0 when passed, -1 for never,
 * rounded up, at most one day. */
int clock_ms_left(int64_t now_us, int64_t deadline_us);

/* The same from now on. With hooks a few at most: a test moves the clock, and wakes nobody. */
static inline int clock_poll_ms(int64_t deadline_us)
{
    int ms = clock_ms_left(clock_boot_us(), deadline_us);
#ifdef PAWL_HOOKS
    if (ms < 0 || ms > 5)
        return 5;
#endif
    return ms;
}

#endif
