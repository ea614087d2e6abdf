/* SPDX-License-Identifier: Apache-2.0 */
#include "toy.h"

#include "toy_inside.h"
#include "toy_rows.h"

#include "base/check.h"
#include "base/crypto/random.h"
#include "base/thread.h"
#include <stdlib.h>

static const struct digest NO_NAME;

#define TEXT_AT(field) TABLE_COLUMN(struct kept, TEXT, PLAIN, field, #field)
static const struct table_column texts[] = {
    TEXT_AT(store.tenant),      TEXT_AT(store.rule),    TEXT_AT(store.key),  TEXT_AT(store.recipe),
    TEXT_AT(store.fingerprint), TEXT_AT(store.origin),  TEXT_AT(store.once), TEXT_AT(bound.key),
    TEXT_AT(bound.recipe),      TEXT_AT(store.location)};
const struct table toy_records = {
    .columns = texts, .n_columns = sizeof texts / sizeof *texts, .row_size = sizeof(struct kept)};

struct shared *toy_lock(struct backend *backend)
{
    struct shared *shared = ((struct toy *)backend)->shared;
    mutex_lock(&shared->mutex);
    int64_t boot = clock_boot_us(), now = boot + shared->ahead;
    shared->boot = boot;
    shared->now = now > shared->now ? now : shared->now;
    return shared;
}

/* ---- rows ---- */

/* A row may have the id of one of another table. */
static size_t index_of(const struct rows *rows, const struct table *table, int64_t id)
{
    size_t at = rows->n;
    while (at > 0 && (rows->at[at - 1].row->id > id ||
                      (rows->at[at - 1].row->id == id && rows->at[at - 1].table >= table)))
        at--;
    return at;
}

void *toy_find_row(const struct rows *rows, const struct table *table, int64_t id)
{
    size_t at = index_of(rows, table, id);
    bool found = at < rows->n && rows->at[at].row->id == id && rows->at[at].table == table;
    return found ? rows->at[at].row : NULL;
}

/* NULL: it is a row of a module. */
static struct kept *kept_at(const struct rows *rows, size_t at)
{
    return rows->at[at].table == &toy_records ? (struct kept *)rows->at[at].row : NULL;
}

struct kept *toy_find_named(const struct rows *rows, const struct digest *name)
{
    for (size_t i = digest_eq(name, &NO_NAME) ? rows->n : 0; i < rows->n; i++) {
        struct kept *kept = kept_at(rows, i);
        for (size_t k = 0; kept && k < 2; k++) /* under a sanitizer to compare is a call */
            if (kept->names[k].bytes[0] == name->bytes[0] && digest_eq(&kept->names[k], name))
                return kept;
    }
    return NULL;
}

void *toy_copy_row(const struct table *table, const void *from, struct arena *arena)
{
    size_t size = table->row_size, n = from ? table->n_columns : 0;
    for (size_t i = 0; i < n; i++)
        size += table->columns[i].kind == TABLE_INT ? 0 : table_text(&table->columns[i], from).len;
    char *made = !from ? NULL : arena ? arena_alloc(arena, size) : malloc(size);
    CHECK(made || !from || arena);
    if (!made)
        return NULL;
    memcpy(made, from, table->row_size);
    for (size_t i = 0, at = table->row_size; i < n; i++) {
        const struct table_column *column = &table->columns[i];
        struct slice text = column->kind == TABLE_INT ? SLICE("") : table_text(column, from);
        if (text.len > 0)
            table_set_text(column, made,
                           slice_make(memcpy(made + at, text.at, text.len), text.len));
        at += text.len;
    }
    return made;
}

void toy_set_row(struct rows *rows, const struct table *table, int64_t id, void *row)
{
    size_t at = index_of(rows, table, id), size = sizeof *rows->at;
    if (row && table == &toy_records && ((struct kept *)row)->outcome)
        outcome_ref(((struct kept *)row)->outcome);
    if (toy_find_row(rows, table, id)) {
        outcome_unref(table == &toy_records ? kept_at(rows, at)->outcome : NULL);
        free(rows->at[at].row);
        memmove(&rows->at[at], &rows->at[at + 1], (--rows->n - at) * size);
    }
    if (!row)
        return;
    rows->at = realloc(rows->at, (rows->n + 1) * size);
    CHECK(rows->at);
    memmove(&rows->at[at + 1], &rows->at[at], (rows->n++ - at) * size);
    rows->at[at] = (struct slot){table, row};
}

