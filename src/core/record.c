/* SPDX-License-Identifier: Apache-2.0 */
#include "core/record.h"
#include "base/check.h"

bool record_is_released(const struct record *record)
{
    return record->status == RECORD_PENDING && record->lease_until == 0;
}

int64_t record_holder(const struct record *record)
{
    bool held = record->status != RECORD_ABSENT && record->lease_until != 0;
    return held ? record->owner : 0;
}

bool record_key_is_absent(const struct record *record, int64_t now)
{
    if (record->status == RECORD_ABSENT)
        return true;
    if (record_is_final(record->status))
        return now >= record->gone_at;
    return record_is_released(record) && now >= record->expires_at;
}

bool record_is_absent(const struct record *record, int64_t now)
{
    bool value_lives = record->status == RECORD_COMPLETE && now < record->once_until;
    return record_key_is_absent(record, now) && !value_lives;
}

static bool is_other_payload(const struct record *record, const struct record_begin *begin)
{
    return digest_differs(&record->payload_hash, &begin->payload_hash) ||
           digest_differs(&record->target_hash, &begin->target_hash);
}

/* A begin that proceeds starts a new life of the key: there is none, or it takes the place of what
 * was released (record_begin.replaces). */
static bool begins_anew(const struct record *record, const struct record_begin *begin, int64_t now)
{
    bool is_free = record_is_released(record) && !record->doubt;
    return record_key_is_absent(record, now) ||
           (begin->replaces && is_free &&
            (begin->recipe_differs || is_other_payload(record, begin)));
}

int64_t record_body_until(const struct record *record)
{
    return record->once_replay ? clock_last(record->expires_at, record->once_until)
                               : record->expires_at;
}

int64_t record_row_until(const struct record *record)
{
    int64_t least = clock_after(record->completed_at, RECORD_ROW_LEAST_US);
    return clock_last(least, clock_last(record->gone_at, record->once_until));
}

enum record_lease record_lease(const struct record *record, const struct record_world *world,
                               int64_t *ret_lapsed_at)
{
    if (record->lease_until == 0)
        return RECORD_LEASE_NONE;
    if (record->owner == world->self || record->lapsed_at == 0)
        return RECORD_LEASE_LIVE;
    if (ret_lapsed_at)
        *ret_lapsed_at = record->lapsed_at;
    return RECORD_LEASE_LAPSED;
}

bool record_in_doubt(const struct record *record, enum record_lease lease)
{
    bool open = record->status == RECORD_PENDING && lease == RECORD_LEASE_LAPSED &&
                !record_is_asking(record);
    return record->doubt || record->status == RECORD_UNKNOWN || open;
}

/* "It did not happen" is believed only `settle` after the last moment somebody may have been
 * sending. A probe sends nothing that has an effect, and never moves that moment; nor does a
 * request to a participant, which has none under a token that was replaced. */
static void note_silence(struct record *record, int64_t since)
{
    if (!record->probing && record->unknown != RECORD_UNKNOWN_PARTICIPANT)
        record->quiet_at = clock_last(record->quiet_at, clock_after(since, record->settle_us));
}

/* Nothing is born expired: a client that was told to come again by `least_us` or quiet_at finds it.
 */
static int64_t end_of_record(const struct record *record, int64_t ttl_us, bool window, int64_t now)
{
    int64_t at = clock_after(window ? record->created_at : now, ttl_us);
    return clock_last(clock_last(at, clock_after(now, record->least_us)), record->quiet_at);
}

/* In doubt it keeps its window, and its begin time: the upstream knows the operation by them. */
static int64_t expiry_from(const struct record *record, int64_t now)
{
    int64_t at = end_of_record(record, record->ttl_us, record->window, now);
    return record->doubt ? clock_last(at, clock_after(now, record->doubted_us)) : at;
}

/* Keeps the token: a late response of its owner still counts. */
static void set_released(struct record *record, int64_t now)
{
    record->status = RECORD_PENDING;
    record->lease_until = 0;
    record->probing = false;
    /* What may have happened under a once value must not happen under another key. */
    bool stays = record->doubt && record->once_ttl_us > 0;
    record->expires_at = stays ? CLOCK_NEVER : expiry_from(record, now);
}

static void set_unknown(struct record *record)
{
    record->status = RECORD_UNKNOWN;
    record->lease_until = record->asking = 0;
    record->expires_at = 0;
    record->probing = false;
}

