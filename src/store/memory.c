/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory backend: a hash table and an undo log. For tests and the simulation; it forgets
 * everything when its last backend closes.
 *
 * A transaction holds the table's mutex from begin until rest, rollback or a commit that failed, as
 * an SQLite one holds the batch lock. Each change first logs what it takes to undo it: a rollback
 * walks the log backwards, a commit frees what the log kept.
 */
#include "store/memory_table.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/random.h"
#include <stdio.h>

#define BUCKETS_FIRST ((size_t)64)
#define UNDO_FIRST ((size_t)64)

/* ---- the table ---- */

static struct row **bucket_of(struct table *table, const struct digest *key)
{
    uint64_t word;
    memcpy(&word, key->bytes, sizeof word);
    return &table->buckets[word % table->n_buckets];
}

struct row *memory_find_row(struct table *table, const struct digest *key)
{
    struct row *row = *bucket_of(table, key);
    while (row && !(row->keyed && digest_eq(&row->store.key_hash, key)))
        row = row->next;
    return row;
}

struct row *memory_find_hinted(struct table *table, const struct digest *key, int64_t id)
{
    struct row *row = *bucket_of(table, key);
    while (row && (row->store.id != id || row->holder != 0))
        row = row->next;
    return row;
}

struct row *memory_row_of(struct table *table, const struct store_row *store)
{
    struct row *row = memory_find_hinted(table, &store->key_hash, store->id);
    CHECK(row);
    return row;
}

void memory_link(struct table *table, struct row *row)
{
    struct row **bucket = bucket_of(table, &row->store.key_hash);
    row->next = *bucket;
    *bucket = row;
    row->linked = true;
    table->n_rows++;
}

void memory_unlink(struct table *table, struct row *row)
{
    struct row **link = bucket_of(table, &row->store.key_hash);
    while (*link != row)
        link = &(*link)->next;
    *link = row->next;
    row->linked = false;
    table->n_rows--;
}

static void free_row(struct row *row)
{
    outcome_unref(row->outcome);
    mem_free(row->location);
    mem_free(row->origin);
    mem_free(row->once);
    mem_free(row);
}

void memory_grow(struct table *table)
{
    if (table->n_rows < table->n_buckets)
        return;
    size_t n_old = table->n_buckets;
    struct row **old = table->buckets;
    struct row **buckets = mem_zalloc(n_old * 2, sizeof *buckets);
    if (!buckets)
        return;
    table->buckets = buckets;
    table->n_buckets = n_old * 2;
    table->n_rows = 0;
    for (size_t i = 0; i < n_old; i++) {
        struct row *next = NULL;
        for (struct row *row = old[i]; row; row = next) {
            next = row->next;
            memory_link(table, row);
        }
    }
    mem_free(old);
}

enum backend_status memory_each(struct table *table,
                                enum backend_status (*visit)(void *argument, struct row *row),
                                void *argument)
{
    for (size_t i = 0; i < table->n_buckets; i++) {
        struct row *next = NULL;
        for (struct row *row = table->buckets[i]; row; row = next) {
            next = row->next;
            enum backend_status status = row->linked ? visit(argument, row) : BACKEND_OK;
            if (status != BACKEND_OK)
                return status;
        }
    }
    return BACKEND_OK;
}

/* ---- undo ---- */

bool memory_log(struct table *table, enum undo_kind kind, struct row *row)
{
    if (table->n_undo == table->max_undo) {
        size_t max = table->max_undo > 0 ? table->max_undo * 2 : UNDO_FIRST;
        struct undo *undo = mem_realloc(table->undo, max * sizeof *undo);
        if (!undo)
            return false;
        table->undo = undo;
        table->max_undo = max;
    }
    table->undo[table->n_undo++] =
        (struct undo){.kind = kind,
                      .row = row,
                      .record = row->store.record,
                      .keyed = row->keyed,
                      .holds = row->holds,
                      .once_hash = row->once_hash,
                      .once = row->store.once,
                      .once_template = row->store.once_template,
                      .outcome = row->outcome ? outcome_ref(row->outcome) : NULL,
                      .sweep_at = row->sweep_at};
    return true;
}

