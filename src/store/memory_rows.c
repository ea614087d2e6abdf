/* SPDX-License-Identifier: Apache-2.0 */
/* The memory backend's rows: one at a time, and many. */
#include "store/memory_table.h"

#include "base/check.h"
#include "base/mem.h"
#include <stdio.h>
#include <stdlib.h>

/* ---- one row ---- */

enum backend_status memory_no_memory(struct backend *backend)
{
    snprintf(backend->problem, sizeof backend->problem, "the memory store: out of memory");
    return BACKEND_NO_MEMORY;
}

enum backend_status memory_find(struct backend *backend, const struct digest *key, int64_t hint,
                                struct store_row *ret_row)
{
    struct row *row = memory_find_hinted(table_of(backend), key, hint);
    if (!row)
        row = memory_find_row(table_of(backend), key);
    *ret_row = row ? memory_show(table_of(backend), row)
                   : (struct store_row){.record.status = RECORD_ABSENT};
    return BACKEND_OK;
}

static char *keep_text(char *at, struct slice from, struct slice *ret_kept)
{
    if (from.len > 0)
        memcpy(at, from.at, from.len);
    *ret_kept = slice_make(at, from.len);
    return at + from.len;
}

struct row *memory_new_row(const struct store_row *from)
{
    size_t size = from->tenant.len + from->rule.len + from->key.len + from->recipe.len +
                  from->fingerprint.len + from->origin.len + from->once.len;
    struct row *row = mem_alloc(sizeof *row + size);
    if (!row)
        return NULL;
    *row = (struct row){.store = *from};
    row->store.location = (struct slice){0};
    char *at = keep_text(row->storage, from->tenant, &row->store.tenant);
    at = keep_text(at, from->rule, &row->store.rule);
    at = keep_text(at, from->key, &row->store.key);
    at = keep_text(at, from->recipe, &row->store.recipe);
    at = keep_text(at, from->fingerprint, &row->store.fingerprint);
    at = keep_text(at, from->origin, &row->store.origin);
    keep_text(at, from->once, &row->store.once);
    return row;
}

enum backend_status memory_insert(struct backend *backend, const struct store_row *from)
{
    struct table *table = table_of(backend);
    struct row *row = memory_new_row(from);
    if (!row || !memory_name_row(table, row) || !memory_log(table, UNDO_INSERT, row)) {
        mem_free(row);
        return memory_no_memory(backend);
    }
    memory_grow(table);
    memory_link(table, row);
    return BACKEND_OK;
}

/* Behind its memory_log. */
static void replace_origin(struct table *table, struct row *row, struct slice origin)
{
    struct undo *undo = &table->undo[table->n_undo - 1];
    undo->replaced_origin = true;
    undo->origin = row->origin;
    undo->origin_was = row->store.origin;
    row->origin = (char *)(uintptr_t)origin.at;
    row->store.origin = origin;
}

enum backend_status memory_update(struct backend *backend, const struct store_row *from)
{
    struct table *table = table_of(backend);
    struct row *row = memory_row_of(table, from);
    bool other = from->origin.at != row->store.origin.at;
    char *origin = other ? mem_copy(from->origin.at, from->origin.len) : NULL;
    if ((other && !origin) || !memory_log(table, UNDO_CHANGE, row)) {
        mem_free(origin);
        return memory_no_memory(backend);
    }
    struct record before = row->store.record;
    row->store.record = from->record;
    row->store.record.payload_hash = before.payload_hash; /* of the record, not of a bound key */
    row->store.record.target_hash = before.target_hash;
    if (other)
        replace_origin(table, row, slice_make(origin, from->origin.len));
    return BACKEND_OK;
}