static void acquire_record(struct record *record, const struct record_begin *begin,
                           const struct record_world *world, int64_t token)
{
    CHECK(token > record->token);
    record->status = RECORD_PENDING;
    record->token = token;
    memcpy(record->attempt_id, begin->attempt_id, RECORD_ATTEMPT_ID_SIZE);
    record->attempts++;
    record->started_at = world->now;
    record->lease_us = begin->lease_us;
    record->lease_until = clock_after(world->now, begin->lease_us);
    record->lapsed_at = 0;
    record->expires_at = 0;
    record->asking = 0;
    record->owner = world->self;
    record->settle_us = clock_last(record->settle_us, begin->settle_us);
}

static enum record_verdict start_attempt(struct record *record, const struct record_begin *begin,
                                         const struct record_world *world, int64_t token)
{
    bool inquires = record_inquires(record, begin, world);
    acquire_record(record, begin, world, token);
    record->asking = inquires ? token : 0;
    record->probing = false;
    record->unknown = begin->unknown;
    record->hold_us = begin->unknown == RECORD_UNKNOWN_HOLD ? begin->hold_us : 0;
    record->ttl_us = record_ttl_us(begin, record->created_at);
    record->least_us = begin->least_us;
    record->doubted_us = begin->doubted_us;
    record->tombstone_us = begin->tombstone_us;
    record->window = begin->window;
    record->once_ttl_us = begin->once_ttl_us;
    record->once_window = begin->once_window;
    record->once_replay = begin->once_replay;
    return record_acquired_for(record);
}

/* The record's policy goes through the probe unchanged. */
static enum record_verdict acquire_probe(struct record *record, const struct record_begin *begin,
                                         const struct record_world *world, int64_t token)
{
    acquire_record(record, begin, world, token);
    record->probing = true;
    record->doubt = true;
    if (begin->paced)
        record->least_us = clock_last(record->least_us, RECORD_PROBE_LATER_US);
    return RECORD_PROBE;
}

static enum record_verdict start_record(struct record *record, const struct record_begin *begin,
                                        const struct record_world *world, int64_t token)
{
    *record = (struct record){.payload_hash = begin->payload_hash,
                              .target_hash = begin->target_hash,
                              .created_at = world->now};
    return start_attempt(record, begin, world, token);
}

enum record_unknown record_policy(const struct record *record, enum record_unknown of_rule)
{
    if (of_rule == RECORD_UNKNOWN_PROBE && !record->odd)
        return RECORD_UNKNOWN_PROBE;
    if (record_repeats(of_rule) && record_repeats(record->unknown))
        return of_rule;
    return RECORD_UNKNOWN_HOLD;
}

/* What was sent to be repeated is now in question, where the policy of today is stricter. Nobody
 * sends since `silent_at`. */
static enum record_verdict begin_in_doubt(struct record *record, const struct record_begin *begin,
                                          const struct record_world *world, int64_t token,
                                          int64_t silent_at)
{
    enum record_unknown policy = record_policy(record, begin->unknown);
    record->settle_us = clock_last(record->settle_us, begin->settle_us);
    if (record_repeats(record->unknown) && !record_repeats(policy)) {
        record->unknown = policy;
        record->hold_us = begin->hold_us;
    }
    note_silence(record, silent_at);
    if (policy == RECORD_UNKNOWN_PROBE)
        return acquire_probe(record, begin, world, token);
    if (policy == RECORD_UNKNOWN_HOLD) {
        set_unknown(record);
        return RECORD_OUTCOME_UNKNOWN;
    }
    record->doubt = true;
    return start_attempt(record, begin, world, token);
}

static enum record_verdict begin_lapsed(struct record *record, const struct record_begin *begin,
                                        const struct record_world *world, int64_t token,
                                        int64_t lapsed_at)
{
    if (!record->probing)
        record->cause = RECORD_CAUSE_LAPSED;
    return begin_in_doubt(record, begin, world, token, lapsed_at);
}

/* The last owner may have released its record in doubt. Then its last possible send was `settle`
 * before quiet_at; a participant has no quiet_at, and now stands for it. */
static enum record_verdict begin_released(struct record *record, const struct record_begin *begin,
                                          const struct record_world *world, int64_t token)
{
    if (!record->doubt || record_repeats(record_policy(record, begin->unknown)))
        return start_attempt(record, begin, world, token);
    bool noted = record->quiet_at > 0;
    int64_t silent_at = noted ? record->quiet_at - record->settle_us : world->now;
    return begin_in_doubt(record, begin, world, token, silent_at);
}

