/* SPDX-License-Identifier: Apache-2.0 */
/* What the committer reports of itself: counts, gauges, free space. */
#include "base/check.h"
#include "store/committer/batch.h"
#include "store/store.h"
#include <stdio.h>

#define RESERVE_MOST ((uint64_t)64 * 1024 * 1024)

const int64_t store_commit_bounds_us[STORE_COMMIT_BUCKETS] = {
    500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 500000, 2500000};
const int64_t store_batch_bounds[STORE_BATCH_BUCKETS] = {1, 2, 4, 8, 16, 32, 64, 128, 256};

static size_t bound_index_of(const int64_t *bounds, size_t n, int64_t value)
{
    size_t i = 0;
    while (i < n && value > bounds[i])
        i++;
    return i;
}

void committer_note_batch(struct store *c, const struct batch *batch)
{
    size_t operations = batch->decided.n + batch->parked.n;
    struct store_work *work = &c->work;
    work->checkpoints = c->backend->checkpoints;
    c->clock = c->backend->clock;
    c->counts = batch->save.counts;
    c->terms = batch->apply.read.terms;
    committer_note_epoch(c, c->terms.epoch);
    if (batch->chores.gauge) {
        c->gauges = batch->chores.gauges;
        buf_clear(&c->decisions);
        buf_add_slice(&c->decisions, buf_slice(&c->backend->decisions));
        buf_clear(&c->odd_rows);
        buf_add_slice(&c->odd_rows, buf_slice(&c->backend->odd_rows));
        backend_write_odd(c->backend, &c->odd_rows);
        c->weakness = c->backend->weakness;
    }
    if (!batch->save.changed) {
        work->reads += operations;
        return;
    }
    int64_t took_us = clock_boot_us() - batch->boot;
    work->batches++;
    work->operations += operations;
    work->commit_us += (uint64_t)took_us;
    work->commit_buckets[bound_index_of(store_commit_bounds_us, STORE_COMMIT_BUCKETS, took_us)]++;
    work->batch_buckets[bound_index_of(store_batch_bounds, STORE_BATCH_BUCKETS,
                                       (int64_t)operations)]++;
}

void committer_note_retry(struct store *c, enum backend_status status)
{
    if (status == BACKEND_FULL)
        c->work.retries_full++;
    else if (status == BACKEND_BUSY || status == BACKEND_AWAY)
        c->work.retries_busy++;
    memcpy(c->problem, c->backend->problem, sizeof c->problem);
}

/* For store_problem: an outage that nobody's batch failed for. */
static void explain_low(struct store *c, uint64_t space, uint64_t reserve)
{
    mutex_lock(&c->mutex);
    snprintf(c->problem, sizeof c->problem,
             "low on space: %llu bytes are free where the store is, %llu are kept in reserve "
             "(`disk_reserve`); make room",
             (unsigned long long)space, (unsigned long long)reserve);
    mutex_unlock(&c->mutex);
}

void committer_note_space(struct store *c)
{
    const struct backend_space *space = &c->backend->space;
    uint64_t reserve = space->size > 0 ? atomic_load(&c->disk_reserve) : 0;
    if (space->size > 0 && reserve == 0)
        reserve = space->size / 10 < RESERVE_MOST ? space->size / 10 : RESERVE_MOST;
    bool low = space->free < reserve;
    if (low)
        explain_low(c, space->free, reserve);
    atomic_store(&c->low_on_space, low);
    atomic_store(&c->space_free, space->free);
    atomic_store(&c->reserve, reserve);
}

struct store_counts store_counts(struct store *c)
{
    mutex_lock(&c->mutex);
    struct store_counts counts = {
        .pending = c->counts.pending - c->counts.released,
        .released = c->counts.released,
        .complete = c->counts.complete,
        .failed = c->counts.failed,
        .unknown = c->counts.unknown,
        .forgets = atomic_load(&c->forgets),
        .stale = c->gauges.stale,
        .unknown_oldest = c->gauges.unknown_oldest,
        .expired = c->gauges.expired,
        .expired_oldest = c->gauges.expired_oldest,
        .queued = c->queue.n,
        .waiting = c->waiters.n,
        .last_ok_at = atomic_load(&c->seen_at),
        .space_free = atomic_load(&c->space_free),
        .disk_reserve = atomic_load(&c->reserve),
        .clock_refused = c->clock.refused,
        .clock_jump_us = c->clock.jump_us,
        .clock_jumps = c->clock.jumps,
        .went_back = c->back.times,
        .back_since = c->back.since,
        .back_above = c->back.above,
        .work = c->work,
    };
    mutex_unlock(&c->mutex);
    return counts;
}

struct terms store_terms(struct store *c)
{
    mutex_lock(&c->mutex);
    struct terms terms = c->terms;
    mutex_unlock(&c->mutex);
    return terms;
}

struct weakness store_weakness(struct store *c)
{
    mutex_lock(&c->mutex);
    struct weakness weakness = c->weakness;
    mutex_unlock(&c->mutex);
    return weakness;
}

void store_decisions(struct store *c, struct buf *lines)
{
    mutex_lock(&c->mutex);
    buf_add_slice(lines, buf_slice(&c->decisions));
    mutex_unlock(&c->mutex);
}

void store_odd_rows(struct store *c, struct buf *lines)
{
    mutex_lock(&c->mutex);
    CHECK(c->odd_rows.len == 0 || c->odd_rows.at[c->odd_rows.len - 1] == '\n');
    buf_add_slice(lines, buf_slice(&c->odd_rows));
    buf_add_slice(lines, buf_slice(&c->held_rows));
    mutex_unlock(&c->mutex);
}

void store_hold_rows(struct store *c, struct slice lines)
{
    mutex_lock(&c->mutex);
    buf_clear(&c->held_rows);
    buf_add_slice(&c->held_rows, lines);
    mutex_unlock(&c->mutex);
}