enum backend_status memory_finish(struct backend *backend, const struct store_row *from,
                                  const struct outcome *outcome)
{
    struct table *table = table_of(backend);
    struct row *row = memory_row_of(table, from);
    CHECK(!row->outcome && !row->location);
    struct outcome *kept = NULL;
    char *location = NULL;
    if (outcome) {
        kept = outcome_new(from->record.http_status, from->record.status == RECORD_FAILED,
                           outcome->fields, outcome->body);
        location = mem_copy(outcome->location.at, outcome->location.len);
    }
    if ((outcome && (!kept || !location)) || !memory_log(table, UNDO_CHANGE, row)) {
        outcome_unref(kept);
        mem_free(location);
        return memory_no_memory(backend);
    }
    int64_t body_until = record_body_until(&from->record);
    bool strip_first = outcome && body_until < record_row_until(&from->record);
    row->store.record = from->record;
    row->sweep_at = strip_first ? body_until : record_row_until(&from->record);
    row->outcome = kept;
    row->location = location;
    row->store.location = slice_of(location);
    return BACKEND_OK;
}

static enum backend_status remove_row(struct backend *backend, struct row *row)
{
    struct table *table = table_of(backend);
    if (!memory_unbind(table, row) || !memory_log(table, UNDO_REMOVE, row))
        return memory_no_memory(backend);
    memory_unlink(table, row);
    return BACKEND_OK;
}

enum backend_status memory_remove(struct backend *backend, const struct store_row *from)
{
    struct row *row = memory_row_of(table_of(backend), from);
    return remove_row(backend, row);
}

enum backend_status memory_outcome(struct backend *backend, const struct store_row *from,
                                   uint64_t most, struct outcome **ret_outcome, uint64_t *ret_size)
{
    struct row *row = memory_row_of(table_of(backend), from);
    const struct record *record = &row->store.record;
    struct slice none = {0};
    struct outcome *outcome =
        row->outcome
            ? outcome_ref(row->outcome)
            : outcome_new(record->http_status, record->status == RECORD_FAILED, none, none);
    if (!outcome)
        return memory_no_memory(backend);
    *ret_size = outcome_size(outcome);
    if (*ret_size > most) {
        outcome_unref(outcome);
        outcome = NULL;
    }
    *ret_outcome = outcome;
    return BACKEND_OK;
}

/* ---- many rows ---- */

struct heartbeat {
    struct backend *backend;
    int64_t owner;
    int64_t now;
    size_t renewed;
};

static enum backend_status renew(void *argument, struct row *row)
{
    struct heartbeat *beat = argument;
    struct record *record = &row->store.record;
    if (record->owner != beat->owner || record->lease_until == 0)
        return BACKEND_OK;
    if (!memory_log(table_of(beat->backend), UNDO_CHANGE, row))
        return memory_no_memory(beat->backend);
    int64_t until = clock_after(beat->now, record->lease_us);
    if (until > record->lease_until)
        record->lease_until = until;
    beat->renewed++;
    return BACKEND_OK;
}

enum backend_status memory_heartbeat(struct backend *backend, int64_t owner, int64_t now,
                                     size_t *ret_renewed)
{
    struct heartbeat beat = {.backend = backend, .owner = owner, .now = now};
    enum backend_status status = memory_each(table_of(backend), renew, &beat);
    *ret_renewed = beat.renewed;
    return status;
}

struct sweep {
    struct backend *backend;
    int64_t now;
    size_t max;
    size_t steps;
    struct backend_state *state;
};

static bool is_due(const struct row *row, int64_t now)
{
    const struct record *record = &row->store.record;
    bool is_final = record->status == RECORD_COMPLETE || record->status == RECORD_FAILED;
    if (is_final || row->holder != 0)
        return row->sweep_at <= now;
    return record_is_gone(record, now);
}

static enum backend_status strip(struct sweep *sweep, struct row *row)
{
    if (!memory_log(table_of(sweep->backend), UNDO_CHANGE, row))
        return memory_no_memory(sweep->backend);
    outcome_unref(row->outcome);
    row->outcome = NULL;
    row->sweep_at = record_row_until(&row->store.record);
    return BACKEND_OK;
}

static enum backend_status sweep_row(void *argument, struct row *row)
{
    struct sweep *sweep = argument;
    if (sweep->steps == sweep->max || !is_due(row, sweep->now))
        return BACKEND_OK;
    sweep->steps++;
    enum record_status status = row->store.record.status;
    if (row->holder == 0 && !record_is_gone(&row->store.record, sweep->now))
        return strip(sweep, row);
    sweep->state->pending -= status == RECORD_PENDING;
    sweep->state->released -= status == RECORD_PENDING;
    sweep->state->complete -= status == RECORD_COMPLETE;
    sweep->state->failed -= status == RECORD_FAILED;
    return remove_row(sweep->backend, row);
}

