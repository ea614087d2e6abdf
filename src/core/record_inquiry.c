/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking before the first send (`first:`, under `unknown: {probe: ...}`): where a record may be
 * missing, that there is none says nothing. An inquiry is an acquisition without a doubt, which
 * sends nothing but a GET:
 *
 *    begin --> asking --turn--> as any acquisition that sends
 *                |  `-- its outcome was found ------> complete
 *                `-- nothing was found out, lapsed -> released; the next begin asks again
 *
 * Whether a record still has to be asked about follows from its last acquisition: whether that one
 * asked, and when it was. One of a process that knows nothing of this has another token than
 * `asking`, and sends. Model-checked: docs/model/first.py.
 */
#include "core/record.h"

bool record_may_be_missing(const struct record_begin *begin, const struct record_world *world)
{
    int64_t lives = clock_last(clock_after(begin->ttl_us, begin->tombstone_us), begin->once_ttl_us);
    int64_t until =
        world->restored_until != 0 ? world->restored_until : clock_after(world->restored_at, lives);
    bool is_later = begin->key_at > world->restored_at + RECORD_KEY_AHEAD_US;
    return world->restored_at != 0 && world->now < until && !is_later;
}

bool record_inquires(const struct record *record, const struct record_begin *begin,
                     const struct record_world *world)
{
    bool missing = record_may_be_missing(begin, world);
    if (begin->unknown != RECORD_UNKNOWN_PROBE || begin->first == RECORD_FIRST_OFF ||
        (begin->first == RECORD_FIRST_RESTORED && !missing))
        return false;
    int64_t since = missing ? world->restored_at : 0;
    return record_is_asking(record) || record->started_at <= since;
}

bool record_end_inquiry(struct record *record, const struct record_world *world)
{
    int64_t lapsed_at = 0;
    bool lapsed = record_lease(record, world, &lapsed_at) == RECORD_LEASE_LAPSED;
    return lapsed && record_is_asking(record) &&
           record_release(record, record->token, lapsed_at) == RECORD_WRITTEN;
}

enum record_verdict record_acquired_for(const struct record *record)
{
    if (record_is_asking(record))
        return RECORD_INQUIRE;
    return record->probing ? RECORD_PROBE : RECORD_PROCEED;
}

enum record_verdict record_judge_start(const struct record_begin *begin,
                                       const struct record_world *world)
{
    enum record_verdict judged = record_judge_key(begin, world->now);
    bool is_dated = begin->unknown == RECORD_UNKNOWN_HOLD && begin->key_at > 0;
    if (judged == RECORD_PROCEED && is_dated && record_may_be_missing(begin, world))
        return RECORD_UNPROVED;
    return judged;
}

/* What was acquired before the restore, and is missing, may send until its lease ends. */
int64_t record_believed_from(const struct record *record, const struct record_world *world)
{
    if (world->restored_at == 0)
        return record->quiet_at;
    int64_t ended = clock_after(world->restored_at, record->lease_us);
    return clock_last(record->quiet_at, clock_after(ended, record->settle_us));
}

enum record_write record_turn(struct record *record, int64_t token, int64_t looked_at,
                              const struct record_world *world)
{
    if (record_is_absent(record, world->now) || record->token != token)
        return RECORD_STALE;
    if (!record_is_asking(record) || record->lease_until == 0)
        return RECORD_ALREADY;
    bool lapsed = record_lease(record, world, NULL) == RECORD_LEASE_LAPSED;
    if (looked_at < record_believed_from(record, world)) {
        (void)record_release(record, token, world->now);
        return RECORD_EARLY;
    }
    record->asking = 0;
    record->started_at = world->now;
    record->lease_until =
        clock_last(record->lease_until, clock_after(world->now, record->lease_us));
    return lapsed ? record_release(record, token, world->now) : RECORD_WRITTEN;
}
