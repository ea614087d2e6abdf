/* SPDX-License-Identifier: Apache-2.0 */
#include "store/committer/rowset.h"

#include "base/check.h"
#include "base/mem.h"

#define INDEX_SIZE ((size_t)4 * ROWSET_NAMES_MAX)
#define ARENA_MAX ((size_t)512 * 1024 * 1024)
#define NAMES_MOST (3 + 3 * STORE_FORMER_MAX) /* that one operation brings */

/* A row or, with `row` NULL, something beside rows: a key that was bound, a row of a table, a name
 * that was looked at. */
struct rowset_row {
    struct rowset_row *next;
    struct rowset_row *same_bucket;
    struct store_row *row;       /* as it is by now; RECORD_ABSENT: it goes */
    struct backend_group *group; /* NULL: it is not changed */
    struct backend_change change;
    struct outcome *outcome; /* read in this batch: a reference */
};

struct rowset_name {
    struct rowset_row *row;
    struct rowset_row *hinted;
    struct backend_bound *bound;
    struct backend_group *group; /* by which it leads elsewhere than the store says */
};

/* ---- memory ---- */

/* What names and rows are found in. In one piece, which is so large that it comes from the kernel
 * and is not cleared here: a command touches little of it. */
struct rowset_memory {
    struct backend_name names[ROWSET_NAMES_MAX];
    struct rowset_name known[ROWSET_NAMES_MAX];
    struct rowset_row *by_id[ROWSET_BUCKETS];
    uint16_t index[INDEX_SIZE];
};

bool rowset_init(struct rowset *set)
{
    struct rowset_memory *memory = mem_zalloc(1, sizeof *memory);
    *set = (struct rowset){.arena = arena_make(ARENA_MAX), .memory = memory};
    if (!memory)
        return false;
    set->names = memory->names;
    set->known = memory->known;
    set->by_id = memory->by_id;
    set->index = memory->index;
    return true;
}

static void drop_outcomes(struct rowset *set)
{
    for (struct rowset_row *row = set->rows; row; row = row->next)
        outcome_unref(row->outcome);
}

void rowset_fini(struct rowset *set)
{
    drop_outcomes(set);
    arena_fini(&set->arena);
    mem_free(set->memory);
    *set = (struct rowset){.arena = set->arena};
}

/* ---- names ---- */

/* Where a hash is, or would go: hashes are evenly spread already. */
static uint16_t *slot_of_hash(const struct rowset *set, const struct digest *hash)
{
    size_t at = 0;
    memcpy(&at, hash->bytes, sizeof at);
    for (at %= INDEX_SIZE;; at = (at + 1) % INDEX_SIZE) {
        uint16_t *slot = &set->index[at];
        if (*slot == 0 || digest_eq(&set->names[*slot - 1].hash, hash))
            return slot;
    }
}

static struct rowset_row **bucket_of_id(struct rowset *set, int64_t id)
{
    return &set->by_id[(uint64_t)id % ROWSET_BUCKETS];
}

void rowset_reset(struct rowset *set)
{
    drop_outcomes(set);
    /* From the last: an open-addressing chain stays whole in front of what is taken out. */
    while (set->n_names > 0) {
        *slot_of_hash(set, &set->names[set->n_names - 1].hash) = 0;
        set->n_names--;
    }
    for (struct rowset_row *row = set->rows; row; row = row->next)
        if (row->row)
            *bucket_of_id(set, row->row->id) = NULL;
    arena_reset(&set->arena);
    set->rows = set->last_row = NULL;
    set->groups = set->last_group = set->group = NULL;
}

static struct rowset_name *find_rowset_name(const struct rowset *set, const struct digest *hash)
{
    uint16_t slot = *slot_of_hash(set, hash);
    return slot == 0 ? NULL : &set->known[slot - 1];
}

/* A name as an operation brings it. */
struct brought {
    const struct digest *hash;
    int64_t hint;
    bool is_once;
};

