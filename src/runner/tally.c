/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/tally.h"

#include "base/check.h"
#include <stdio.h>

/* Without labels: those of the profile. */
static const struct {
    const char *series;
    const char *labels;
} events[] = {
    [TALLY_OPERATION] = {"pawl_retry_operations_total", NULL},
    [TALLY_RETRY] = {"pawl_retry_attempts_total", NULL},
    [TALLY_EXHAUSTED] = {"pawl_retry_exhausted_total", NULL},
    [TALLY_JOB_RUN] = {"pawl_jobs_total", "result=\"run\""},
    [TALLY_JOB_SKIPPED] = {"pawl_jobs_total", "result=\"skipped\""},
    [TALLY_JOB_FAILED] = {"pawl_jobs_total", "result=\"failed\""},
    [TALLY_JOB_DOUBT] = {"pawl_jobs_total", "result=\"doubt\""},
};

void tally_init(struct tally *tally, enum retry_profile profile, int64_t token)
{
    tally->n = 0;
    tally->slot = (int)((uint64_t)token % STORE_COUNTER_SLOTS);
    tally->labels[0] = '\0';
    if (profile == RETRY_PROFILE_COUNT)
        return;
    int len = snprintf(tally->labels, sizeof tally->labels, "profile=\"%.*s\"",
                       SLICE_ARG(retry_profile_name(profile)));
    CHECK(len > 0 && (size_t)len < sizeof tally->labels);
}

void tally_add(struct tally *tally, enum tally_event event, int64_t n)
{
    const char *labels = events[event].labels ? events[event].labels : tally->labels;
    if (!labels[0])
        return;
    CHECK(tally->n < TALLY_MOST);
    struct store_counter *counter = &tally->counters[tally->n];
    *counter = (struct store_counter){.name = slice_of(events[event].series),
                                      .labels = slice_of(labels),
                                      .slot = tally->slot,
                                      .value = n};
    tally->changes[tally->n++] =
        (struct table_change){.table = &counter_table, .act = TABLE_ADD, .row = &counter->row};
}
