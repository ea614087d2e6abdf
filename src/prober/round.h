/* SPDX-License-Identifier: Apache-2.0 */
/*
 * round: when the prober looks for records that a dead owner left behind. Only a walk of all
 * records finds them, some in each second: an index on what a finish changes would cost every
 * operation more (docs/decisions/0023). So after a round that found no record that a rule
 * probes the prober rests for ROUND_REST_US, or until the number of lapsed leases changes. Pure;
 * the struct is the caller's memory, zero at first.
 */
#ifndef PAWL_PROBER_ROUND_H
#define PAWL_PROBER_ROUND_H

#include "base/clock.h"

#define ROUND_REST_US (INT64_C(60) * CLOCK_US_PER_S)

struct round {
    bool found;         /* some that a rule probes, in this round */
    int64_t rest_until; /* 0: it goes on */
    int64_t stale;      /* how many leases had lapsed when the rest began */
};

/* Whether to look at the next records: `stale` leases have lapsed now. */
bool round_is_due(const struct round *round, int64_t now, int64_t stale);

/* Some were looked at: whether there was one that a rule probes, and whether the round ended. */
void round_note(struct round *round, bool found, bool ended, int64_t now, int64_t stale);

#endif
