/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold of any record, and what becomes of one of which it does not. */
#include "base/check.h"
#include "core/record.h"

/* Tokens are times, and one at the end of their range would leave none for any other record. */
static bool is_sound_token(int64_t token)
{
    return token > 0 && token <= RECORD_TIME_MOST;
}

/* Durations and times that are added up. */
static bool has_sound_times(const struct record *record)
{
    return record->lease_us >= 0 && record->hold_us >= 0 && record->settle_us >= 0 &&
           record->quiet_at >= 0 && record->ttl_us >= 0 && record->least_us >= 0 &&
           record->doubted_us >= 0 && record->tombstone_us >= 0 && record->once_ttl_us >= 0 &&
           record->once_until >= 0 && record->created_at >= 0 && record->started_at >= 0 &&
           record->lease_until >= 0 && record->completed_at >= 0 && record->expires_at >= 0 &&
           record->gone_at >= 0;
}

bool record_is_sound(const struct record *record)
{
    bool final = record_is_final(record->status), leased = record->lease_until != 0;
    if (record->status <= RECORD_ABSENT || record->status > RECORD_UNKNOWN)
        return record->status == RECORD_ABSENT;
    return is_sound_token(record->token) && record->attempts > 0 &&
           record->unknown <= RECORD_UNKNOWN_PARTICIPANT && record->cause >= 0 &&
           record->http_status >= 0 && record->http_status <= 999 && has_sound_times(record) &&
           (!leased || record->status == RECORD_PENDING || record->provisional) &&
           (!record->provisional || (final && leased && record->expires_at == CLOCK_NEVER &&
                                     record->gone_at == CLOCK_NEVER)) &&
           (!record->probing || (leased && record->doubt)) && record->asking >= 0 &&
           record->asking <= record->token &&
           (!final || (record->gone_at >= record->expires_at && !record->doubt)) &&
           (record->status != RECORD_UNKNOWN || !record_repeats(record->unknown));
}

/* What a person does with it begins with times that can be added up, and for ever rather than over:
 * a release that comes too early would need force. */
void record_hold(struct record *record, int64_t id)
{
    int64_t silent_at =
        clock_after(clock_last(record->lease_until, 0), clock_last(record->settle_us, 0));
    struct record held = {.odd = true,
                          .status = RECORD_UNKNOWN,
                          .unknown = RECORD_UNKNOWN_HOLD,
                          .cause = RECORD_CAUSE_ODD,
                          .doubt = true,
                          .token = is_sound_token(record->token) ? record->token
                                   : is_sound_token(id)          ? id
                                                                 : 1,
                          .attempts = record->attempts > 1 ? record->attempts : 1,
                          .payload_hash = record->payload_hash,
                          .target_hash = record->target_hash,
                          .created_at = clock_last(record->created_at, 0),
                          .started_at = clock_last(record->started_at, 0),
                          .quiet_at = clock_last(record->quiet_at, silent_at),
                          .ttl_us = record->ttl_us > 0 ? record->ttl_us : CLOCK_NEVER,
                          .tombstone_us = clock_last(record->tombstone_us, 0),
                          .window = record->window,
                          .once_ttl_us = clock_last(record->once_ttl_us, 0),
                          .once_window = record->once_window,
                          .once_replay = record->once_replay};
    memcpy(held.attempt_id, record->attempt_id, RECORD_ATTEMPT_ID_SIZE);
    *record = held;
    CHECK(record_is_sound(record));
}