enum backend_status memory_sweep(struct backend *backend, int64_t now, size_t max,
                                 struct backend_state *state, size_t *ret_steps)
{
    struct sweep sweep = {.backend = backend, .now = now, .max = max, .state = state};
    enum backend_status status = memory_each(table_of(backend), sweep_row, &sweep);
    if (status == BACKEND_OK)
        *ret_steps = sweep.steps + memory_sweep_audits(table_of(backend), now, max - sweep.steps);
    return status;
}

struct selection {
    struct table *table;
    const struct store_list *list;
    const struct record_world *world;
    const struct store_row **rows;
    size_t n;
};

static bool passes(struct slice filter, struct slice value)
{
    return !filter.at || slice_eq(filter, value);
}

static enum backend_status select_row(void *argument, struct row *row)
{
    struct selection *selection = argument;
    const struct store_list *list = selection->list;
    const struct store_row *store = &row->store;
    struct table *table = selection->table;
    bool inside = row->holder == 0 && store->id > list->after &&
                  (list->up_to == 0 || store->id <= list->up_to);
    bool wanted = inside && !record_is_gone(&store->record, selection->world->now) &&
                  passes(list->tenant, store->tenant) && passes(list->rule, store->rule) &&
                  passes(list->once, store->once) &&
                  (passes(list->key, store->key) || memory_is_bound(table, row, list->key)) &&
                  (list->status == RECORD_ABSENT || list->status == store->record.status);
    if (list->lapsed_only)
        wanted =
            wanted && record_lease(&store->record, selection->world, NULL) == RECORD_LEASE_LAPSED;
    if (wanted)
        selection->rows[selection->n++] = store;
    return BACKEND_OK;
}

static int compare_ids(const void *a, const void *b)
{
    int64_t left = (*(const struct store_row *const *)a)->id;
    int64_t right = (*(const struct store_row *const *)b)->id;
    return (left > right) - (left < right);
}

enum backend_status memory_list(struct backend *backend, const struct store_list *list,
                                const struct record_world *world)
{
    struct table *table = table_of(backend);
    const struct store_row **rows MEM_AUTO = mem_zalloc(table->n_rows + 1, sizeof *rows);
    if (!rows)
        return memory_no_memory(backend);
    struct selection selection = {.table = table, .list = list, .world = world, .rows = rows};
    memory_each(table, select_row, &selection);
    qsort(rows, selection.n, sizeof *rows, compare_ids);
    for (size_t i = 0; i < selection.n && i < list->limit; i++)
        list->each(list->argument, rows[i], record_lease(&rows[i]->record, world, NULL));
    return BACKEND_OK;
}

struct gauging {
    const struct record_world *world;
    struct backend_gauges gauges;
};

static enum backend_status gauge_row(void *argument, struct row *row)
{
    struct gauging *gauging = argument;
    struct backend_gauges *gauges = &gauging->gauges;
    const struct record *record = &row->store.record;
    if (record_lease(record, gauging->world, NULL) == RECORD_LEASE_LAPSED)
        gauges->stale += gauges->stale < STORE_GAUGE_MOST;
    if (is_due(row, gauging->world->now)) {
        bool is_final = record->status == RECORD_COMPLETE || record->status == RECORD_FAILED;
        int64_t due_at = is_final ? row->sweep_at : record->expires_at;
        gauges->expired++;
        if (gauges->expired_oldest == 0 || due_at < gauges->expired_oldest)
            gauges->expired_oldest = due_at;
    }
    if (record->status != RECORD_UNKNOWN)
        return BACKEND_OK;
    int64_t since = record_unknown_since(record);
    if (gauges->unknown_oldest == 0 || since < gauges->unknown_oldest)
        gauges->unknown_oldest = since;
    return BACKEND_OK;
}

enum backend_status memory_gauge(struct backend *backend, const struct record_world *world,
                                 struct backend_gauges *ret_gauges)
{
    struct gauging gauging = {.world = world};
    memory_each(table_of(backend), gauge_row, &gauging);
    *ret_gauges = gauging.gauges;
    return BACKEND_OK;
}
