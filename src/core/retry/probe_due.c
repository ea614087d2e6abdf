/* SPDX-License-Identifier: Apache-2.0 */
#include "core/retry/probe_due.h"
#include "core/retry/retry.h"

/* When the doubt arose: `settle` before quiet_at. */
static int64_t doubted_at(const struct record *record)
{
    int64_t doubted = record->quiet_at - record->settle_us;
    return doubted > record->created_at ? doubted : record->created_at;
}

int64_t probe_due(const struct record *record)
{
    const struct retry_schedule *schedule = retry_profile_schedule(RETRY_PROFILE_background);
    int64_t due = doubted_at(record);
    for (int attempt = 2; attempt <= schedule->attempts && due <= record->started_at; attempt++)
        due = clock_after(due, retry_delay_us(schedule, attempt, (uint64_t)record->created_at));
    if (due <= record->started_at)
        due = clock_after(record->started_at, RECORD_PROBE_LATER_US);
    return record->started_at < record->quiet_at ? clock_first(due, record->quiet_at) : due;
}
