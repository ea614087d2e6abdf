/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lanes: where tasks go, and how many attempts may be under way there (contract section 9). Pure:
 * times are the caller's boot clock, nothing here waits or sends.
 *
 *               10 attempts in 5 min, 70 % failed             30 s over
 *      closed -----------------------------------> open -----------------> half open
 *        ^                                          ^                       |   |
 *        |                                          '------ probe failed ---'   |
 *        '---- concurrency 1, 2, 4, .. ---------------------- probe succeeded --'
 *
 * A lane that could not be reached rests, 1 s doubling to 5 min, and then takes one attempt at a
 * time until one reaches it. Retries spend the budget of core/retry. What has nothing to say any
 * more is forgotten, so that memory goes with the lanes that are in use, not with all there are.
 */
#ifndef PAWL_COURIER_LANES_H
#define PAWL_COURIER_LANES_H

#include "core/retry/retry.h"

#define LANES_OVERALL 256   /* attempts under way in one process */
#define LANES_IN_FLIGHT 4   /* in one lane, where its kind does not say another number */
#define LANES_KEPT_MAX 4096 /* lanes remembered; those in use always are */

#define LANE_WINDOW_US (INT64_C(300) * CLOCK_US_PER_S)
#define LANE_OPENS_AT 10
#define LANE_OPENS_PERCENT 70
#define LANE_OPEN_US (INT64_C(30) * CLOCK_US_PER_S)
#define LANE_REST_LEAST_US CLOCK_US_PER_S
#define LANE_REST_MOST_US (INT64_C(300) * CLOCK_US_PER_S)

enum lane_breaker { LANE_CLOSED, LANE_OPEN, LANE_HALF_OPEN };

struct lane;
struct lanes;

/* At most `overall` attempts at a time. NULL: no memory. */
struct lanes *lanes_new(int overall);
/* Accepts NULL. */
void lanes_free(struct lanes *lanes);

/* The lane of that name; made where it is new, with room for `in_flight`, which may be another one
 * each time. Valid until the next call of this function, and while an attempt is under way there.
 * NULL: no memory. */
struct lane *lanes_find(struct lanes *lanes, struct slice kind, struct slice name, int in_flight,
                        int64_t now);

/* How many attempts may begin now; 0: none before `*ret_until`, CLOCK_NEVER: none until another one
 * has ended. */
int lanes_room(const struct lanes *lanes, const struct lane *lane, int64_t now, int64_t *ret_until);

/* Whether as many attempts are under way as the process may have. */
bool lanes_are_full(const struct lanes *lanes);

/* An attempt that is under way; the caller's memory. */
struct lane_attempt {
    struct lane *lane;
    unsigned phase; /* of the breaker, when it began */
};

/* An attempt begins, for which there is room. False: it is a retry, and the budget has no token:
 * nothing began, and nothing does in this lane before lanes_room says so. */
bool lanes_begin(struct lanes *lanes, struct lane *lane, bool is_retry, int64_t now,
                 struct lane_attempt *ret_attempt);

enum lane_end {
    LANE_SUCCEEDED, /* there was a response that is no failure of the lane */
    LANE_FAILED,
    LANE_UNREACHED, /* the same, and the lane rests */
    LANE_UNCOUNTED, /* says nothing about the lane: nothing was sent, or an operator sent it */
};

/* The attempt ended. One that began before the breaker opened or closed says nothing any more. */
void lanes_end(struct lanes *lanes, const struct lane_attempt *attempt, enum lane_end end,
               int64_t now);

/* What it is doing. */
int lane_in_flight(const struct lane *lane);
enum lane_breaker lane_breaker(const struct lane *lane, int64_t now);

/* Visits every lane that is remembered, in no order. */
typedef void (*lanes_visitor)(void *argument, struct slice kind, struct slice name,
                              enum lane_breaker breaker);
void lanes_visit(const struct lanes *lanes, int64_t now, lanes_visitor visit, void *argument);

/* For metrics. */
struct lanes_counts {
    size_t kept;
    int in_flight;
    size_t open;     /* breakers that are not closed */
    uint64_t opened; /* ever */
};
struct lanes_counts lanes_count(const struct lanes *lanes, int64_t now);

#endif
