/* SPDX-License-Identifier: Apache-2.0 */
/* What backends have in common. */
#include "store/backend.h"

#include "base/check.h"
#include <stdio.h>

void backend_judge_lease(struct record *record, const struct backend_owner *owner,
                         const struct backend_holder *holder, int64_t now)
{
    bool is_beat =
        owner->beat_at > 0 && owner->beat_at <= clock_after(now, BACKEND_BEAT_AHEAD_MOST_US);
    int64_t beaten = is_beat ? clock_after(owner->beat_at, record->lease_us) : 0;
    bool dead = owner->role != STORE_COMMAND &&
                (owner->incarnation != holder->incarnation || !holder->alive);
    /* By then it was dead: a later one started. */
    int64_t dead_at = holder->alive ? holder->since : now;
    if (record->lease_until < beaten)
        record->lease_until = beaten;
    int64_t ends_at = dead && dead_at < record->lease_until ? dead_at : record->lease_until;
    record->lapsed_at = dead || now >= ends_at ? ends_at : 0;
}

int64_t backend_sweep_at(const struct record *record, bool has_body)
{
    int64_t row_until = record_row_until(record);
    return has_body ? clock_first(record_body_until(record), row_until) : row_until;
}

bool backend_may_miss(const struct table_change *change)
{
    return change->again && (change->act == TABLE_REMOVE || change->act == TABLE_ADD);
}

static void count_status(struct backend_counts *counts, enum record_status status, int64_t delta)
{
    counts->pending += status == RECORD_PENDING ? delta : 0;
    counts->complete += status == RECORD_COMPLETE ? delta : 0;
    counts->failed += status == RECORD_FAILED ? delta : 0;
    counts->unknown += status == RECORD_UNKNOWN ? delta : 0;
}

void backend_count(struct backend_counts *counts, const struct backend_change *change)
{
    if (!change->row)
        return;
    counts->forgets += change->forgotten;
    if (change->was_odd)
        return; /* as what it was counted nobody knows */
    const struct record *record = &change->row->record;
    count_status(counts, change->before, -1);
    count_status(counts, record->status, +1);
    counts->released += record_is_released(record) - change->was_released;
}

/* Of the pending ones only what is released is ever swept. */
void backend_count_swept(struct backend_counts *counts, enum record_status status)
{
    count_status(counts, status, -1);
    counts->released -= status == RECORD_PENDING;
}

static bool is_noted(const struct backend_odd *odd, int64_t id)
{
    for (size_t i = 0; i < odd->n; i++)
        if (odd->ids[i] == id)
            return true;
    return false;
}

/* What has no once value has no times of one: its row would outlive its key. */
bool backend_row_is_sound(const struct store_row *row)
{
    bool has_once = row->record.once_ttl_us != 0 || row->record.once_until != 0;
    return record_is_sound(&row->record) && (row->once.len > 0 || !has_once);
}

void backend_hold_bound(struct backend_bound *bound)
{
    bound->expires_at = CLOCK_NEVER;
    memset(bound->payload_hash.bytes, 0xff, DIGEST_SIZE);
    CHECK(!digest_is_none(&bound->payload_hash)); /* which would not be compared */
}

void backend_hold_row(struct backend *backend, struct store_row *row)
{
    struct backend_odd *odd = &backend->odd_records;
    record_hold(&row->record, row->id);
    if (row->once.len == 0)
        row->record.once_ttl_us = 0; /* it holds no value */
    if (odd->n < BACKEND_ODD_RECORDS && !is_noted(odd, row->id))
        odd->ids[odd->n++] = row->id;
}

void backend_write_odd(const struct backend *backend, struct buf *lines)
{
    for (size_t i = 0; i < backend->odd_records.n; i++)
        buf_printf(lines, STORE_RECORDS " %lld\n", (long long)backend->odd_records.ids[i]);
}

bool backend_check_weakness(struct backend *backend, const struct store_config *config)
{
    CHECK(backend->weakness.kind == WEAKNESS_NONE || *backend->weakness.why);
    bool looks = config->read_only_file && config->role == STORE_COMMAND;
    if (backend->weakness.kind != WEAKNESS_LOSES || config->accepts_weaker || looks)
        return true;
    snprintf(backend->problem, sizeof backend->problem, "%s: %s, or %s", backend->place,
             backend->weakness.why,
             config->role == STORE_SERVE ? "accept_weaker: true" : "PAWL_ACCEPT_WEAKER=true");
    return false;
}
