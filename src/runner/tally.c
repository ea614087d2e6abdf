/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/tally.h"

#include "base/check.h"
#include <stdio.h>

void tally_init(struct tally *tally, enum retry_profile profile, int64_t token)
{
    tally->n = 0;
    tally->slot = (int)((uint64_t)token % STORE_COUNTER_SLOTS);
    int len = snprintf(tally->labels, sizeof tally->labels, "profile=\"%.*s\"",
                       SLICE_ARG(retry_profile_name(profile)));
    CHECK(len > 0 && (size_t)len < sizeof tally->labels);
}

void tally_add(struct tally *tally, enum tally_event event)
{
    static const char *const series[] = {
        [TALLY_OPERATION] = "pawl_retry_operations_total",
        [TALLY_RETRY] = "pawl_retry_attempts_total",
        [TALLY_EXHAUSTED] = "pawl_retry_exhausted_total",
    };
    CHECK(tally->n < TALLY_MOST);
    struct store_counter *counter = &tally->counters[tally->n];
    *counter = (struct store_counter){.name = slice_of(series[event]),
                                      .labels = slice_of(tally->labels),
                                      .slot = tally->slot,
                                      .value = 1};
    tally->changes[tally->n++] =
        (struct table_change){.table = &counter_table, .act = TABLE_ADD, .row = &counter->row};
}