/* False: it has not ended, and nothing changed. */
static bool end_hold(struct record *record, const struct record_begin *begin,
                     const struct record_world *world)
{
    int64_t ended_at = record_held_until(record, begin, record_lease(record, world, NULL));
    if (world->now < ended_at || world->now < record_believed_from(record, world))
        return false;
    record->doubt = false;
    record->cause = RECORD_CAUSE_HOLD_ENDED;
    set_released(record, ended_at);
    return true;
}

static bool is_attempt(const struct record *record, const struct record_begin *begin)
{
    return memcmp(record->attempt_id, begin->attempt_id, RECORD_ATTEMPT_ID_SIZE) == 0;
}

static enum record_verdict begin_pending(struct record *record, const struct record_begin *begin,
                                         const struct record_world *world, int64_t token,
                                         bool *ret_changed)
{
    int64_t lapsed_at = 0;
    enum record_lease lease = record_lease(record, world, &lapsed_at);
    if (lease != RECORD_LEASE_NONE && is_attempt(record, begin))
        return record_acquired_for(record);
    if (lease == RECORD_LEASE_LIVE)
        return RECORD_IN_PROGRESS;
    if (lease == RECORD_LEASE_LAPSED && begin->asks_first && record->token != begin->overtakes)
        return RECORD_IN_PROGRESS;
    *ret_changed = true;
    if (lease == RECORD_LEASE_NONE)
        return begin_released(record, begin, world, token);
    return begin_lapsed(record, begin, world, token, lapsed_at);
}

/* Sets when a record that has just become final expires. */
static void set_times(struct record *record, int64_t now)
{
    record->expires_at = expiry_from(record, now);
    record->gone_at = clock_after(record->expires_at, record->tombstone_us);
    if (record->status == RECORD_COMPLETE && record->once_ttl_us > 0)
        record->once_until = end_of_record(record, record->once_ttl_us, record->once_window, now);
}

bool record_freeze(struct record *record, int64_t now)
{
    if (!record->provisional)
        return false;
    record->provisional = false;
    record->lease_until = 0;
    set_times(record, now);
    return true;
}

static enum record_verdict begin_final(struct record *record, const struct record_world *world,
                                       bool *ret_changed)
{
    if (record->provisional && record_lease(record, world, NULL) == RECORD_LEASE_LIVE)
        return RECORD_IN_PROGRESS;
    *ret_changed = record_freeze(record, world->now);
    if (world->now >= record->expires_at)
        return RECORD_RESULT_EXPIRED;
    return record->kept ? RECORD_REPLAY : RECORD_RESULT_NOT_KEPT;
}

static bool is_too_soon(const struct record *record, const struct record_begin *begin, int64_t now)
{
    return begin->paced && begin->probes_token == 0 &&
           now < clock_after(record->started_at, RECORD_PROBE_PACE_US);
}

static enum record_verdict decide_record(struct record *record, const struct record_begin *begin,
                                         const struct record_world *world, int64_t next_token,
                                         bool *ret_changed)
{
    *ret_changed = false;
    if (begins_anew(record, begin, world->now)) {
        enum record_verdict judged = record_judge_start(begin, world);
        if (judged != RECORD_PROCEED && !begin->spent)
            return judged;
        *ret_changed = true;
        return start_record(record, begin, world, next_token);
    }
    if (begin->recipe_differs)
        return RECORD_OTHER_RECIPE;
    if (is_other_payload(record, begin))
        return RECORD_MISMATCH;
    if (record_is_final(record->status))
        return begin_final(record, world, ret_changed);
    if (record->status == RECORD_PENDING)
        return begin_pending(record, begin, world, next_token, ret_changed);
    bool probes = record_policy(record, begin->unknown) == RECORD_UNKNOWN_PROBE;
    if (!probes || begin->waited || is_too_soon(record, begin, world->now))
        return RECORD_OUTCOME_UNKNOWN;
    *ret_changed = true;
    return acquire_probe(record, begin, world, next_token);
}

/* A probe in the background of what it did not find. `is_new`: not a begin applied again. */
static bool is_for_other(const struct record *met, const struct record_begin *begin, bool runs,
                         bool is_new)
{
    return begin->probes_token > 0 && (runs || (is_new && met->token != begin->probes_token));
}

