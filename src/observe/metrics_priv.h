/* SPDX-License-Identifier: Apache-2.0 */
/* What metrics.c counts and page.c writes. Users include metrics.h. */
#ifndef PAWL_OBSERVE_METRICS_PRIV_H
#define PAWL_OBSERVE_METRICS_PRIV_H

#include "base/thread.h"
#include "observe/metrics.h"
#include <stdatomic.h>

#define X(bound, text) +1
enum { METRICS_BUCKET_COUNT = METRICS_BUCKETS(X) };
#undef X

/* The last bucket is that of everything above the bounds. */
struct histogram {
    atomic_ullong bucket[METRICS_BUCKET_COUNT + 1];
    atomic_ullong sum_us;
};

struct metrics_rule {
    atomic_ullong outcomes[METRICS_OUTCOME_COUNT];
    struct histogram request;
    struct histogram upstream;
    atomic_ullong participant_missing;
    atomic_ullong holds_ended;
    atomic_ullong unproved;
    struct slice name;
    char text[]; /* the name's bytes */
};

#define METRICS_CLASSES 5  /* of a status: 1xx to 5xx */
#define METRICS_SLOTS 1024 /* of the hash table: a power of two, four times the names */

/* A slot is filled once and never emptied: readers need no lock. */
struct metrics {
    _Atomic(struct metrics_rule *) slots[METRICS_SLOTS];
    _Atomic(struct metrics_rule *) named[METRICS_RULES_MAX]; /* in order of arrival */
    atomic_size_t n_named;
    struct metrics_rule *unruled;
    struct metrics_rule *other;
    atomic_ullong responses[METRICS_CLASSES];
    atomic_ullong failures[METRICS_FAILURE_COUNT];
    atomic_ullong limits[METRICS_LIMIT_COUNT];
    atomic_ullong probes[METRICS_PROBE_COUNT];
    atomic_ullong retry_operations[RETRY_PROFILE_COUNT];
    atomic_ullong retry_attempts[RETRY_PROFILE_COUNT];
    atomic_ullong retry_exhausted[RETRY_PROFILE_COUNT];
    struct histogram retry_delay;
    struct mutex adding;
    struct mutex storing;
    struct buf stored[METRIC_COUNT]; /* under `storing`: samples of the store */
    atomic_ullong admin_refused[2];  /* 401, 403 */
    atomic_ullong reloads[2];        /* failed, successful */
    atomic_bool reload_failed;
};

#endif
