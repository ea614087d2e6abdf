/* SPDX-License-Identifier: Apache-2.0 */
#include "toy.h"
#include "shelf.h"

#include "base/arena.h"
#include "base/check.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/thread.h"
#include <stdlib.h>

#define HELD_MAX 64 /* keys that transactions hold */
#define TOKENS 4096 /* of one load */

enum { BY_KEY, BY_ONCE, NAMES };
static const struct digest NO_NAME;

/* A record (store.id) or a bound key (bound.id). */
struct row {
    struct row *next;
    int64_t id;
    struct digest names[NAMES]; /* that lead to it, and to no other; else NO_NAME */
    struct store_row store;     /* of the others the version */
    struct backend_owner owner; /* of its lease, as it said last */
    struct outcome *outcome;    /* kept answer; NULL: none */
    struct backend_bound bound; /* for as long as its holder is there */
    char texts[];
};

struct shared {
    struct mutex mutex;
    unsigned refs;
    unsigned char secret[DIGEST_SIZE];
    struct backend_state state;
    int64_t ahead; /* of store time to boot time */
    int64_t token; /* the last one that was given out */
    int64_t forgets;
    int64_t version; /* of what was written last */
    uint64_t commits;
    struct row *rows; /* by id */
    struct shelf shelf;
    struct digest held[HELD_MAX]; /* keys; NO_NAME: free */
};

struct toy {
    struct backend backend; /* first: the two are cast into each other */
    struct toy_faults faults;
    struct shared *shared;
    bool loaded; /* and neither saved nor abandoned; then it was so: */
    struct backend_state state;
    int64_t version; /* as it was then */
    int64_t foreign; /* writes of others, at the last look */
};

static struct shared *lock(struct backend *backend)
{
    struct shared *shared = ((struct toy *)backend)->shared;
    mutex_lock(&shared->mutex);
    return shared;
}

/* ---- rows ---- */

static struct slice *text_of(struct row *row, size_t i)
{
    struct slice *texts[] = {&row->store.tenant,      &row->store.rule,     &row->store.key,
                             &row->store.recipe,      &row->store.origin,   &row->store.once,
                             &row->store.fingerprint, &row->store.location, &row->bound.key,
                             &row->bound.recipe};
    return i < sizeof texts / sizeof *texts ? texts[i] : NULL;
}

/* With its texts behind it, in the arena or (NULL) on the heap. NULL: no row, or no memory. */
static struct row *copy_row(struct row *from, struct arena *arena)
{
    struct slice *text = NULL;
    size_t size = sizeof *from;
    for (size_t i = 0; from && (text = text_of(from, i)); i++)
        size += text->len;
    struct row *row = !from ? NULL : arena ? arena_alloc(arena, size) : malloc(size);
    if (!row)
        return NULL;
    *row = *from;
    char *at = row->texts;
    for (size_t i = 0; (text = text_of(row, i)); at += text->len, i++)
        text->at = memcpy(at, text->len > 0 ? text->at : "", text->len);
    return row;
}

/* What leads to the first row from this id on. */
static struct row **place(struct shared *shared, int64_t id)
{
    struct row **link = &shared->rows;
    while (*link && (*link)->id < id)
        link = &(*link)->next;
    return link;
}

static struct row *find(struct shared *shared, int64_t id)
{
    struct row *row = *place(shared, id);
    return row && row->id == id ? row : NULL;
}

/* By their first bytes first: a call for each row is most of what a sanitizer takes. */
static bool is_named(const struct digest *a, const struct digest *b)
{
    uint64_t first[2];
    memcpy(&first[0], a->bytes, sizeof first[0]);
    memcpy(&first[1], b->bytes, sizeof first[1]);
    return first[0] == first[1] && digest_eq(a, b);
}

static struct row *find_named(const struct shared *shared, const struct digest *name)
{
    struct row *row = digest_eq(name, &NO_NAME) ? NULL : shared->rows;
    while (row && !is_named(&row->names[BY_KEY], name) && !is_named(&row->names[BY_ONCE], name))
        row = row->next;
    return row;
}

static void drop(struct row **link)
{
    struct row *row = *link;
    *link = row->next;
    outcome_unref(row->outcome);
    free(row);
}

