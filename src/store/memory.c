/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory backend: a hash table and an undo log. For tests and the simulation; it forgets
 * everything when its last backend closes.
 *
 * A transaction holds the table's mutex from begin until rest, rollback or a commit that failed, as
 * an SQLite one holds the batch lock. Each change first logs what it takes to undo it: a rollback
 * walks the log backwards, a commit frees what the log kept.
 */
#include "store/memory.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/thread.h"
#include <stdio.h>
#include <stdlib.h>

#define BUCKETS_FIRST ((size_t)64)
#define UNDO_FIRST ((size_t)64)

struct row {
    struct row *next;        /* in its bucket */
    struct store_row store;  /* its slices point into storage; location into location */
    struct outcome *outcome; /* kept answer; NULL: none */
    char *location;
    int64_t sweep_at; /* final */
    char storage[];
};

enum undo_kind { UNDO_INSERT, UNDO_CHANGE, UNDO_REMOVE };

struct undo {
    enum undo_kind kind;
    struct row *row;
    struct record record; /* change: as it was, with what follows */
    struct outcome *outcome;
    int64_t sweep_at;
};

struct table {
    struct mutex mutex;
    unsigned refs;
    struct backend_state state;
    unsigned char secret[DIGEST_SIZE];
    uint64_t commits; /* that changed anything, by whichever backend */
    struct row **buckets;
    size_t n_buckets;
    size_t n_rows;
    struct undo *undo; /* of the open transaction */
    size_t n_undo;
    size_t max_undo;
};

struct memory_backend {
    struct backend backend; /* first: the two are cast into each other */
    struct table *table;
    struct memory_faults faults;
    uint64_t own_commits;
    uint64_t foreign_seen; /* commits of others, at the last look */
};

static struct memory_backend *memory_of(struct backend *backend)
{
    return (struct memory_backend *)backend;
}

static struct table *table_of(struct backend *backend)
{
    return memory_of(backend)->table;
}

/* ---- the table ---- */

static struct row **bucket_of(struct table *table, const struct digest *key)
{
    uint64_t word;
    memcpy(&word, key->bytes, sizeof word);
    return &table->buckets[word % table->n_buckets];
}

static struct row *find_row(struct table *table, const struct digest *key)
{
    struct row *row = *bucket_of(table, key);
    while (row && !digest_eq(&row->store.key_hash, key))
        row = row->next;
    return row;
}

static void link_row(struct table *table, struct row *row)
{
    struct row **bucket = bucket_of(table, &row->store.key_hash);
    row->next = *bucket;
    *bucket = row;
    table->n_rows++;
}

static void unlink_row(struct table *table, struct row *row)
{
    struct row **link = bucket_of(table, &row->store.key_hash);
    while (*link != row)
        link = &(*link)->next;
    *link = row->next;
    table->n_rows--;
}

static void free_row(struct row *row)
{
    outcome_unref(row->outcome);
    mem_free(row->location);
    mem_free(row);
}

/* Doubles the buckets when there are more rows; without memory the chains just grow longer. */
static void grow(struct table *table)
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
            link_row(table, row);
        }
    }
    mem_free(old);
}

/* Calls `visit` for each row; it may unlink the row it was given. */
static enum backend_status each_row(struct table *table,
                                    enum backend_status (*visit)(void *argument, struct row *row),
                                    void *argument)
{
    for (size_t i = 0; i < table->n_buckets; i++) {
        struct row *next = NULL;
        for (struct row *row = table->buckets[i]; row; row = next) {
            next = row->next;
            enum backend_status status = visit(argument, row);
            if (status != BACKEND_OK)
                return status;
        }
    }
    return BACKEND_OK;
}

/* ---- undo ---- */

static bool log_undo(struct table *table, enum undo_kind kind, struct row *row)
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
    row->sweep_at = undo->sweep_at;
    outcome_unref(row->outcome);
    row->outcome = undo->outcome;
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
        unlink_row(table, undo->row);
        free_row(undo->row);
        return;
    case UNDO_REMOVE:
        outcome_unref(undo->outcome);
        link_row(table, undo->row);
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
    *ret_state = table->state;
    return BACKEND_OK;
}