/* The location comes with the outcome, when a row becomes final: undone, there is none. */
static void undo_change(struct undo *undo)
{
    struct row *row = undo->row;
    bool was_final = undo->record.status == RECORD_COMPLETE || undo->record.status == RECORD_FAILED;
    row->store.record = undo->record;
    row->keyed = undo->keyed;
    row->holds = undo->holds;
    row->once_hash = undo->once_hash;
    row->store.once = undo->once;
    row->store.once_template = undo->once_template;
    if (undo->replaced_once) {
        mem_free(row->once);
        row->once = undo->once_text;
    }
    row->sweep_at = undo->sweep_at;
    outcome_unref(row->outcome);
    row->outcome = undo->outcome;
    if (undo->replaced_origin) {
        mem_free(row->origin);
        row->origin = undo->origin;
        row->store.origin = undo->origin_was;
    }
    if (was_final)
        return;
    mem_free(row->location);
    row->location = NULL;
    row->store.location = (struct slice){0};
}

static void undo_one(struct table *table, struct undo *undo)
{
    switch (undo->kind) {
    case UNDO_INSERT:
        memory_unlink(table, undo->row);
        free_row(undo->row);
        return;
    case UNDO_REMOVE:
        outcome_unref(undo->outcome);
        memory_link(table, undo->row);
        return;
    case UNDO_CHANGE:
        undo_change(undo);
        return;
    }
}

static void undo_all(struct table *table)
{
    while (table->n_undo > 0)
        undo_one(table, &table->undo[--table->n_undo]);
}

static void forget_undo(struct table *table)
{
    for (size_t i = 0; i < table->n_undo; i++) {
        outcome_unref(table->undo[i].outcome);
        if (table->undo[i].replaced_origin)
            mem_free(table->undo[i].origin);
        if (table->undo[i].replaced_once)
            mem_free(table->undo[i].once_text);
        if (table->undo[i].kind == UNDO_REMOVE)
            free_row(table->undo[i].row);
    }
    table->n_undo = 0;
}

/* ---- transactions ---- */

static enum backend_status memory_begin(struct backend *backend, struct backend_state *ret_state)
{
    struct table *table = table_of(backend);
    if (atomic_load(&memory_of(backend)->faults.gone)) {
        snprintf(backend->problem, sizeof backend->problem, "the memory store was removed");
        return BACKEND_GONE;
    }
    mutex_lock(&table->mutex);
    CHECK(table->n_undo == 0);
    memory_mark_audits(table);
    *ret_state = table->state;
    return BACKEND_OK;
}

static void memory_rollback(struct backend *backend)
{
    struct table *table = table_of(backend);
    undo_all(table);
    memory_undo_audits(table);
    mutex_unlock(&table->mutex);
}

static void do_commit(struct memory_backend *memory, const struct backend_state *state)
{
    forget_undo(memory->table);
    memory_drop_audits(memory->table);
    memory->table->state = *state;
    memory->table->commits++;
    memory->own_commits++;
    atomic_fetch_add(&memory->faults.commits, 1);
}

static enum backend_status fail_commit(struct memory_backend *memory, enum memory_commit how,
                                       const struct backend_state *state)
{
    snprintf(memory->backend.problem, sizeof memory->backend.problem,
             "the memory store failed a commit");
    if (how == MEMORY_COMMIT_LOST_BUT_THERE)
        do_commit(memory, state);
    memory_rollback(&memory->backend);
    if (how == MEMORY_COMMIT_FULL)
        return BACKEND_FULL;
    return how == MEMORY_COMMIT_FATAL ? BACKEND_FATAL : BACKEND_BUSY;
}

static enum backend_status memory_commit(struct backend *backend, const struct backend_state *state,
                                         bool changed)
{
    struct memory_backend *memory = memory_of(backend);
    CHECK(changed || memory->table->n_undo == 0);
    if (!changed)
        return BACKEND_OK;
    enum memory_commit how =
        (enum memory_commit)atomic_exchange(&memory->faults.next_commit, MEMORY_COMMIT_OK);
    if (how != MEMORY_COMMIT_OK)
        return fail_commit(memory, how, state);
    do_commit(memory, state);
    return BACKEND_OK;
}

static enum backend_status memory_rest(struct backend *backend)
{
    mutex_unlock(&table_of(backend)->mutex);
    return BACKEND_OK;
}