enum record_verdict record_begin(struct record *record, const struct record_begin *begin,
                                 const struct record_world *world, int64_t next_token,
                                 bool *ret_changed)
{
    CHECK(begin->lease_us > 0 && begin->ttl_us > 0);
    CHECK(next_token > 0);
    struct record met = *record;
    bool ended = !is_attempt(record, begin) &&
                 (record_end_inquiry(record, world) || end_hold(record, begin, world));
    enum record_verdict verdict = decide_record(record, begin, world, next_token, ret_changed);
    bool acquires = record_verdict_acquires(verdict);
    if (ended && !acquires) { /* it ends in the commit of what acquires, or of record_end_hold */
        *record = met;
        *ret_changed = false;
        return verdict;
    }
    if (!acquires ||
        (!begin->spent && !is_for_other(&met, begin, record_verdict_runs(verdict), *ret_changed)))
        return verdict;
    *record = met;
    *ret_changed = false;
    return RECORD_OUTCOME_UNKNOWN;
}

enum record_verdict record_begin_locked(struct record *ret_record, int64_t now)
{
    *ret_record = (struct record){.status = RECORD_PENDING,
                                  .attempts = 1,
                                  .created_at = now,
                                  .started_at = now,
                                  .lease_until = clock_after(now, RECORD_LOCKED_US)};
    return RECORD_IN_PROGRESS;
}

/* Invariant 2: an old token changes nothing. */
static bool is_stale(const struct record *record, int64_t token, int64_t now)
{
    return record_is_absent(record, now) || record->token != token;
}

static void set_final(struct record *record, const struct record_final *final, int64_t now)
{
    record->status = final->status;
    record->http_status = final->http_status;
    record->kept = final->kept;
    record->lease_until = record->asking = 0;
    record->probing = false;
    record->doubt = record->odd = false;
    record->cause = RECORD_CAUSE_NONE;
    record->completed_at = now;
    set_times(record, now);
}

void record_lengthen(struct record *record, int64_t ttl_us, int64_t tombstone_us, int64_t now)
{
    CHECK(record_is_final(record->status) && !record->provisional);
    record->kept = record->kept && now < record_body_until(record);
    record->expires_at = clock_last(record->expires_at, clock_after(now, ttl_us));
    record->gone_at = clock_last(record->gone_at, clock_after(record->expires_at, tombstone_us));
}

/* What is provisional was reported to nobody, but it has happened: its status stays. */
static enum record_write fill_in_final(struct record *record, const struct record_final *final,
                                       int64_t now)
{
    bool same = record->status == final->status && record->http_status == final->http_status;
    if (!record_freeze(record, now) || !same)
        return RECORD_ALREADY;
    record->kept = final->kept;
    return RECORD_WRITTEN;
}

enum record_write record_finish(struct record *record, int64_t token,
                                const struct record_final *final, int64_t now)
{
    CHECK(record_is_final(final->status));
    if (record_is_final(record->status) && record->token == token)
        return fill_in_final(record, final, now);
    if (is_stale(record, token, now))
        return RECORD_STALE;
    set_final(record, final, now);
    return RECORD_WRITTEN;
}

enum record_write record_complete(struct record *record, int64_t token,
                                  const struct record_final *final, int64_t now)
{
    CHECK(record_is_final(final->status));
    if (record_is_final(record->status) && record->token == token)
        return RECORD_ALREADY;
    if (is_stale(record, token, now))
        return RECORD_STALE;
    int64_t lease_until = record->lease_until;
    set_final(record, final, now);
    if (lease_until == 0)
        return RECORD_WRITTEN;
    record->provisional = true;
    record->lease_until = lease_until;
    record->expires_at = record->gone_at = CLOCK_NEVER;
    record->once_until = record->once_until > 0 ? CLOCK_NEVER : 0;
    return RECORD_WRITTEN;
}

/* Freezes a provisional record: its owner has given up and will not fill it in. */
static enum record_write freeze_provisional(struct record *record, int64_t now)
{
    record_freeze(record, now);
    return RECORD_ALREADY;
}

enum record_write record_release(struct record *record, int64_t token, int64_t now)
{
    if (is_stale(record, token, now))
        return RECORD_STALE;
    if (record_is_final(record->status) || record_is_released(record))
        return freeze_provisional(record, now);
    /* That the probe was not sent says nothing of the operation. */
    if (record->probing)
        set_unknown(record);
    else
        set_released(record, now);
    return RECORD_WRITTEN;
}