static size_t names_of_op(const struct store_op *op, struct brought *ret_names)
{
    size_t n = 0;
    if (op->kind == STORE_LIST || op->kind == STORE_QUERY || op->kind == STORE_ROWS)
        return 0;
    ret_names[n++] = (struct brought){.hash = &op->own.named, .hint = op->row_hint};
    if (op->kind != STORE_BEGIN)
        return n;
    CHECK(op->arrival.n_former <= STORE_FORMER_MAX &&
          (!op->arrival.once || op->arrival.once->n_former <= STORE_FORMER_MAX));
    for (size_t i = 0; i < op->arrival.n_former; i++)
        ret_names[n++] = (struct brought){.hash = &op->arrival.former[i]};
    const struct store_once *once = op->arrival.once;
    if (!once)
        return n;
    ret_names[n++] = (struct brought){.hash = &once->hash, .is_once = true};
    ret_names[n++] = (struct brought){.hash = &once->as_key};
    for (size_t i = 0; i < once->n_former; i++) {
        ret_names[n++] = (struct brought){.hash = &once->former[i], .is_once = true};
        ret_names[n++] = (struct brought){.hash = &once->former_as_key[i]};
    }
    return n;
}

static void want_name(struct rowset *set, const struct brought *brought)
{
    uint16_t *slot = slot_of_hash(set, brought->hash);
    if (*slot == 0) {
        CHECK(set->n_names < ROWSET_NAMES_MAX);
        set->names[set->n_names] =
            (struct backend_name){.hash = *brought->hash, .is_once = brought->is_once};
        set->known[set->n_names] = (struct rowset_name){0};
        *slot = (uint16_t)++set->n_names;
    }
    struct backend_name *name = &set->names[*slot - 1];
    if (name->hint == 0)
        name->hint = brought->hint;
}

bool rowset_want(struct rowset *set, const struct store_op *op)
{
    struct brought names[NAMES_MOST];
    size_t n = names_of_op(op, names);
    if (set->n_names + n > ROWSET_NAMES_MAX)
        return false;
    for (size_t i = 0; i < n; i++)
        want_name(set, &names[i]);
    return true;
}

/* A row that was not asked for is not known to be none. */
bool rowset_knows(const struct rowset *set, const struct store_op *op)
{
    struct brought names[NAMES_MOST];
    size_t n = names_of_op(op, names);
    for (size_t i = 0; i < n; i++) {
        uint16_t slot = *slot_of_hash(set, names[i].hash);
        if (slot == 0 || (names[i].hint != 0 && set->names[slot - 1].hint != names[i].hint))
            return false;
    }
    return true;
}

/* ---- rows ---- */

static struct rowset_row *find_rowset_row(const struct rowset *set, int64_t id)
{
    struct rowset_row *row = set->by_id[(uint64_t)id % ROWSET_BUCKETS];
    while (row && row->row->id != id)
        row = row->same_bucket;
    return row;
}

/* NULL: no memory. */
static struct rowset_row *append_rowset_row(struct rowset *set, const struct rowset_row *row)
{
    struct rowset_row *added = arena_alloc(&set->arena, sizeof *added);
    if (!added)
        return NULL;
    *added = *row;
    *(set->last_row ? &set->last_row->next : &set->rows) = added;
    return set->last_row = added;
}

static struct rowset_row *add_rowset_row(struct rowset *set, struct store_row *row)
{
    struct rowset_row **first = bucket_of_id(set, row->id);
    struct rowset_row *added = append_rowset_row(
        set, &(struct rowset_row){.same_bucket = *first, .row = row, .change.row = row});
    *first = added ? added : *first;
    return added;
}