/* ---- outside a batch ---- */

static enum backend_status memory_look(struct backend *backend, bool *ret_changed)
{
    struct memory_backend *memory = memory_of(backend);
    if (atomic_load(&memory->faults.gone))
        return BACKEND_GONE;
    mutex_lock(&memory->table->mutex);
    uint64_t foreign = memory->table->commits - memory->own_commits;
    mutex_unlock(&memory->table->mutex);
    bool said = atomic_exchange(&memory->faults.changed, false);
    *ret_changed = said || foreign != memory->foreign_seen;
    memory->foreign_seen = foreign;
    return BACKEND_OK;
}

static bool memory_serve_alive(struct backend *backend)
{
    return atomic_load(&memory_of(backend)->faults.serve_alive);
}

static bool memory_space(struct backend *backend, uint64_t *ret_free, uint64_t *ret_size)
{
    struct memory_faults *faults = &memory_of(backend)->faults;
    uint64_t size = atomic_load(&faults->space_size);
    if (size == 0)
        return false;
    *ret_free = atomic_load(&faults->space_free);
    *ret_size = size;
    return true;
}

static enum backend_status drop_row(void *argument, struct row *row)
{
    memory_unlink(argument, row);
    free_row(row);
    return BACKEND_OK;
}

static void free_table(struct table *table)
{
    CHECK(table->n_undo == 0);
    memory_each(table, drop_row, table);
    memory_free_audits(table);
    mutex_fini(&table->mutex);
    mem_free(table->buckets);
    mem_free(table->undo);
    mem_free(table);
}

static void memory_close(struct backend *backend)
{
    struct table *table = table_of(backend);
    mutex_lock(&table->mutex);
    bool last = --table->refs == 0;
    mutex_unlock(&table->mutex);
    if (last)
        free_table(table);
    mem_free(backend);
}

static const struct backend_ops memory_ops = {
    .begin = memory_begin,
    .commit = memory_commit,
    .rollback = memory_rollback,
    .rest = memory_rest,
    .find = memory_find,
    .insert = memory_insert,
    .update = memory_update,
    .finish = memory_finish,
    .remove = memory_remove,
    .find_once = memory_find_once,
    .hold = memory_hold,
    .bind = memory_bind,
    .lengthen = memory_lengthen,
    .outcome = memory_outcome,
    .heartbeat = memory_heartbeat,
    .sweep = memory_sweep,
    .list = memory_list,
    .gauge = memory_gauge,
    .add_audit = memory_add_audit,
    .list_audits = memory_list_audits,
    .look = memory_look,
    .serve_alive = memory_serve_alive,
    .space = memory_space,
    .close = memory_close,
};

/* ---- life ---- */

static struct table *new_table(void)
{
    struct table *table = mem_zalloc(1, sizeof *table);
    struct row **buckets = mem_zalloc(BUCKETS_FIRST, sizeof *buckets);
    if (!table || !buckets) {
        mem_free(table);
        mem_free(buckets);
        return NULL;
    }
    mutex_init(&table->mutex);
    random_bytes(table->secret, sizeof table->secret);
    table->buckets = buckets;
    table->n_buckets = BUCKETS_FIRST;
    table->state.next_row = 1;
    return table;
}

static struct backend *new_backend(struct table *table)
{
    struct memory_backend *memory = mem_zalloc(1, sizeof *memory);
    if (!memory)
        return NULL;
    memory->backend.ops = &memory_ops;
    memory->backend.place = "the memory store";
    memory->backend.outcome_max = SIZE_MAX;
    memory->table = table;
    memcpy(memory->backend.secret, table->secret, sizeof table->secret);
    mutex_lock(&table->mutex);
    table->refs++;
    memory->foreign_seen = table->commits;
    mutex_unlock(&table->mutex);
    return &memory->backend;
}

struct backend *memory_backend_open(void)
{
    struct table *table = new_table();
    if (!table)
        return NULL;
    struct backend *backend = new_backend(table);
    if (!backend)
        free_table(table);
    return backend;
}

struct backend *memory_backend_share(struct backend *backend)
{
    return new_backend(table_of(backend));
}

struct memory_faults *memory_backend_faults(struct backend *backend)
{
    return &memory_of(backend)->faults;
}