enum record_write record_release_settled(struct record *record, int64_t token, int64_t looked_at,
                                         bool force, const struct record_world *world)
{
    if (is_stale(record, token, world->now))
        return RECORD_STALE;
    if (record_is_final(record->status) || (record_is_released(record) && !record->doubt))
        return RECORD_ALREADY;
    int64_t lapsed_at = 0;
    enum record_lease lease = record_lease(record, world, &lapsed_at);
    bool own_probe = record->probing && record->owner == world->self;
    if (lease == RECORD_LEASE_LIVE && !own_probe && !force)
        return RECORD_LIVE;
    if (lease == RECORD_LEASE_LAPSED)
        note_silence(record, lapsed_at);
    bool by_force = lease == RECORD_LEASE_LIVE && !own_probe;
    if (!by_force && looked_at < record_believed_from(record, world)) {
        record->quiet_at = record_believed_from(record, world);
        return RECORD_EARLY;
    }
    record->doubt = record->odd = false;
    record->cause = RECORD_CAUSE_NONE;
    set_released(record, world->now);
    return RECORD_WRITTEN;
}

enum record_write record_drop(struct record *record, int64_t token, int64_t now)
{
    if (record->doubt || is_stale(record, token, now) || record_is_final(record->status))
        return record_release(record, token, now);
    CHECK(!record->probing);
    *record = (struct record){.status = RECORD_ABSENT};
    return RECORD_WRITTEN;
}

enum record_write record_doubt(struct record *record, int64_t token, int64_t now)
{
    if (is_stale(record, token, now))
        return RECORD_STALE;
    bool doubted = record->doubt && record->lease_until == 0;
    if (record_is_final(record->status) || doubted)
        return freeze_provisional(record, now);
    record->doubt = true;
    note_silence(record, now);
    if (record_repeats(record->unknown))
        set_released(record, now);
    else
        set_unknown(record);
    return RECORD_WRITTEN;
}

enum record_write record_end_hold(struct record *record, int64_t token,
                                  const struct record_begin *begin,
                                  const struct record_world *world)
{
    if (is_stale(record, token, world->now))
        return RECORD_STALE;
    if (record_is_final(record->status) || (record_is_released(record) && !record->doubt))
        return RECORD_ALREADY;
    return end_hold(record, begin, world) ? RECORD_WRITTEN : RECORD_EARLY;
}

bool record_is_probing(const struct record *record, const struct record_begin *begin)
{
    return record->probing && is_attempt(record, begin);
}

enum record_write record_doubt_and_probe(struct record *record, int64_t token,
                                         const struct record_begin *begin,
                                         const struct record_world *world, int64_t next_token)
{
    if (record_is_probing(record, begin))
        return RECORD_ALREADY;
    enum record_write write = record_doubt(record, token, world->now);
    if (write == RECORD_STALE || record->status != RECORD_UNKNOWN)
        return write;
    acquire_probe(record, begin, world, next_token);
    return RECORD_WRITTEN;
}

enum record_write record_extend(struct record *record, int64_t token, int64_t now)
{
    if (is_stale(record, token, now))
        return RECORD_STALE;
    if (record->lease_until == 0)
        return RECORD_ALREADY;
    record->lease_until = clock_last(record->lease_until, clock_after(now, record->lease_us));
    record->lapsed_at = 0;
    return RECORD_WRITTEN;
}

enum record_write record_resolve(struct record *record, int64_t token,
                                 const struct record_final *final, bool force,
                                 const struct record_world *world)
{
    if (is_stale(record, token, world->now))
        return RECORD_STALE;
    if (record_is_final(record->status))
        return RECORD_ALREADY;
    if (record_lease(record, world, NULL) == RECORD_LEASE_LIVE && !force)
        return RECORD_LIVE;
    set_final(record, final, world->now);
    return RECORD_WRITTEN;
}

/* Nobody can still be sending, if its owner is dead. */
static bool note_silence_believed(struct record *record, const struct record_world *world)
{
    int64_t lapsed_at = 0;
    if (record_lease(record, world, &lapsed_at) == RECORD_LEASE_LAPSED)
        note_silence(record, lapsed_at);
    return world->now >= record_believed_from(record, world);
}

enum record_write record_forget(struct record *record, int64_t token, bool force,
                                const struct record_world *world)
{
    if (record_is_absent(record, world->now) || (token != 0 && record->token != token))
        return RECORD_STALE;
    if (!force && record_lease(record, world, NULL) == RECORD_LEASE_LIVE)
        return RECORD_LIVE;
    bool guarded = !record_is_final(record->status) && !force;
    if (guarded && token == 0)
        return RECORD_STALE;
    if (guarded && !note_silence_believed(record, world))
        return RECORD_EARLY;
    *record = (struct record){.status = RECORD_ABSENT};
    return RECORD_WRITTEN;
}