static void count(const struct shared *shared, struct backend_counts *counts)
{
    int64_t n[RECORD_UNKNOWN + 1] = {0};
    counts->released = 0;
    for (const struct row *row = shared->rows; row; row = row->next) {
        n[row->store.record.status]++;
        counts->released += record_is_released(&row->store.record);
    }
    counts->pending = n[RECORD_PENDING];
    counts->complete = n[RECORD_COMPLETE];
    counts->failed = n[RECORD_FAILED];
    counts->unknown = n[RECORD_UNKNOWN];
}

/* A copy of a row as load and list show it. */
static struct store_row *judge(const struct toy *toy, struct row *row)
{
    if (row && record_holder(&row->store.record) != 0)
        backend_judge_lease(&row->store.record, &row->owner, &toy->state);
    return row ? &row->store : NULL;
}

/* ---- load ---- */

static void toy_abandon(struct backend *backend)
{
    struct toy *toy = (struct toy *)backend;
    CHECK(toy->loaded);
    toy->loaded = false;
}

static void look_up(const struct toy *toy, struct backend_name *name, struct arena *arena)
{
    struct shared *shared = toy->shared;
    struct row *row = find_named(shared, &name->hash), *hinted = find(shared, name->hint);
    struct row *holder = row && row->bound.id != 0 ? find(shared, row->bound.holder) : row;
    struct row *bound = copy_row(holder && holder != row ? row : NULL, arena);
    bool of_key = hinted && digest_eq(&hinted->store.key_hash, &name->hash);
    hinted = copy_row(of_key ? hinted : NULL, arena);
    holder = copy_row(holder, arena);
    name->row = judge(toy, holder);
    name->bound = bound ? &bound->bound : NULL;
    name->hinted = judge(toy, hinted);
}

static enum backend_status toy_load(struct backend *backend, struct backend_name *names, size_t n,
                                    struct arena *arena, struct backend_read *ret_read)
{
    struct toy *toy = (struct toy *)backend;
    CHECK(!toy->loaded);
    if (atomic_load(&toy->faults.gone))
        return BACKEND_GONE;
    uint64_t size = atomic_load(&toy->faults.space_size);
    backend->space = (struct backend_space){
        .free = size > 0 ? atomic_load(&toy->faults.space_free) : UINT64_MAX, .size = size};
    struct shared *shared = lock(backend);
    int64_t boot = clock_boot_us(), n_tokens = atomic_load(&toy->faults.n_tokens);
    int64_t again = atomic_exchange(&toy->faults.token, 0);
    struct backend_state *state = &shared->state;
    state->now = boot + shared->ahead > state->now ? boot + shared->ahead : state->now;
    state->serve_alive = atomic_load(&toy->faults.serve_alive);
    toy->state = *state;
    *ret_read = (struct backend_read){state->now, boot, again > 0 ? again : shared->token + 1,
                                      n_tokens, shared->forgets};
    shared->token += n_tokens;
    toy->version = shared->version;
    for (size_t i = 0; i < n; i++)
        look_up(toy, &names[i], arena);
    mutex_unlock(&shared->mutex);
    toy->loaded = true;
    void (*then)(void *) = toy->faults.loaded;
    toy->faults.loaded = NULL;
    if (then)
        then(toy->faults.argument);
    if (!arena->failed)
        return BACKEND_OK;
    toy_abandon(backend);
    return BACKEND_NO_MEMORY;
}

static enum backend_status toy_outcome(struct backend *backend, const struct store_row *from,
                                       uint64_t most, struct outcome **ret_outcome,
                                       uint64_t *ret_size)
{
    struct shared *shared = lock(backend);
    const struct row *row = find(shared, from->id);
    bool stands = row && row->store.version == from->version;
    struct outcome *outcome = stands && row->outcome ? outcome_ref(row->outcome) : NULL;
    mutex_unlock(&shared->mutex);
    bool failed = from->record.status == RECORD_FAILED;
    if (stands && !outcome)
        outcome = outcome_new(from->record.http_status, failed, SLICE(""), SLICE(""));
    if (!outcome)
        return stands ? BACKEND_NO_MEMORY : BACKEND_BUSY;
    *ret_size = outcome_size(outcome);
    *ret_outcome = *ret_size <= most ? outcome : NULL;
    if (*ret_size > most)
        outcome_unref(outcome);
    return BACKEND_OK;
}

static bool passes(struct slice filter, struct slice value)
{
    return !filter.at || slice_eq(filter, value);
}

