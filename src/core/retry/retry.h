/* SPDX-License-Identifier: Apache-2.0 */
/*
 * retry: when an operation is tried again, and when no more (contract section 6). Pure: times come
 * in as microseconds of the caller's monotonic clock, chance as a seed, and the same arguments give
 * the same result on every machine. Nothing here waits or sends.
 *
 *      attempt ---> retry_judge: what its end means ---------> RETRY_DONE .. RETRY_CREDENTIALS:
 * ends ^                                      | |                                      v
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
#include "core/request/condition.h"
#include "core/retry/disposition.h"
#include "core/retry/retry_profiles.h"

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
    RETRY_DONE,         /* a success, or said to be one already */
    RETRY_FINAL,        /* the same request would end the same way; while an attempt is in doubt:
                           and nothing is in doubt any more */
    RETRY_IN_DOUBT,     /* the same, and nobody knows whether this or an earlier attempt did it */
    RETRY_CREDENTIALS,  /* it is about who sends it (401, 407), and says nothing of the operation */
    RETRY_LATER,        /* retried by schedule */
    RETRY_AT_ONCE,      /* a 408: the first by the profile's choice at once */
    RETRY_BUSY,         /* the same operation is running, or not settled yet: waited out */
    RETRY_BUSY_A_WHILE, /* it may be so: for RETRY_BUSY_MOST_US (retry_bound_busy) */
};

/* Who asks. */
enum retry_column {
    RETRY_BY_CALL,    /* whoever calls a service to have something done */
    RETRY_BY_HANDLER, /* the same, where a refusal is the operator's to mend: 401, 403, 407 */
    RETRY_BY_WEBHOOK, /* whoever tells a receiver: only 2xx is done, only 410 is final */
};

enum retry_advice { RETRY_ADVICE_NONE, RETRY_ADVICE_AGAIN, RETRY_ADVICE_NEVER };

/* What a gateway of pawl's says of a 2xx, which its rule sorts by more than the status. */
enum retry_success {
    RETRY_SUCCESS_STANDS, /* or there is none */
    RETRY_SUCCESS_UNDONE, /* surely not done */
    RETRY_SUCCESS_UNSURE, /* nobody knows */
};

/* How an attempt ended. All zero but for the first two, where no more is known. */
struct retry_answer {
    enum exchange_end end;
    int status;               /* 0: no response */
    struct slice code;        /* its error code; empty: it has none */
    enum retry_advice advice; /* what it says itself about a retry */
    bool is_outstanding;      /* in the words of the IETF draft its request is still running */
    bool is_limited;          /* it says when, or that nothing is left of a limit */
    bool is_not_done;         /* retry_says so */
    enum retry_success success;
};

/* What a caller has chosen for single statuses. All zero: nothing. */
enum retry_choice {
    RETRY_CHOICE_NONE,
    RETRY_CHOICE_DONE,
    RETRY_CHOICE_LATER,
    RETRY_CHOICE_WAIT,  /* it is about who sends it, as 401 */
    RETRY_CHOICE_FINAL, /* it is not, whatever it says */
};
#define RETRY_STATUS_MOST 999
#define RETRY_CONDITIONS_MOST 16
struct retry_choices {
    unsigned char of[RETRY_STATUS_MOST + 1];          /* enum retry_choice */
    struct condition not_done[RETRY_CONDITIONS_MOST]; /* any of them: later, whatever the status */
    size_t n_not_done;
    int attempts;        /* of a queued operation at most; 0: any number */
    int64_t remember_us; /* its success, at least; 0: not said */
};
#define RETRY_CHOICE_ATTEMPTS_MOST 1000000

/* Chooses for each of a list such as `409,422`. False: it is none, or a status has another choice
 * already. */
bool retry_choose(struct retry_choices *choices, struct slice list, enum retry_choice choice);

/* Reads them from lines as they are stored: `done=409`, `later=422,423`, `wait-on=403`,
 * `final-on=401`, `attempts=10`, `remember=86400` (seconds). False: others are there.
 */
bool retry_choices_read(struct retry_choices *choices, struct slice lines);

/* Adds a condition under which a response says that it was not done; borrows it. False: it is none
 * (condition_read), or one too many. */
bool retry_choose_not_done(struct retry_choices *choices, struct slice condition);

/* SAYS_NOT_DONE: one of these conditions holds; SAYS_IN_DOUBT: there was no memory to look at them.
 * `body`: all of it, or empty. */
enum response_says retry_says(const struct retry_choices *choices, const struct headers *headers,
                              struct slice body);

