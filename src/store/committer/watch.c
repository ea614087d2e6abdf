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

void committer_note_batch(struct committer *c, const struct batch *batch)
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

void committer_note_retry(struct committer *c, enum backend_status status)
{
    if (status == BACKEND_FULL)
        c->work.retries_full++;
    else if (status == BACKEND_BUSY || status == BACKEND_AWAY)
        c->work.retries_busy++;
    memcpy(c->problem, c->backend->problem, sizeof c->problem);
}

/* For store_problem: an outage that nobody's batch failed for. */
static void explain_low(struct committer *c, uint64_t space, uint64_t reserve)
{
    mutex_lock(&c->mutex);
    snprintf(c->problem, sizeof c->problem,
             "low on space: %llu bytes are free where the store is, %llu are kept in reserve "
             "(`disk_reserve`); make room",
             (unsigned long long)space, (unsigned long long)reserve);
    mutex_unlock(&c->mutex);
}

void committer_note_space(struct committer *c)
{
    const struct backend_space *space = &c->backend->space;
    uint64_t reserve = space->size > 0 ? atomic_load(&c->store->disk_reserve) : 0;
    if (space->size > 0 && reserve == 0)
        reserve = space->size / 10 < RESERVE_MOST ? space->size / 10 : RESERVE_MOST;
    bool low = space->free < reserve;
    if (low)
        explain_low(c, space->free, reserve);
    atomic_store(&c->low_on_space, low);
    atomic_store(&c->space_free, space->free);
    atomic_store(&c->reserve, reserve);
}

static void add_work(struct store_work *sum, const struct store_work *work)
{
    sum->batches += work->batches;
    sum->operations += work->operations;
    sum->reads += work->reads;
    sum->commit_us += work->commit_us;
    sum->checkpoints += work->checkpoints;
    sum->retries_full += work->retries_full;
    sum->retries_busy += work->retries_busy;
    for (size_t i = 0; i <= STORE_COMMIT_BUCKETS; i++)
        sum->commit_buckets[i] += work->commit_buckets[i];
    for (size_t i = 0; i <= STORE_BATCH_BUCKETS; i++)
        sum->batch_buckets[i] += work->batch_buckets[i];
}

/* What is of the store as the last batch of any committer saw it. */
static void add_counts(struct store_counts *counts, struct committer *c)
{
    mutex_lock(&c->mutex);
    int64_t seen_at = atomic_load(&c->seen_at);
    if (seen_at > counts->last_ok_at) {
        counts->last_ok_at = seen_at;
        counts->pending = c->counts.pending - c->counts.released;
        counts->released = c->counts.released;
        counts->complete = c->counts.complete;
        counts->failed = c->counts.failed;
        counts->unknown = c->counts.unknown;
        counts->forgets = atomic_load(&c->forgets);
    }
    counts->queued += c->queue.n;
    counts->waiting += c->waiters.n;
    if (c->back.times > 0 && (counts->back_above == 0 || c->back.since < counts->back_since))
        counts->back_since = c->back.since;
    counts->went_back += c->back.incidents;
    counts->back_above = clock_last(counts->back_above, c->back.above);
    add_work(&counts->work, &c->work);
    mutex_unlock(&c->mutex);
}

struct store_counts store_counts(struct store *store)
{
    struct committer *first = store->committers[0];
    mutex_lock(&first->mutex);
    struct store_counts counts = {
        .last_ok_at = -1,
        .stale = first->gauges.stale,
        .unknown_oldest = first->gauges.unknown_oldest,
        .expired = first->gauges.expired,
        .expired_oldest = first->gauges.expired_oldest,
        .space_free = atomic_load(&first->space_free),
        .disk_reserve = atomic_load(&first->reserve),
        .clock_refused = first->clock.refused,
        .clock_jump_us = first->clock.jump_us,
        .clock_jumps = first->clock.jumps,
    };
    mutex_unlock(&first->mutex);
    for (size_t i = 0; i < store->n; i++)
        add_counts(&counts, store->committers[i]);
    return counts;
}

struct terms store_terms(struct store *store)
{
    struct committer *first = store->committers[0];
    mutex_lock(&first->mutex);
    struct terms terms = first->terms;
    mutex_unlock(&first->mutex);
    return terms;
}

struct weakness store_weakness(struct store *store)
{
    struct committer *first = store->committers[0];
    mutex_lock(&first->mutex);
    struct weakness weakness = first->weakness;
    mutex_unlock(&first->mutex);
    return weakness;
}

void store_decisions(struct store *store, struct buf *lines)
{
    struct committer *first = store->committers[0];
    mutex_lock(&first->mutex);
    buf_add_slice(lines, buf_slice(&first->decisions));
    mutex_unlock(&first->mutex);
}

void store_odd_rows(struct store *store, struct buf *lines)
{
    struct committer *first = store->committers[0];
    mutex_lock(&first->mutex);
    CHECK(first->odd_rows.len == 0 || first->odd_rows.at[first->odd_rows.len - 1] == '\n');
    buf_add_slice(lines, buf_slice(&first->odd_rows));
    buf_add_slice(lines, buf_slice(&first->held_rows));
    mutex_unlock(&first->mutex);
}

void store_hold_rows(struct store *store, struct slice lines)
{
    struct committer *first = store->committers[0];
    mutex_lock(&first->mutex);
    buf_clear(&first->held_rows);
    buf_add_slice(&first->held_rows, lines);
    mutex_unlock(&first->mutex);
}
