/* SPDX-License-Identifier: Apache-2.0 */
/* When the hold of a record in doubt ends. */
#include "core/record.h"

/* 0: without an end. */
static int64_t longer_hold(const struct record *record, const struct record_begin *begin)
{
    bool repeats = record_repeats(begin->unknown); /* it holds for no time itself */
    if (record_repeats(record->unknown))
        return repeats ? 0 : begin->hold_us;
    if (record->unknown == RECORD_UNKNOWN_PROBE || record->hold_us == 0)
        return 0;
    if (repeats)
        return record->hold_us;
    return begin->hold_us == 0 ? 0 : clock_last(record->hold_us, begin->hold_us);
}

int64_t record_held_until(const struct record *record, const struct record_begin *begin,
                          enum record_lease lease)
{
    bool lapsed = record->status == RECORD_PENDING && lease == RECORD_LEASE_LAPSED &&
                  !record_is_asking(record);
    int64_t hold_us = longer_hold(record, begin), quiet_at = record->quiet_at;
    if (begin->unknown == RECORD_UNKNOWN_PROBE || record->odd || hold_us == 0 ||
        (record->status != RECORD_UNKNOWN && !lapsed))
        return CLOCK_NEVER;
    if (lapsed && !record->probing) /* as a begin that finds it so notes it */
        quiet_at =
            clock_last(quiet_at, clock_after(record->lapsed_at,
                                             clock_last(record->settle_us, begin->settle_us)));
    return clock_after(quiet_at, hold_us);
}

bool record_outlived_hold(const struct record *met, const struct record *acquired)
{
    bool lapsed = met->status == RECORD_PENDING && met->lease_until != 0 && !record_is_asking(met);
    return (lapsed || met->status == RECORD_UNKNOWN) && acquired->token != met->token &&
           !acquired->doubt;
}