static bool is_listed(const struct shared *shared, const struct row *row,
                      const struct store_list *list)
{
    const struct store_row *store = &row->store;
    bool by_key = passes(list->key, store->key);
    for (const struct row *other = shared->rows; other && !by_key; other = other->next)
        by_key = other->bound.holder == row->id && slice_eq(other->bound.key, list->key);
    return by_key && passes(list->tenant, store->tenant) && passes(list->rule, store->rule) &&
           passes(list->once, store->once) &&
           (list->statuses == 0 || list->statuses >> store->record.status & 1);
}

static enum backend_status toy_list(struct backend *backend, const struct store_list *list,
                                    const struct record_world *world, int64_t *ret_seen)
{
    struct shared *shared = lock(backend);
    struct row *row = *place(shared, list->newest ? 0 : list->after + 1), *behind = row;
    bool more = true;
    for (size_t n = 0; behind && n < list->most; n++)
        behind = behind->next;
    for (; behind && list->newest; behind = behind->next)
        row = row->next;
    for (; row != behind && more; row = row->next) {
        struct row shown = *row;
        const struct record *record = &judge((struct toy *)backend, &shown)->record;
        enum record_lease lease = record_lease(record, world, NULL);
        *ret_seen = row->id;
        if (!record_is_gone(record, world->now) && is_listed(shared, row, list) &&
            (!list->lapsed_only || lease == RECORD_LEASE_LAPSED))
            more = list->each(list->argument, &shown.store, lease);
    }
    *ret_seen = more && !behind ? 0 : *ret_seen;
    mutex_unlock(&shared->mutex);
    return BACKEND_OK;
}

static enum backend_status toy_query(struct backend *backend, const struct table_query *query,
                                     int64_t now, int64_t *ret_next)
{
    struct shared *shared = lock(backend);
    shelf_query(&shared->shelf, query, now, ret_next);
    mutex_unlock(&shared->mutex);
    return BACKEND_OK;
}

/* ---- what transactions hold ---- */

static struct digest *slot_of(struct shared *shared, const struct digest *key)
{
    for (size_t i = 0; i < HELD_MAX; i++)
        if (digest_eq(&shared->held[i], key))
            return &shared->held[i];
    return NULL;
}

void toy_hold(struct backend *backend, const struct digest *key, bool held)
{
    struct shared *shared = lock(backend);
    struct digest *slot = slot_of(shared, held ? &NO_NAME : key);
    CHECK(slot);
    *slot = held ? *key : NO_NAME;
    mutex_unlock(&shared->mutex);
}

static bool is_locked(struct shared *shared, const struct backend_group *group)
{
    for (size_t i = 0; i < group->n; i++) {
        const struct backend_change *change = &group->changes[i];
        const struct digest *key = change->row     ? &change->row->key_hash
                                   : change->seen  ? &change->seen->hash
                                   : change->bound ? &change->bound->key_hash
                                                   : NULL;
        if (key && slot_of(shared, key))
            return true;
    }
    return false;
}

/* ---- save: groups ---- */

/* The names that lead to the changed row from now on. */
static void name_row(const struct shared *shared, const struct backend_change *change,
                     struct digest *ret_names)
{
    struct digest_key secret = digest_key_of(slice_make(shared->secret, DIGEST_SIZE));
    const struct store_row *row = change->row;
    bool is_new = row && change->before == RECORD_ABSENT;
    ret_names[BY_KEY] = change->bound ? change->bound->key_hash : is_new ? row->key_hash : NO_NAME;
    ret_names[BY_ONCE] = NO_NAME;
    if (row && (is_new || change->holds) && row->once.len > 0)
        ret_names[BY_ONCE] = store_once_hash(&secret, row->tenant, row->rule, row->once);
}

/* The row is the one that was loaded, and its new names lead nowhere else since then. */
static bool fits(struct toy *toy, const struct backend_change *change)
{
    struct digest names[NAMES];
    if (change->seen) {
        const struct backend_name *seen = change->seen;
        const struct row *named = find_named(toy->shared, &seen->hash);
        int64_t id = seen->bound ? seen->bound->id : seen->row ? seen->row->id : 0;
        /* What is bound to a record that is gone leads nowhere. */
        bool same = named && (named->id == id || (id == 0 && named->bound.id != 0));
        return named ? same && named->store.version <= toy->version : id == 0;
    }
    name_row(toy->shared, change, names);
    for (size_t i = 0; i < NAMES; i++) {
        const struct row *named = find_named(toy->shared, &names[i]);
        if (named && named->store.version > toy->version)
            return false;
    }
    if (!change->row)
        return true;
    const struct row *row = find(toy->shared, change->row->id);
    return change->before == RECORD_ABSENT ? !row
                                           : row && row->store.version == change->row->version;
}