/* Two names may have led to it. */
static bool take_row(struct rowset *set, struct store_row *row, struct rowset_row **ret_row)
{
    *ret_row = row ? find_rowset_row(set, row->id) : NULL;
    if (!row || *ret_row)
        return true;
    CHECK(row->record.status != RECORD_ABSENT);
    *ret_row = add_rowset_row(set, row);
    if (!*ret_row)
        return false;
    (*ret_row)->change = (struct backend_change){
        .row = row,
        .before = row->record.status,
        .was_released = record_is_released(&row->record),
        .was_provisional = row->record.provisional,
        .was_odd = row->record.odd,
        .held_by = record_holder(&row->record),
        .once_before = row->once,
    };
    return true;
}

enum backend_status rowset_load(struct rowset *set, struct backend *backend,
                                struct backend_read *ret_read)
{
    set->backend = backend;
    enum backend_status status =
        backend->ops->load(backend, set->names, set->n_names, &set->arena, ret_read);
    for (size_t i = 0; status == BACKEND_OK && i < set->n_names; i++) {
        const struct backend_name *name = &set->names[i];
        set->known[i].bound = name->bound;
        if (take_row(set, name->row, &set->known[i].row) &&
            take_row(set, name->hinted, &set->known[i].hinted))
            continue;
        backend->ops->abandon(backend);
        return BACKEND_NO_MEMORY;
    }
    return status;
}

bool rowset_assume(struct rowset *set, const struct store_op *op, const struct store_row *row)
{
    struct brought names[NAMES_MOST];
    CHECK(names_of_op(op, names) == 1);
    bool is_known = *slot_of_hash(set, &op->own.named) != 0;
    struct store_row *copy = row && !is_known ? arena_alloc(&set->arena, sizeof *copy) : NULL;
    if (is_known || (row && !copy) || !rowset_want(set, op))
        return false;
    if (copy)
        *copy = *row;
    set->names[set->n_names - 1].row = copy;
    return take_row(set, copy, &set->known[set->n_names - 1].row);
}

/* ---- groups ---- */

static struct backend_group *root_of(struct backend_group *group)
{
    while (group->joined)
        group = group->joined;
    return group;
}

/* The operation under way saw, or is about to change, what `*of` is changed with. */
static void join_group(struct rowset *set, struct backend_group **of, bool changes)
{
    if (*of)
        *of = root_of(*of);
    if (set->group)
        set->group = root_of(set->group);
    if (!*of && !changes)
        return;
    if (!*of && !set->group) {
        set->group = arena_alloc(&set->arena, sizeof *set->group);
        if (!set->group)
            return;
        *set->group = (struct backend_group){.result = GROUP_OK};
        *(set->last_group ? &set->last_group->next : &set->groups) = set->group;
        set->last_group = set->group;
    }
    if (*of && set->group && *of != set->group)
        set->group->joined = *of;
    set->group = *of = *of ? *of : set->group;
}

static void touch_row(struct rowset *set, struct rowset_row *row)
{
    join_group(set, &row->group, true);
}

/* A name leads to `row` from now on; NULL: nowhere. One that nobody asked for is only saved. */
static void lead_name(struct rowset *set, const struct digest *hash, struct rowset_row *row)
{
    struct rowset_name *name = find_rowset_name(set, hash);
    if (!name)
        return;
    name->row = row;
    name->bound = NULL;
    join_group(set, &name->group, true);
}

void rowset_open(struct rowset *set)
{
    set->group = NULL;
}

static void add_beside(struct rowset *set, const struct backend_change *change)
{
    struct rowset_row *added = append_rowset_row(set, &(struct rowset_row){.change = *change});
    if (added)
        join_group(set, &added->group, true);
}

/* A name under which it found nothing may have been taken meanwhile, where load takes no lock. */
static void add_seen(struct rowset *set, const struct store_op *op)
{
    struct brought names[NAMES_MOST];
    size_t n = names_of_op(op, names);
    for (size_t i = 0; i < n && n > 1; i++)
        add_beside(set, &(struct backend_change){
                            .seen = &set->names[*slot_of_hash(set, names[i].hash) - 1]});
}