static void memory_rollback(struct backend *backend)
{
    struct table *table = table_of(backend);
    undo_all(table);
    mutex_unlock(&table->mutex);
}

static void do_commit(struct memory_backend *memory, const struct backend_state *state)
{
    forget_undo(memory->table);
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

/* ---- one row ---- */

static enum backend_status no_memory(struct backend *backend)
{
    snprintf(backend->problem, sizeof backend->problem, "the memory store: out of memory");
    return BACKEND_NO_MEMORY;
}

static enum backend_status memory_find(struct backend *backend, const struct digest *key,
                                       int64_t hint, struct store_row *ret_row)
{
    (void)hint;
    struct row *row = find_row(table_of(backend), key);
    *ret_row = row ? row->store : (struct store_row){.record.status = RECORD_ABSENT};
    return BACKEND_OK;
}

static char *keep_text(char *at, struct slice from, struct slice *ret_kept)
{
    if (from.len > 0)
        memcpy(at, from.at, from.len);
    *ret_kept = slice_make(at, from.len);
    return at + from.len;
}

static struct row *new_row(const struct store_row *from)
{
    size_t size = from->tenant.len + from->rule.len + from->key.len + from->recipe.len;
    struct row *row = mem_alloc(sizeof *row + size);
    if (!row)
        return NULL;
    *row = (struct row){.store = *from};
    row->store.location = (struct slice){0};
    char *at = keep_text(row->storage, from->tenant, &row->store.tenant);
    at = keep_text(at, from->rule, &row->store.rule);
    at = keep_text(at, from->key, &row->store.key);
    keep_text(at, from->recipe, &row->store.recipe);
    return row;
}

static enum backend_status memory_insert(struct backend *backend, const struct store_row *from)
{
    struct table *table = table_of(backend);
    CHECK(!find_row(table, &from->key_hash));
    struct row *row = new_row(from);
    if (!row || !log_undo(table, UNDO_INSERT, row)) {
        mem_free(row);
        return no_memory(backend);
    }
    grow(table);
    link_row(table, row);
    return BACKEND_OK;
}

static enum backend_status memory_update(struct backend *backend, const struct store_row *from)
{
    struct table *table = table_of(backend);
    struct row *row = find_row(table, &from->key_hash);
    CHECK(row && row->store.id == from->id);
    if (!log_undo(table, UNDO_CHANGE, row))
        return no_memory(backend);
    row->store.record = from->record;
    return BACKEND_OK;
}

static enum backend_status memory_finish(struct backend *backend, const struct store_row *from,
                                         const struct outcome *outcome)
{
    struct table *table = table_of(backend);
    struct row *row = find_row(table, &from->key_hash);
    CHECK(row && row->store.id == from->id && !row->outcome && !row->location);
    struct outcome *kept = NULL;
    char *location = NULL;
    if (outcome) {
        kept = outcome_new(from->record.http_status, from->record.status == RECORD_FAILED,
                           outcome->fields, outcome->body);
        location = mem_copy(outcome->location.at, outcome->location.len);
    }
    if ((outcome && (!kept || !location)) || !log_undo(table, UNDO_CHANGE, row)) {
        outcome_unref(kept);
        mem_free(location);
        return no_memory(backend);
    }
    bool strip_first = outcome && from->record.tombstone_us > 0;
    row->store.record = from->record;
    row->sweep_at = strip_first ? from->record.expires_at : from->record.gone_at;
    row->outcome = kept;
    row->location = location;
    row->store.location = slice_of(location);
    return BACKEND_OK;
}

static enum backend_status remove_row(struct backend *backend, struct row *row)
{
    struct table *table = table_of(backend);
    if (!log_undo(table, UNDO_REMOVE, row))
        return no_memory(backend);
    unlink_row(table, row);
    return BACKEND_OK;
}

static enum backend_status memory_remove(struct backend *backend, const struct store_row *from)
{
    struct row *row = find_row(table_of(backend), &from->key_hash);
    CHECK(row && row->store.id == from->id);
    return remove_row(backend, row);
}

static enum backend_status memory_outcome(struct backend *backend, const struct store_row *from,
                                          struct outcome **ret_outcome)
{
    struct row *row = find_row(table_of(backend), &from->key_hash);
    CHECK(row && row->store.id == from->id);
    const struct record *record = &row->store.record;
    struct slice none = {0};
    struct outcome *outcome =
        row->outcome
            ? outcome_ref(row->outcome)
            : outcome_new(record->http_status, record->status == RECORD_FAILED, none, none);
    if (!outcome)
        return no_memory(backend);
    *ret_outcome = outcome;
    return BACKEND_OK;
}

/* ---- many rows ---- */

struct heartbeat {
    struct backend *backend;
    int64_t owner;
    int64_t now;
};

static enum backend_status renew(void *argument, struct row *row)
{
    const struct heartbeat *beat = argument;
    struct record *record = &row->store.record;
    if (record->owner != beat->owner || record->lease_until == 0)
        return BACKEND_OK;
    if (!log_undo(table_of(beat->backend), UNDO_CHANGE, row))
        return no_memory(beat->backend);
    int64_t until = clock_after(beat->now, record->lease_us);
    if (until > record->lease_until)
        record->lease_until = until;
    return BACKEND_OK;
}

static enum backend_status memory_heartbeat(struct backend *backend, int64_t owner, int64_t now)
{
    struct heartbeat beat = {.backend = backend, .owner = owner, .now = now};
    return each_row(table_of(backend), renew, &beat);
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
    if (record->status == RECORD_COMPLETE || record->status == RECORD_FAILED)
        return row->sweep_at <= now;
    return record_is_gone(record, now);
}

static enum backend_status strip(struct sweep *sweep, struct row *row)
{
    if (!log_undo(table_of(sweep->backend), UNDO_CHANGE, row))
        return no_memory(sweep->backend);
    outcome_unref(row->outcome);
    row->outcome = NULL;
    row->sweep_at = row->store.record.gone_at;
    return BACKEND_OK;
}

static enum backend_status sweep_row(void *argument, struct row *row)
{
    struct sweep *sweep = argument;
    if (sweep->steps == sweep->max || !is_due(row, sweep->now))
        return BACKEND_OK;
    sweep->steps++;
    enum record_status status = row->store.record.status;
    if (!record_is_gone(&row->store.record, sweep->now))
        return strip(sweep, row);
    sweep->state->pending -= status == RECORD_PENDING;
    sweep->state->complete -= status == RECORD_COMPLETE;
    sweep->state->failed -= status == RECORD_FAILED;
    return remove_row(sweep->backend, row);
}

static enum backend_status memory_sweep(struct backend *backend, int64_t now, size_t max,
                                        struct backend_state *state, size_t *ret_steps)
{
    struct sweep sweep = {.backend = backend, .now = now, .max = max, .state = state};
    enum backend_status status = each_row(table_of(backend), sweep_row, &sweep);
    if (status == BACKEND_OK)
        *ret_steps = sweep.steps;
    return status;
}

struct selection {
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
    bool wanted = !record_is_gone(&store->record, selection->world->now) &&
                  passes(list->tenant, store->tenant) && passes(list->rule, store->rule) &&
                  passes(list->key, store->key) &&
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

static enum backend_status memory_list(struct backend *backend, const struct store_list *list,
                                       const struct record_world *world)
{
    struct table *table = table_of(backend);
    const struct store_row **rows MEM_AUTO = mem_zalloc(table->n_rows + 1, sizeof *rows);
    if (!rows)
        return no_memory(backend);
    struct selection selection = {.list = list, .world = world, .rows = rows};
    each_row(table, select_row, &selection);
    qsort(rows, selection.n, sizeof *rows, compare_ids);
    for (size_t i = 0; i < selection.n && i < list->limit; i++)
        list->each(list->argument, rows[i], record_lease(&rows[i]->record, world, NULL));
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
    unlink_row(argument, row);
    free_row(row);
    return BACKEND_OK;
}

static void free_table(struct table *table)
{
    CHECK(table->n_undo == 0);
    each_row(table, drop_row, table);
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
    .outcome = memory_outcome,
    .heartbeat = memory_heartbeat,
    .sweep = memory_sweep,
    .list = memory_list,
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
