/* SPDX-License-Identifier: Apache-2.0 */
/*
 * retry: when an operation is tried again, and when no more (contract section 6). Pure: times come
 * in as microseconds of the caller's monotonic clock, chance as a seed, and the same arguments give
 * the same result on every machine. Nothing here waits or sends.
 *
 *      attempt ---> retry_classify: what its end means -----------> RETRY_DONE, RETRY_FINAL: ends
 *         ^                                      |
 *         |                                      v
 *         '--- waits until `at` <--- retry_plan_next ---> ENDS_ATTEMPTS, ENDS_DEADLINE,
 *                                       ^    ^            ENDS_HINT: the last response stands
 *              retry_read_hint: --------'    '---- retry_budget_take; empty: the same
 *              Retry-After
 *
 * Attempts are counted from 1. The caller owns every struct; texts are static.
 */
#ifndef PAWL_CORE_RETRY_H
#define PAWL_CORE_RETRY_H

#include "base/arena.h"
#include "base/clock.h"
#include "core/disposition.h"
#include "core/retry_profiles.h"

/* ---- profiles ---- */

#define RETRY_ATTEMPTS_MAX 10

/* How chance changes a delay d. Whole milliseconds are drawn, so that any language can repeat them;
 * what exceeds the cap becomes the cap. */
enum retry_jitter {
    RETRY_JITTER_NONE,   /* d */
    RETRY_JITTER_FULL,   /* 0 to d */
    RETRY_JITTER_SPREAD, /* d to 2d */
    RETRY_JITTER_UPWARD, /* d to d + d * `part`: never before a promised time */
    RETRY_JITTER_ADDED,  /* d to d + `base` */
};

enum retry_form {
    RETRY_BACKOFF, /* base, 2 base, 4 base, ..: the delay before attempts 2, 3, 4, .. */
    RETRY_DELAYS,  /* a list of such delays */
    RETRY_OFFSETS, /* a list of times since the first attempt, increasing, the first of them 0 */
};

struct retry_schedule {
    enum retry_form form;
    enum retry_jitter jitter;
    int part_percent;      /* with RETRY_JITTER_UPWARD: of the delay; of offsets of the step from
                              the one before. The last offset is exact: there the deadline is */
    int attempts;          /* 1 to RETRY_ATTEMPTS_MAX, the first one counted */
    int64_t total_us;      /* from the first attempt on; CLOCK_NEVER: no limit */
    int64_t base_us;       /* RETRY_BACKOFF */
    int64_t cap_us;        /* of one delay, chance included; CLOCK_NEVER: none */
    const int64_t *list;   /* RETRY_DELAYS: attempts - 1; RETRY_OFFSETS: attempts */
    bool timeout_by_delay; /* the first 408, too, is retried by schedule: not at once */
};

/* Its name, and its schedule. */
struct slice retry_profile_name(enum retry_profile profile);
const struct retry_schedule *retry_profile_schedule(enum retry_profile profile);

/* The profile of that name. False: there is none. */
bool retry_profile_find(struct slice name, enum retry_profile *ret_profile);

/* Delays of a caller's own in place of the profile's: `n` of them, 1 to RETRY_ATTEMPTS_MAX - 1, and
 * so n + 1 attempts, each delay spread upward by RETRY_DELAYS_SPREAD_PERCENT. The rest stays the
 * profile's. The schedule borrows the list. */
#define RETRY_DELAYS_SPREAD_PERCENT 10
void retry_schedule_set_delays(struct retry_schedule *schedule, const int64_t *delays, int n);

/* The time from the first attempt to the last one where each took none, and chance adds most. */
int64_t retry_schedule_most_us(const struct retry_schedule *schedule);

/* The delay before attempt `attempt` (2 to `attempts`) under a seed; of offsets, with every attempt
 * on time and none of them taking any. */
int64_t retry_delay_us(const struct retry_schedule *schedule, int attempt, uint64_t seed);

/* ---- what an attempt's end means ---- */

enum retry_class {
    RETRY_DONE,        /* a success, or said to be one already */
    RETRY_FINAL,       /* the same request would end the same way */
    RETRY_LATER,       /* retried by schedule */
    RETRY_AT_ONCE,     /* a 408: the first by the profile's choice at once */
    RETRY_IN_PROGRESS, /* the same operation is running: waited out */
};

/* The column of the one table (retry.c) by which an end is judged. */
enum retry_column {
    RETRY_BY_CALL,    /* whoever calls a service to have something done */
    RETRY_BY_WEBHOOK, /* whoever tells a receiver: only 2xx is done, only 410 is final */
};