/* Whether the response to a request with these headers is none of its target's, but of a portal on
 * the way, such as the login page of a hotel's network, which reaches nobody: without TLS a
 * redirect, and a page of HTML (200, 511) where JSON was asked for, by Accept or by being sent. Not
 * where `choices` (NULL: none) name the status, nor where a gateway of pawl's has responded. */
bool retry_is_of_portal(bool is_tls, const struct headers *sent, int status,
                        const struct headers *headers, const struct retry_choices *choices);

/* What it means: the one place where that is decided (contract section 6). `choices` NULL: none.
 * `in_doubt`: an earlier attempt under this key may have had its effect. */
enum retry_class retry_judge(enum retry_column column, const struct retry_answer *answer,
                             const struct retry_choices *choices, bool in_doubt);

/* Whether a response of this status leaves open whether the operation was done; and whether this
 * one does, a success of which a gateway says so and `outcome_unknown` among them. */
bool retry_leaves_doubt(int status);
bool retry_answer_leaves_doubt(const struct retry_answer *answer);

/* RETRY_BUSY_A_WHILE as RETRY_BUSY, until the time is over that began at `busy_since` (0: now); any
 * other class as it is. */
#define RETRY_BUSY_MOST_US (INT64_C(15) * 60 * CLOCK_US_PER_S)
enum retry_class retry_bound_busy(enum retry_class class, int64_t busy_since, bool in_doubt,
                                  int64_t now);

/* Fills in what a response says beside its status, which `answer` has. Its error code is its
 * Error-Code, else the first text at `/error_code`, `/error/code`, `/errorCode`, `/details/0/issue`
 * of a JSON body of at most RETRY_CODE_BODY_MAX bytes, read with `arena`, in which texts lie.
 * False: there was no memory to read a body that may say what the status means: it is as if no
 * response had come. A success is one whatever its body says. */
#define RETRY_CODE_BODY_MAX ((size_t)16 * 1024)
bool retry_read_answer(const struct headers *headers, struct slice body, struct arena *arena,
                       struct retry_answer *answer);

/* How long Retry-After asks to wait from now on, from 0 up, CLOCK_NEVER at most. A line is
 * an HTTP date (`wall_us`: what time that is compared with), or seconds, with a fraction or without
 * (rounded up), or a list of them, of which the largest counts; of several lines the longest one
 * counts. Anything else is RETRY_NO_HINT. Whoever sends it is not trusted: retry_plan_next bounds
 * it. */
#define RETRY_NO_HINT INT64_C(-1)
int64_t retry_read_hint(const struct headers *headers, int64_t wall_us);

/* ---- the next attempt ---- */

/* What is busy is asked again after its hint, though not at once, else after so long: doubled. */
#define RETRY_BUSY_LEAST_US (INT64_C(1) * CLOCK_US_PER_S)
#define RETRY_BUSY_FIRST_US (INT64_C(2) * CLOCK_US_PER_S)
#define RETRY_BUSY_LAST_US (INT64_C(30) * CLOCK_US_PER_S)
#define RETRY_HINT_MOST_US (INT64_C(86400) * CLOCK_US_PER_S) /* where no deadline bounds it */
/* A hint is spread by up to itself where it is not longer than this; a longer one by this or, if it
 * is more, by that part of it. */
#define RETRY_HINT_SPREAD_US (INT64_C(10) * CLOCK_US_PER_S)
#define RETRY_HINT_SPREAD_PERCENT 10

/* The attempts at one operation. The caller counts `attempts` up as each begins; one that found the
 * operation busy is taken back by the plan of the next. */
struct retry_course {
    const struct retry_schedule *schedule;
    uint64_t seed;
    int64_t first_at;   /* when the first attempt began */
    int64_t deadline;   /* by schedule or caller (X-Request-Timeout), whichever is first */
    int attempts;       /* begun so far, and counted */
    int uncounted;      /* begun, and taken back */
    int64_t busy_since; /* when the first of the last answers said that it is busy; 0: none did */
    bool had_408;
};

/* How many have begun. */
int retry_course_sent(const struct retry_course *course);

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

/* What follows on an attempt that ended now as RETRY_LATER or a class behind it. A hint is
 * honoured, and spread upward within the deadline, so that clients that were given the same one do
 * not return together: those that were given one date have gathered for the whole time until it,
 * and retries spread over as long a time return at the rate at which they came. A hint beyond the
 * deadline ends the attempts. Offsets that have passed are skipped, not made up. What is busy goes
 * by no schedule and uses up no attempt: only the deadline ends it. */
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