bool rowset_close(struct rowset *set, struct store_op *op)
{
    if (set->group)
        add_seen(set, op);
    op->own.group = set->group ? root_of(set->group) : NULL;
    return !set->arena.failed;
}

/* ---- what decisions read ---- */

static void show_row(struct rowset *set, struct rowset_name *name, struct rowset_row *row,
                     struct store_row *ret_row)
{
    join_group(set, &name->group, false);
    if (!row || row->row->record.status == RECORD_ABSENT) {
        *ret_row = (struct store_row){.record.status = RECORD_ABSENT};
        return;
    }
    join_group(set, &row->group, false);
    *ret_row = *row->row;
    const struct backend_bound *bound = row == name->row ? name->bound : NULL;
    if (!bound)
        return;
    ret_row->bound = bound->id;
    ret_row->bound_until = bound->expires_at;
    ret_row->bound_acknowledges = bound->acknowledges;
    ret_row->recipe = bound->recipe;
    ret_row->record.payload_hash = bound->payload_hash;
    ret_row->record.target_hash = bound->target_hash;
}

void rowset_find(struct rowset *set, const struct digest *key, int64_t hint,
                 struct store_row *ret_row)
{
    struct rowset_name *name = find_rowset_name(set, key);
    CHECK(name);
    bool hinted = hint != 0 && name->hinted && name->hinted->row->record.status != RECORD_ABSENT;
    show_row(set, name, hinted ? name->hinted : name->row, ret_row);
}

void rowset_find_once(struct rowset *set, const struct digest *once, struct store_row *ret_row)
{
    struct rowset_name *name = find_rowset_name(set, once);
    CHECK(name);
    show_row(set, name, name->row, ret_row);
}

void rowset_row(struct rowset *set, int64_t id, struct store_row *ret_row)
{
    const struct rowset_row *found = find_rowset_row(set, id);
    CHECK(found);
    *ret_row = *found->row;
}

struct outcome *rowset_outcome(struct rowset *set, const struct store_row *row)
{
    const struct rowset_row *found = find_rowset_row(set, row->id);
    CHECK(found);
    return found->outcome ? found->outcome : found->change.outcome;
}

bool rowset_has_finished(const struct rowset *set, const struct store_row *row)
{
    const struct rowset_row *found = find_rowset_row(set, row->id);
    CHECK(found);
    return record_is_final(found->row->record.status) && !record_is_final(found->change.before);
}

void rowset_keep_outcome(struct rowset *set, const struct store_row *row, struct outcome *outcome)
{
    struct rowset_row *found = find_rowset_row(set, row->id);
    CHECK(found && !found->outcome);
    found->outcome = outcome_ref(outcome);
}

/* ---- what decisions change ---- */

void rowset_insert(struct rowset *set, const struct store_row *row, const struct store_once *once)
{
    struct store_row *copy = arena_alloc(&set->arena, sizeof *copy);
    if (copy)
        *copy = *row;
    struct rowset_row *added = copy ? add_rowset_row(set, copy) : NULL;
    if (!added)
        return;
    touch_row(set, added);
    lead_name(set, &row->key_hash, added);
    if (!once)
        return;
    added->change.once_name = once->hash;
    lead_name(set, &once->hash, added);
}

void rowset_update(struct rowset *set, const struct store_row *row, struct outcome *outcome)
{
    struct rowset_row *found = find_rowset_row(set, row->id);
    CHECK(found && row->record.status != RECORD_ABSENT);
    struct record *record = &found->row->record;
    /* It may have been compared by the hashes of a bound key; its own stay. */
    struct digest payload_hash = record->payload_hash, target_hash = record->target_hash;
    *record = row->record;
    record->payload_hash = payload_hash;
    record->target_hash = target_hash;
    found->row->origin = row->origin;
    if (outcome) {
        outcome_unref(found->outcome);
        found->outcome = NULL;
        found->change.outcome = outcome;
        found->row->location = outcome->location;
    }
    touch_row(set, found);
}