static void copy_rows(const struct rows *from, struct rows *to)
{
    for (size_t i = 0; i < from->n; i++)
        toy_set_row(to, from->at[i].table, from->at[i].row->id,
                    toy_copy_row(from->at[i].table, from->at[i].row, NULL));
}

static void clear_rows(struct rows *rows)
{
    while (rows->n > 0)
        toy_set_row(rows, rows->at[rows->n - 1].table, rows->at[rows->n - 1].row->id, NULL);
    free(rows->at);
    rows->at = NULL;
}

/* ---- load ---- */

static void toy_abandon(struct backend *backend)
{
    struct toy *toy = (struct toy *)backend;
    CHECK(toy->loaded);
    toy->loaded = false;
}

/* A record as it is by now; RECORD_ABSENT: there is none. */
static struct store_row shown(const struct shared *shared, const struct kept *kept)
{
    struct store_row row = kept ? kept->store : (struct store_row){.id = 0};
    row.version = kept ? kept->row.version : 0;
    if (record_holder(&row.record) != 0)
        backend_judge_lease(&row.record, &kept->owner, &shared->holders[kept->owner.role],
                            shared->now);
    return row;
}

static struct store_row *show(const struct shared *shared, const struct kept *kept,
                              struct arena *arena)
{
    struct kept *made = toy_copy_row(&toy_records, kept, arena);
    if (made)
        made->store = shown(shared, made);
    return made ? &made->store : NULL;
}

static void look_up(const struct shared *shared, struct backend_name *name, struct arena *arena)
{
    const struct rows *rows = &shared->rows;
    const struct kept *row = toy_find_named(rows, &name->hash),
                      *hinted = toy_find_row(rows, &toy_records, name->hint);
    bool is_bound = row && row->bound.id != 0;
    const struct kept *holder =
        is_bound ? toy_find_row(rows, &toy_records, row->bound.holder) : row;
    struct kept *bound = toy_copy_row(&toy_records, is_bound && holder ? row : NULL, arena);
    bool of_key = hinted && digest_eq(&hinted->store.key_hash, &name->hash);
    name->row = show(shared, holder, arena);
    name->bound = bound ? &bound->bound : NULL;
    name->hinted = show(shared, of_key ? hinted : NULL, arena);
}

static enum backend_status toy_load(struct backend *backend, struct backend_name *names, size_t n,
                                    struct arena *arena, struct backend_read *ret_read)
{
    struct toy *toy = (struct toy *)backend;
    CHECK(!toy->loaded);
    struct shared *shared = toy_lock(backend);
    *ret_read = (struct backend_read){shared->now, shared->boot,           shared->token + 1,
                                      TOKENS,      shared->counts.forgets, shared->terms};
    shared->token += TOKENS;
    toy->version = shared->version;
    toy->removals = shared->removals;
    for (size_t i = 0; i < n; i++)
        look_up(shared, &names[i], arena);
    mutex_unlock(&shared->mutex);
    toy->loaded = !arena->failed;
    return toy->loaded ? BACKEND_OK : BACKEND_NO_MEMORY;
}

static enum backend_status toy_outcome(struct backend *backend, const struct store_row *from,
                                       uint64_t most, struct outcome **ret_outcome,
                                       uint64_t *ret_size)
{
    struct shared *shared = toy_lock(backend);
    const struct kept *kept = toy_find_row(&shared->rows, &toy_records, from->id);
    bool stands = kept && kept->row.version == from->version;
    struct outcome *outcome = stands ? kept->outcome : NULL;
    *ret_size = outcome ? outcome_size(outcome) : 0;
    *ret_outcome = outcome && *ret_size <= most ? outcome_ref(outcome) : NULL;
    mutex_unlock(&shared->mutex);
    return stands ? BACKEND_OK : BACKEND_BUSY;
}

static bool is_wanted(struct slice wanted, struct slice value)
{
    return !wanted.at || slice_eq(wanted, value);
}

static bool is_listed(const struct rows *rows, const struct store_row *row,
                      const struct store_list *list)
{
    bool by_key = is_wanted(list->key, row->key);
    for (size_t i = 0; i < rows->n && !by_key; i++) {
        const struct kept *other = kept_at(rows, i);
        by_key = other && other->bound.holder == row->id && slice_eq(other->bound.key, list->key);
    }
    return by_key && is_wanted(list->tenant, row->tenant) && is_wanted(list->rule, row->rule) &&
           is_wanted(list->once, row->once) &&
           (list->statuses == 0 || list->statuses >> row->record.status & 1);
}

