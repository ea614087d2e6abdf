/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tally: what an attempt adds to the store's counters (store/tables/tasks.h), in the commit that
 * stores its end. No `serve` sees what commands do: they count there, and `pawl stats` and every
 * `serve` on that store show it (operator/counters.h).
 */
#ifndef PAWL_RUNNER_TALLY_H
#define PAWL_RUNNER_TALLY_H

#include "store/tables/tasks.h"

#define TALLY_MOST                                                                                 \
    3 /* an operation begins or is tried again, is exhausted, and a job has ended                  \
       */
#define TALLY_LABELS 64

enum tally_event {
    TALLY_OPERATION,   /* its first attempt */
    TALLY_RETRY,       /* another one */
    TALLY_EXHAUSTED,   /* it failed, with no attempt, time or budget left */
    TALLY_JOB_RUN,     /* a job (`run`, `each`) was done now, */
    TALLY_JOB_SKIPPED, /*   or had been before, */
    TALLY_JOB_FAILED,  /*   failed, */
    TALLY_JOB_DOUBT,   /*   or may have been done, and is not run again before that is settled */
};

/* Not to be moved: the changes point into it. */
struct tally {
    char labels[TALLY_LABELS];
    struct store_counter counters[TALLY_MOST];
    struct table_change changes[TALLY_MOST];
    size_t n;
    int slot;
};

/* `token` spreads what processes add over the slots. RETRY_PROFILE_COUNT: it is retried by no
 * profile, and the first three events are not counted. */
void tally_init(struct tally *tally, enum retry_profile profile, int64_t token);
/* `n` of them. */
void tally_add(struct tally *tally, enum tally_event event, int64_t n);

#endif