/* On the heap, in place of what it was before (NULL: nothing). */
static struct row *make(const struct backend_change *change, const struct row *before)
{
    struct row row = before ? *before : (struct row){.next = NULL};
    if (change->row)
        row.store = *change->row;
    if (change->bound)
        row.bound = *change->bound;
    if (change->outcome) {
        row.outcome = change->outcome;
        row.store.location = change->outcome->location;
    }
    struct row *made = copy_row(&row, NULL);
    CHECK(made);
    if (made->outcome)
        outcome_ref(made->outcome);
    return made;
}

static void apply(const struct toy *toy, const struct backend_change *change)
{
    struct shared *shared = toy->shared;
    const struct store_row *to = change->row;
    if (change->seen || change->brought)
        return;
    int64_t id = to ? to->id : change->bound->id;
    struct row *before = find(shared, id), **link = place(shared, id);
    bool goes = to && to->record.status == RECORD_ABSENT;
    struct row *row = goes ? NULL : make(change, before);
    if (before)
        drop(link);
    if (goes)
        return;
    struct digest names[NAMES];
    name_row(shared, change, names);
    for (size_t i = 0; i < NAMES; i++) {
        struct row *named = find_named(shared, &names[i]);
        if (named)
            named->names[i] = NO_NAME;
        if (!digest_eq(&names[i], &NO_NAME))
            row->names[i] = names[i];
    }
    row->id = id;
    if (record_holder(&row->store.record) != row->owner.incarnation)
        row->owner = toy->backend.self;
    row->store.version = shared->version;
    row->next = *link;
    *link = row;
}

/* ---- save: chores ---- */

/* When a row, or what is kept of its answer, is to be swept. */
static int64_t due_at(const struct row *row)
{
    const struct record *record = &row->store.record;
    if (record->status == RECORD_ABSENT)
        return row->bound.expires_at;
    if (record->status != RECORD_COMPLETE && record->status != RECORD_FAILED)
        return record_is_released(record) ? record->expires_at : CLOCK_NEVER;
    int64_t body_until = record_body_until(record), row_until = record_row_until(record);
    return row->outcome && body_until < row_until ? body_until : row_until;
}

static void lower(int64_t *least, int64_t value)
{
    *least = *least == 0 || value < *least ? value : *least;
}

static void do_chores(struct toy *toy, struct backend_save *save)
{
    struct shared *shared = toy->shared;
    struct backend_chores *chores = &save->chores;
    int64_t now = save->world->now;
    for (struct row **link = &shared->rows, *row = *link; row; row = *link) {
        struct record *record = &row->store.record;
        bool beats = chores->beat && record_holder(record) == save->world->self;
        bool due = chores->swept < chores->sweep_most && due_at(row) <= now &&
                   !slot_of(shared, &row->store.key_hash);
        chores->swept += due;
        if (due && record_is_gone(record, now)) {
            drop(link);
            continue;
        }
        chores->beaten |= beats;
        row->owner.beat_at = beats ? now : row->owner.beat_at;
        outcome_unref(due ? row->outcome : NULL);
        row->outcome = due ? NULL : row->outcome;
        row->store.version = due ? shared->version : row->store.version;
        link = &row->next;
    }
    atomic_fetch_add(&toy->faults.beats, chores->beaten);
    chores->swept += shelf_sweep(&shared->shelf, now, chores->sweep_most - chores->swept);
}

static void gauge(const struct toy *toy, const struct record_world *world,
                  struct backend_gauges *ret_gauges)
{
    *ret_gauges = (struct backend_gauges){0};
    for (const struct row *row = toy->shared->rows; row; row = row->next) {
        struct row shown = *row;
        const struct record *record = &judge(toy, &shown)->record;
        ret_gauges->stale += record_lease(record, world, NULL) == RECORD_LEASE_LAPSED;
        if (record->status == RECORD_UNKNOWN)
            lower(&ret_gauges->unknown_oldest, record_unknown_since(record));
        if (record->status == RECORD_ABSENT || due_at(row) > world->now)
            continue;
        ret_gauges->expired++;
        lower(&ret_gauges->expired_oldest, due_at(row));
    }
}

/* ---- save ---- */