static enum backend_status toy_list(struct backend *backend, const struct store_list *list,
                                    const struct record_world *world, int64_t *ret_seen)
{
    struct shared *shared = toy_lock(backend);
    const struct rows *rows = &shared->rows;
    size_t n = 0, at = 0;
    bool more = true;
    for (; at < rows->n && more; at++) {
        const struct kept *kept = kept_at(rows, list->newest ? rows->n - 1 - at : at);
        if (!kept || (kept->row.id <= list->after && !list->newest))
            continue;
        if (n++ == list->most)
            break;
        struct store_row row = shown(shared, kept);
        enum record_lease lease = record_lease(&row.record, world, NULL);
        *ret_seen = row.id;
        if (!record_is_absent(&row.record, world->now) && is_listed(rows, &row, list) &&
            (!list->lapsed_only || lease == RECORD_LEASE_LAPSED))
            more = list->each(list->argument, &row, lease);
    }
    *ret_seen = more && at == rows->n ? 0 : *ret_seen;
    mutex_unlock(&shared->mutex);
    return BACKEND_OK;
}

static enum backend_status toy_query(struct backend *backend, const struct table_query *query,
                                     int64_t now, int64_t *ret_next)
{
    struct shared *shared = toy_lock(backend);
    *ret_next = toy_read_rows(&shared->rows, query, now);
    mutex_unlock(&shared->mutex);
    return BACKEND_OK;
}

/* ---- save ---- */

/* What is to lead to the changed row, or was looked at. */
static void names_of(const struct backend_change *change, struct digest *ret_names)
{
    bool is_new = change->row && change->before == RECORD_ABSENT;
    ret_names[0] = change->seen    ? change->seen->hash
                   : change->bound ? change->bound->key_hash
                   : is_new        ? change->row->key_hash
                                   : NO_NAME;
    ret_names[1] = change->once_name;
}

/* The row is the one that was loaded, and its names lead where they led then. */
bool toy_fits_load(const struct toy *toy, const struct backend_change *change)
{
    const struct rows *rows = &toy->shared->rows;
    const struct store_row *to = change->row;
    const struct kept *row = to ? toy_find_row(rows, &toy_records, to->id) : NULL;
    bool is_new = change->before == RECORD_ABSENT;
    if (to && (is_new ? row != NULL : !row || row->row.version != to->version))
        return false;
    struct digest names[2];
    names_of(change, names);
    for (size_t i = 0; i < 2; i++) {
        const struct kept *other = toy_find_named(rows, &names[i]);
        if (other && other->row.version > toy->version)
            return false;
    }
    if ((is_new || change->bound) && toy->went)
        return false;
    return !change->seen || !change->seen->row || toy_find_named(rows, names);
}

void toy_apply_change(const struct toy *toy, const struct backend_change *change)
{
    struct rows *rows = &toy->shared->rows;
    const struct store_row *to = change->row;
    int64_t id = to ? to->id : change->bound->id;
    const struct kept *before = toy_find_row(rows, &toy_records, id);
    struct kept row = before ? *before : (struct kept){.row.id = id};
    row.row.version = toy->shared->version;
    row.store = to ? *to : row.store;
    row.bound = change->bound ? *change->bound : row.bound;
    row.outcome = change->outcome ? change->outcome : row.outcome;
    row.store.location = change->outcome ? change->outcome->location : row.store.location;
    if (record_holder(&row.store.record) != row.owner.incarnation)
        row.owner = toy->backend.self;
    bool goes = to && to->record.status == RECORD_ABSENT;
    struct digest names[2];
    names_of(change, names);
    for (size_t i = 0; i < 2 && !goes; i++) {
        struct kept *other = toy_find_named(rows, &names[i]);
        if (other)
            other->names[i] = NO_NAME;
        row.names[i] = digest_eq(&names[i], &NO_NAME) ? row.names[i] : names[i];
    }
    toy->shared->removals += goes;
    toy_set_row(rows, &toy_records, id, goes ? NULL : toy_copy_row(&toy_records, &row, NULL));
    backend_count(&toy->shared->counts, change);
}