void rowset_remove(struct rowset *set, const struct store_row *row, bool forgotten)
{
    struct rowset_row *found = find_rowset_row(set, row->id);
    CHECK(found);
    found->row->record.status = RECORD_ABSENT;
    found->change.forgotten = forgotten;
    touch_row(set, found);
    for (size_t i = 0; i < set->n_names; i++)
        if (set->known[i].row == found)
            lead_name(set, &set->names[i].hash, NULL);
}

void rowset_hold(struct rowset *set, const struct store_row *row, struct slice once,
                 int64_t template_id)
{
    struct rowset_row *found = find_rowset_row(set, row->id);
    CHECK(found);
    /* Under the name of the row's own rule, as it is saved. */
    struct digest_key secret = digest_key_of(slice_make(set->backend->secret, DIGEST_SIZE));
    struct digest name = store_once_hash(&secret, row->tenant, row->rule, once);
    found->row->once = once;
    found->row->once_template = template_id;
    found->change.once_name = name;
    touch_row(set, found);
    for (size_t i = 0; i < set->n_names; i++)
        if (set->names[i].is_once && set->known[i].row == found)
            lead_name(set, &set->names[i].hash, NULL);
    lead_name(set, &name, found);
}

void rowset_bind(struct rowset *set, const struct backend_bound *bound)
{
    struct rowset_name *name = find_rowset_name(set, &bound->key_hash);
    struct rowset_row *holder = find_rowset_row(set, bound->holder);
    CHECK(name && holder);
    struct backend_bound *copy = arena_alloc(&set->arena, sizeof *copy);
    if (!copy)
        return;
    *copy = *bound;
    add_beside(set, &(struct backend_change){.bound = copy});
    lead_name(set, &bound->key_hash, holder);
    touch_row(set, holder);
    name->bound = copy;
}

void rowset_begin(struct rowset *set)
{
    struct backend_group *group = NULL;
    join_group(set, &group, true);
    if (group)
        group->begins = true;
}

void rowset_bring(struct rowset *set, struct table_change *change)
{
    add_beside(set, &(struct backend_change){.brought = change});
}

/* ---- what is to be saved ---- */

/* The order in which the changes of a group are saved; RANK_NONE: it is none. */
enum rank { RANK_BROUGHT, RANK_REMOVED, RANK_WRITTEN, RANK_BESIDE, RANK_NONE };

static enum rank rank_of(const struct rowset *set, const struct rowset_row *row)
{
    const struct backend_change *change = &row->change;
    if (change->brought)
        return RANK_BROUGHT;
    /* A key that was bound, and leads elsewhere or nowhere by the end of the batch. */
    if (!row->row && change->bound)
        return find_rowset_name(set, &change->bound->key_hash)->bound == change->bound ? RANK_BESIDE
                                                                                       : RANK_NONE;
    if (!row->row)
        return RANK_BESIDE;
    if (row->group && row->row->record.status != RECORD_ABSENT)
        return RANK_WRITTEN;
    /* New and removed in one batch: nobody ever saw it. */
    return row->group && change->before != RECORD_ABSENT ? RANK_REMOVED : RANK_NONE;
}

static void add_change(struct backend_group *group, struct backend_change *change)
{
    struct backend_group *root = root_of(group);
    *(root->last ? &root->last->next : &root->changes) = change;
    root->last = change;
}

struct backend_group *rowset_groups(struct rowset *set)
{
    for (struct backend_group *group = set->groups; group; group = group->next)
        root_of(group)->begins |= group->begins;
    for (enum rank rank = RANK_BROUGHT; rank < RANK_NONE; rank++)
        for (struct rowset_row *row = set->rows; row; row = row->next)
            if (rank_of(set, row) == rank)
                add_change(row->group, &row->change);
    return set->groups;
}