/* By that column: how the exchange ended, and of a response its status and its error code
 * (retry_read_code); 0 and empty without one. */
enum retry_class retry_classify_by(enum retry_column column, enum exchange_end end, int status,
                                   struct slice code);

/* By RETRY_BY_CALL. */
enum retry_class retry_classify(enum exchange_end end, int status, struct slice code);

/* The error code of a response that has one: its Error-Code, else `error_code` or `error.code` of a
 * JSON body of at most RETRY_CODE_BODY_MAX bytes, read with `arena`; empty: it has none. */
#define RETRY_CODE_BODY_MAX ((size_t)16 * 1024)
struct slice retry_read_code(const struct headers *headers, struct slice body, struct arena *arena);

/* How long Retry-After asks to wait from now on, from 0 up, CLOCK_NEVER at most. A hint is digits
 * or an HTTP date in exactly one line (`wall_us`: what time that is compared with); anything else
 * is RETRY_NO_HINT. Whoever sends it is not trusted: retry_plan_next bounds it. */
#define RETRY_NO_HINT INT64_C(-1)
int64_t retry_read_hint(const struct headers *headers, int64_t wall_us);

/* ---- the next attempt ---- */

#define RETRY_IN_PROGRESS_US (INT64_C(2) * CLOCK_US_PER_S)   /* where no hint says how long */
#define RETRY_HINT_MOST_US (INT64_C(86400) * CLOCK_US_PER_S) /* where no deadline bounds it */
/* A hint is spread by up to itself where it is not longer than this; a longer one by this or, if it
 * is more, by that part of it. */
#define RETRY_HINT_SPREAD_US (INT64_C(10) * CLOCK_US_PER_S)
#define RETRY_HINT_SPREAD_PERCENT 10

/* The attempts at one operation. The caller counts `attempts` up as each begins. */
struct retry_course {
    const struct retry_schedule *schedule;
    uint64_t seed;
    int64_t first_at; /* when the first attempt began */
    int64_t deadline; /* by schedule or caller (X-Request-Timeout), whichever is first */
    int attempts;     /* begun so far */
    bool had_408;
};

/* A course whose first attempt begins now. `deadline`: the caller's own, CLOCK_NEVER for none. */
struct retry_course retry_course_make(const struct retry_schedule *schedule, uint64_t seed,
                                      int64_t now, int64_t deadline);

enum retry_end {
    RETRY_GOES_ON,
    RETRY_ENDS_ATTEMPTS, /* there are no more of them */
    RETRY_ENDS_DEADLINE, /* the next would be after the deadline */
    RETRY_ENDS_HINT,     /* the same, because Retry-After asks for it */
    RETRY_ENDS_BUDGET,   /* the budget for retries is used up */
};

struct retry_next {
    enum retry_end end;
    int64_t at; /* with RETRY_GOES_ON: never before the hint, nor the schedule */
};

/* What follows on an attempt that ended now as one of the last three classes. A hint is honoured,
 * and spread upward within the deadline, so that clients that were given the same one do not return
 * together: those that were given one date have gathered for the whole time until it, and retries
 * spread over as long a time return at the rate at which they came. A hint beyond the deadline ends
 * the attempts. Offsets that have passed are skipped, not made up. */
struct retry_next retry_plan_next(struct retry_course *course, enum retry_class class,
                                  int64_t hint_us, int64_t now);

/* ---- the budget ---- */

/*
 * A bucket of tokens for the retries to one target: each first attempt brings a fifth of one, and
 * time as many as make ten a second of both. So retries are at most a fifth of the first attempts,
 * or ten a second if that is more, beyond the full bucket of the beginning.
 */
#define RETRY_TOKEN INT64_C(1000000)
#define RETRY_BUDGET_PER_REQUEST (RETRY_TOKEN / 5)
#define RETRY_BUDGET_PER_US INT64_C(10) /* ten tokens a second */
#define RETRY_BUDGET_MOST (INT64_C(100) * RETRY_TOKEN)

struct retry_budget {
    int64_t tokens; /* in millionths */
    int64_t ahead;  /* what requests brought, and time would have brought since */
    int64_t at;     /* of the last change */
};

/* A full one. */
struct retry_budget retry_budget_make(int64_t now);

/* A first attempt is sent. */
void retry_budget_add_request(struct retry_budget *budget, int64_t now);

/* Takes the token of a retry. False: there is none. */
bool retry_budget_take(struct retry_budget *budget, int64_t now);

#endif