/* Of rows of modules that do not fit none stays written. */
static void write_group(const struct toy *toy, struct backend_group *group)
{
    struct rows *rows = &toy->shared->rows, spare = {NULL};
    struct backend_change *first = group->changes;
    bool brings = first && first->brought, fit = true;
    if (brings)
        copy_rows(rows, &spare);
    for (const struct backend_change *change = first; change && fit; change = change->next)
        fit = change->brought ? toy_bring_row(rows, change->brought) : toy_fits_load(toy, change);
    for (const struct backend_change *change = first; change && fit; change = change->next)
        if (!change->brought && !change->seen)
            toy_apply_change(toy, change);
    group->result = fit ? GROUP_OK : GROUP_CONFLICT;
    struct rows left = brings && !fit ? *rows : spare;
    *rows = brings && !fit ? spare : *rows;
    clear_rows(&left);
}

/* When a row, or what is kept of its response, is to be swept. */
static int64_t due_at(const struct slot *slot, const struct kept *kept)
{
    const struct table_column *gone = table_column_of(slot->table, TABLE_GONE);
    if (!kept)
        return gone ? clock_after(table_number(gone, slot->row), slot->table->keep_us)
                    : CLOCK_NEVER;
    const struct record *record = &kept->store.record;
    if (record->status == RECORD_ABSENT)
        return kept->bound.expires_at;
    if (!record_is_final(record->status))
        return record_is_released(record) ? record->expires_at : CLOCK_NEVER;
    return backend_sweep_at(record, kept->outcome);
}

static void lower(int64_t *least, int64_t value)
{
    *least = *least == 0 || value < *least ? value : *least;
}

static void read_gauges(const struct toy *toy, struct backend_gauges *ret_gauges)
{
    const struct shared *shared = toy->shared;
    const struct rows *rows = &shared->rows;
    struct record_world world = {.now = shared->now, .self = toy->backend.self.incarnation};
    struct backend_gauges gauges = {0};
    for (size_t i = 0; i < rows->n; i++) {
        const struct kept *kept = kept_at(rows, i);
        if (!kept || kept->bound.id != 0)
            continue;
        struct record record = shown(shared, kept).record;
        gauges.stale += record_lease(&record, &world, NULL) == RECORD_LEASE_LAPSED;
        if (record.status == RECORD_UNKNOWN)
            lower(&gauges.unknown_oldest, record.quiet_at - record.settle_us);
        if (due_at(&rows->at[i], kept) > shared->now)
            continue;
        gauges.expired++;
        lower(&gauges.expired_oldest, due_at(&rows->at[i], kept));
    }
    *ret_gauges = gauges;
}

static void sweep_row(struct shared *shared, size_t at)
{
    struct rows *rows = &shared->rows;
    struct kept *kept = kept_at(rows, at);
    if (kept && !record_is_absent(&kept->store.record, shared->now)) {
        outcome_unref(kept->outcome);
        kept->outcome = NULL;
        kept->row.version = shared->version;
        return;
    }
    if (kept && kept->bound.id == 0)
        backend_count_swept(&shared->counts, kept->store.record.status);
    shared->removals += kept != NULL;
    if (kept)
        toy_set_row(rows, &toy_records, kept->row.id, NULL);
    else
        toy_remove_row(rows, rows->at[at].table, rows->at[at].row->id);
}

/* What it does stands by itself, whatever becomes of its batch. */
static enum backend_status toy_maintain(struct backend *backend, struct backend_chores *chores)
{
    struct toy *toy = (struct toy *)backend;
    struct shared *shared = toy_lock(backend);
    struct rows *rows = &shared->rows;
    shared->version++;
    for (size_t i = rows->n; i-- > 0;) {
        if (i >= rows->n) /* the last one went with its children */
            continue;
        struct kept *kept = kept_at(rows, i);
        bool beats =
            chores->beat && kept && record_holder(&kept->store.record) == backend->self.incarnation;
        bool due = chores->swept < chores->sweep_most && due_at(&rows->at[i], kept) <= shared->now;
        chores->beaten |= beats;
        chores->swept += due;
        if (beats)
            kept->owner.beat_at = shared->now;
        if (due)
            sweep_row(shared, i);
    }
    if (chores->gauge)
        read_gauges(toy, &chores->gauges);
    toy->maintained = chores->beaten || chores->swept > 0;
    mutex_unlock(&shared->mutex);
    return BACKEND_OK;
}