static void write_all(struct toy *toy, struct backend_save *save)
{
    struct shared *shared = toy->shared;
    shared->version++;
    for (struct backend_group *group = save->groups; group; group = group->next) {
        struct shelf shelf = {NULL};
        bool brings = group->n > 0 && group->changes[0].brought;
        bool fit = !brings || shelf_with(&shared->shelf, group, &shelf);
        for (size_t i = 0; i < group->n && fit; i++)
            fit = fits(toy, &group->changes[i]);
        bool locked = is_locked(shared, group);
        atomic_fetch_add(&toy->faults.locked, locked);
        fit = fit && !locked;
        group->result = locked ? GROUP_LOCKED : fit ? GROUP_OK : GROUP_CONFLICT;
        struct shelf left = fit && brings ? shared->shelf : shelf;
        shared->shelf = fit && brings ? shelf : shared->shelf;
        shelf_fini(&left);
        for (size_t i = 0; i < group->n && fit; i++)
            apply(toy, &group->changes[i]);
    }
    do_chores(toy, save);
    struct backend_chores *chores = &save->chores;
    save->changed = save->registers || save->groups || chores->beaten + chores->swept > 0;
    shared->forgets += save->forgets;
    if (save->registers)
        shared->state.serve = save->world->self;
    if (save->registers)
        shared->state.serve_since = shared->state.now;
    shared->commits += save->changed;
    atomic_fetch_add(&toy->faults.commits, save->changed);
    if (save->chores.gauge)
        gauge(toy, save->world, &save->chores.gauges);
    count(shared, &save->counts);
}

static enum backend_status toy_save(struct backend *backend, struct backend_save *save)
{
    struct toy *toy = (struct toy *)backend;
    enum backend_status status = BACKEND_OK;
    if (save->groups || save->registers || save->chores.beat)
        status = (enum backend_status)atomic_exchange(&toy->faults.next_save, BACKEND_OK);
    void *probe MEM_AUTO = mem_alloc(1); /* it runs out before anything is written, or not at all */
    status = probe ? status : BACKEND_NO_MEMORY;
    struct shared *shared = lock(backend);
    toy_abandon(backend);
    if (status == BACKEND_OK || status == BACKEND_UNSURE)
        write_all(toy, save);
    mutex_unlock(&shared->mutex);
    return status;
}

/* ---- the rest ---- */

static enum backend_status toy_look(struct backend *backend, bool *ret_changed)
{
    struct toy *toy = (struct toy *)backend;
    if (atomic_load(&toy->faults.gone))
        return BACKEND_GONE;
    struct shared *shared = lock(backend);
    int64_t foreign = (int64_t)(shared->commits - atomic_load(&toy->faults.commits));
    mutex_unlock(&shared->mutex);
    *ret_changed = atomic_exchange(&toy->faults.changed, false) || foreign != toy->foreign;
    toy->foreign = foreign;
    return BACKEND_OK;
}

static void toy_close(struct backend *backend)
{
    struct shared *shared = lock(backend);
    bool last = --shared->refs == 0;
    mutex_unlock(&shared->mutex);
    free(backend);
    if (!last)
        return;
    while (shared->rows)
        drop(&shared->rows);
    shelf_fini(&shared->shelf);
    mutex_fini(&shared->mutex);
    free(shared);
}

static const struct backend_ops toy_ops = {
    .load = toy_load,
    .save = toy_save,
    .abandon = toy_abandon,
    .outcome = toy_outcome,
    .list = toy_list,
    .query = toy_query,
    .look = toy_look,
    .close = toy_close,
};

static struct shared *make_shared(void)
{
    struct shared *shared = calloc(1, sizeof *shared);
    CHECK(shared);
    mutex_init(&shared->mutex);
    random_bytes(shared->secret, sizeof shared->secret);
    shared->ahead = clock_wall_us() - clock_boot_us();
    return shared;
}

struct backend *toy_share(struct backend *with)
{
    struct toy *toy = calloc(1, sizeof *toy);
    CHECK(toy);
    toy->shared = with ? ((struct toy *)with)->shared : make_shared();
    toy->backend = (struct backend){
        .ops = &toy_ops, .problem = "the toy store failed", .outcome_max = SIZE_MAX};
    atomic_init(&toy->faults.n_tokens, TOKENS);
    memcpy(toy->backend.secret, toy->shared->secret, sizeof toy->shared->secret);
    struct shared *shared = lock(&toy->backend);
    shared->refs++;
    toy->foreign = (int64_t)shared->commits;
    mutex_unlock(&shared->mutex);
    return &toy->backend;
}

struct toy_faults *toy_faults(struct backend *backend)
{
    return &((struct toy *)backend)->faults;
}