static enum backend_status toy_save(struct backend *backend, struct backend_save *save)
{
    struct toy *toy = (struct toy *)backend;
    struct shared *shared = toy_lock(backend);
    toy_abandon(backend);
    save->version = ++shared->version;
    toy->went = toy->removals != shared->removals;
    for (struct backend_group *group = save->groups; group; group = group->next)
        if (group->begins && !terms_eq(&save->terms, &shared->terms))
            group->result = GROUP_CONFLICT;
        else
            write_group(toy, group);
    if (save->sets && save->groups && save->groups->result == GROUP_OK)
        shared->terms = save->sets->wanted;
    if (save->registers)
        shared->holders[backend->self.role] =
            (struct backend_holder){backend->self.incarnation, shared->now, true};
    save->changed = save->registers || save->groups || toy->maintained;
    save->counts = shared->counts;
    toy->maintained = false;
    mutex_unlock(&shared->mutex);
    return BACKEND_OK;
}

/* ---- going back ---- */

struct toy_copy {
    struct rows rows;
    struct backend_counts counts;
    struct terms terms;
};

struct toy_copy *toy_keep(struct backend *backend)
{
    struct toy_copy *copy = calloc(1, sizeof *copy);
    CHECK(copy);
    struct shared *shared = toy_lock(backend);
    copy->counts = shared->counts;
    copy->terms = shared->terms;
    copy_rows(&shared->rows, &copy->rows);
    mutex_unlock(&shared->mutex);
    return copy;
}

void toy_put_back(struct backend *backend, const struct toy_copy *copy)
{
    struct shared *shared = toy_lock(backend);
    clear_rows(&shared->rows);
    copy_rows(&copy->rows, &shared->rows);
    shared->counts = copy->counts;
    shared->terms = copy->terms;
    shared->removals++;
    mutex_unlock(&shared->mutex);
}

void toy_drop(struct toy_copy *copy)
{
    if (!copy)
        return;
    clear_rows(&copy->rows);
    free(copy);
}

/* ---- the rest ---- */

static enum backend_status toy_look(struct backend *backend, struct backend_watch *watches,
                                    size_t n)
{
    struct shared *shared = toy_lock(backend);
    for (size_t i = 0; i < n; i++) {
        struct record record =
            shown(shared, toy_find_row(&shared->rows, &toy_records, watches[i].row)).record;
        bool own = record.owner == backend->self.incarnation;
        bool held = record.token == watches[i].token && record_holder(&record) != 0;
        watches[i].ended = !held || (record.lapsed_at != 0 && !own);
    }
    mutex_unlock(&shared->mutex);
    return BACKEND_OK;
}

static void toy_close(struct backend *backend)
{
    struct shared *shared = toy_lock(backend);
    bool last = --shared->refs == 0;
    struct backend_holder *holder = &shared->holders[backend->self.role];
    if (holder->incarnation == backend->self.incarnation)
        holder->alive = false;
    mutex_unlock(&shared->mutex);
    free(backend);
    if (!last)
        return;
    clear_rows(&shared->rows);
    mutex_fini(&shared->mutex);
    free(shared);
}

struct backend *toy_open(struct backend *with)
{
    static const struct backend_ops ops = {.load = toy_load,
                                           .maintain = toy_maintain,
                                           .save = toy_save,
                                           .pairs = toy_pairs,
                                           .abandon = toy_abandon,
                                           .outcome = toy_outcome,
                                           .list = toy_list,
                                           .query = toy_query,
                                           .look = toy_look,
                                           .close = toy_close};
    struct toy *toy = calloc(1, sizeof *toy);
    struct shared *shared = with ? ((struct toy *)with)->shared : calloc(1, sizeof *shared);
    CHECK(toy && shared);
    if (!with) {
        mutex_init(&shared->mutex);
        random_bytes(shared->secret, sizeof shared->secret);
        shared->ahead = clock_wall_us() - clock_boot_us();
    }
    toy->shared = shared;
    toy->backend = (struct backend){.ops = &ops,
                                    .problem = "the toy store failed",
                                    .outcome_max = SIZE_MAX,
                                    .space.free = UINT64_MAX};
    memcpy(toy->backend.secret, shared->secret, sizeof shared->secret);
    mutex_lock(&shared->mutex); /* and no look at the clock yet */
    shared->refs++;
    mutex_unlock(&shared->mutex);
    return &toy->backend;
}
