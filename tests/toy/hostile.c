/* SPDX-License-Identifier: Apache-2.0 */
#include "hostile.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/thread.h"
#include "toy.h"
#include <stdlib.h>

#define HELD_MAX 64 /* keys that transactions hold */

struct holds {
    struct mutex mutex;
    unsigned refs;
    size_t n;
    struct digest keys[HELD_MAX];
};

struct hostile {
    struct backend backend; /* first: the two are cast into each other */
    struct backend *behind;
    uint64_t random;
    bool waits;
    bool beats; /* the batch under way */
    struct backend_ops ops;
    struct hostile_faults *faults; /* of all that it came from another one of */
    struct hostile_faults own_faults;
    struct holds *holds;
};

static struct backend *enter(struct backend *backend)
{
    struct backend *behind = ((struct hostile *)backend)->behind;
    behind->self.incarnation = backend->self.incarnation;
    behind->self.role = backend->self.role;
    return behind;
}

/* The committer reads these itself. */
static enum backend_status leave(struct backend *backend, enum backend_status status)
{
    struct hostile *hostile = (struct hostile *)backend;
    const struct backend *behind = hostile->behind;
    backend->clock = behind->clock;
    backend->space = behind->space;
    uint64_t size = atomic_load(&hostile->faults->space_size);
    if (size > 0)
        backend->space = (struct backend_space){atomic_load(&hostile->faults->space_free), size};
    backend->checkpoints = behind->checkpoints;
    memcpy(backend->problem, behind->problem, sizeof backend->problem);
    return status;
}

/* One time in `n`. */
static bool happens(struct hostile *hostile, uint64_t n)
{
    uint64_t *random = &hostile->random;
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random != 0 && *random % n == 0;
}

/* ---- what transactions hold ---- */

static struct holds *lock_holds(struct hostile *hostile)
{
    mutex_lock(&hostile->holds->mutex);
    return hostile->holds;
}

static size_t find_held(const struct holds *holds, const struct digest *key)
{
    size_t at = 0;
    while (at < holds->n && !digest_eq(&holds->keys[at], key))
        at++;
    return at;
}

void hostile_hold(struct backend *backend, const struct digest *key, bool held)
{
    struct holds *holds = lock_holds((struct hostile *)backend);
    size_t at = find_held(holds, key);
    if (held) {
        CHECK(holds->n < HELD_MAX);
        holds->keys[holds->n++] = *key;
    } else {
        CHECK(at < holds->n);
        holds->keys[at] = holds->keys[--holds->n];
    }
    mutex_unlock(&holds->mutex);
}

static bool meets_hold(const struct holds *holds, const struct backend_group *group)
{
    const struct backend_change *change = holds->n > 0 ? group->changes : NULL;
    for (; change; change = change->next) {
        const struct digest *key = change->row     ? &change->row->key_hash
                                   : change->seen  ? &change->seen->hash
                                   : change->bound ? &change->bound->key_hash
                                                   : NULL;
        if (key && find_held(holds, key) < holds->n)
            return true;
    }
    return false;
}

/* ---- save ---- */

static bool is_begin(const struct backend_change *change)
{
    const struct record *record = change->row ? &change->row->record : NULL;
    return record && record->status != RECORD_ABSENT && record->lease_until != 0;
}

/* A begin that is locked is told to be in progress, which is not what it is: of writes alone. */
static bool may_lock(const struct backend_group *group)
{
    for (const struct backend_change *change = group->changes; change; change = change->next) {
        bool frozen = change->row && record_is_final(change->before);
        if (change->bound || change->seen || is_begin(change) || frozen)
            return false;
    }
    return true;
}

/* What is written twice comes to the same. A write on a record comes to `already`, which is not
 * what the suite expects of the first one. */
static bool may_repeat(const struct backend_group *group)
{
    for (; group; group = group->next)
        for (const struct backend_change *change = group->changes; change; change = change->next)
            if (!is_begin(change) && !change->brought && !change->seen)
                return false;
    return true;
}

/* Takes some groups out of what is saved. */
static void refuse_some(struct hostile *hostile, struct backend_save *save)
{
    const struct holds *holds = lock_holds(hostile);
    bool refuses = save->groups && atomic_exchange(&hostile->faults->refuses, false);
    for (struct backend_group **link = &save->groups, *group = *link; group; group = *link) {
        bool held = meets_hold(holds, group);
        bool locks = held || (hostile->waits && may_lock(group) && happens(hostile, 6));
        bool refused = locks || refuses || happens(hostile, 6);
        group->result = locks     ? GROUP_LOCKED
                        : refuses ? GROUP_REFUSED
                        : refused ? GROUP_CONFLICT
                                  : GROUP_OK;
        atomic_fetch_add(&hostile->faults->locked, held);
        if (refused)
            *link = group->next;
        else
            link = &group->next;
    }
    mutex_unlock(&hostile->holds->mutex);
}

/* What the test wants this save to come to. */
static enum backend_status result_of(struct hostile *hostile, const struct backend_save *save)
{
    enum backend_status status = BACKEND_OK;
    if (save->groups || save->registers || hostile->beats)
        status = (enum backend_status)atomic_exchange(&hostile->faults->next_save, BACKEND_OK);
    void *probe MEM_AUTO = mem_alloc(1); /* it runs out before anything is written, or not at all */
    return probe ? status : BACKEND_NO_MEMORY;
}

/* Refuses the save, or what it is then to come to instead of OK. */
static bool refuse_all(struct hostile *hostile, const struct backend_save *save,
                       enum backend_status *ret_status)
{
    *ret_status = result_of(hostile, save);
    hostile->beats = false;
    if (*ret_status != BACKEND_OK)
        return *ret_status != BACKEND_UNSURE;
    bool writes = save->groups || save->registers;
    bool lost = writes && hostile->waits && happens(hostile, 8);
    bool unsure =
        lost || (hostile->waits && save->groups && may_repeat(save->groups) && happens(hostile, 8));
    *ret_status = unsure ? BACKEND_UNSURE : BACKEND_OK;
    return lost;
}

static enum backend_status hostile_save(struct backend *backend, struct backend_save *save)
{
    struct hostile *hostile = (struct hostile *)backend;
    struct hostile_faults *faults = hostile->faults;
    struct backend *behind = enter(backend);
    enum backend_status instead;
    if (refuse_all(hostile, save, &instead)) {
        behind->ops->abandon(behind);
        return leave(backend, instead);
    }
    refuse_some(hostile, save);
    enum backend_status status = leave(backend, behind->ops->save(behind, save));
    if (status != BACKEND_OK)
        return status;
    atomic_fetch_add(&faults->commits, save->changed);
    return instead;
}

/* Takes some groups out of what is saved, or all: then it could not be tried. */
static enum backend_status hostile_pairs(struct backend *backend, struct backend_save *save,
                                         struct backend_read *read)
{
    struct hostile *hostile = (struct hostile *)backend;
    struct hostile_faults *faults = hostile->faults;
    struct backend *behind = enter(backend);
    enum backend_status instead;
    for (struct backend_group *group = save->groups; group; group = group->next)
        group->result = GROUP_CONFLICT;
    if (atomic_load(&faults->gone))
        return BACKEND_AWAY;
    bool is_for_loads = atomic_load(&faults->refuses) || atomic_load(&faults->n_tokens) > 0;
    if (is_for_loads || happens(hostile, 8))
        return BACKEND_OK;
    if (refuse_all(hostile, save, &instead))
        return leave(backend, instead);
    refuse_some(hostile, save);
    enum backend_status status = leave(backend, behind->ops->pairs(behind, save, read));
    if (status != BACKEND_OK)
        return status;
    atomic_fetch_add(&faults->commits, save->changed);
    return instead;
}

/* ---- all else ---- */

/* While anything is held nothing is swept. */
static enum backend_status hostile_maintain(struct backend *backend, struct backend_chores *chores)
{
    struct hostile *hostile = (struct hostile *)backend;
    struct backend *behind = enter(backend);
    if (atomic_load(&hostile->faults->gone))
        return BACKEND_AWAY;
    size_t sweep_most = chores->sweep_most;
    chores->sweep_most = lock_holds(hostile)->n > 0 ? 0 : sweep_most;
    mutex_unlock(&hostile->holds->mutex);
    enum backend_status status = leave(backend, behind->ops->maintain(behind, chores));
    chores->sweep_most = sweep_most;
    hostile->beats = chores->beat;
    atomic_fetch_add(&hostile->faults->beats, chores->beaten);
    return status;
}

static enum backend_status hostile_load(struct backend *backend, struct backend_name *names,
                                        size_t n, struct arena *arena,
                                        struct backend_read *ret_read)
{
    struct hostile_faults *faults = hostile_faults(backend);
    if (atomic_load(&faults->gone))
        return BACKEND_AWAY;
    struct backend *behind = enter(backend);
    enum backend_status status =
        leave(backend, behind->ops->load(behind, names, n, arena, ret_read));
    if (status != BACKEND_OK)
        return status;
    int64_t token = atomic_exchange(&faults->token, 0), most = atomic_load(&faults->n_tokens);
    ret_read->token = token > 0 ? token : ret_read->token;
    ret_read->n_tokens = most > 0 ? most : ret_read->n_tokens;
    void (*then)(void *) = faults->loaded;
    if (then) {
        faults->loaded = NULL;
        then(faults->argument);
    }
    return BACKEND_OK;
}

static void hostile_abandon(struct backend *backend)
{
    struct backend *behind = enter(backend);
    behind->ops->abandon(behind);
}

static enum backend_status hostile_rest(struct backend *backend)
{
    struct backend *behind = enter(backend);
    return leave(backend, behind->ops->rest ? behind->ops->rest(behind) : BACKEND_OK);
}

static enum backend_status hostile_outcome(struct backend *backend, const struct store_row *row,
                                           uint64_t most, struct outcome **ret_outcome,
                                           uint64_t *ret_size)
{
    struct backend *behind = enter(backend);
    return leave(backend, behind->ops->outcome(behind, row, most, ret_outcome, ret_size));
}

static enum backend_status hostile_list(struct backend *backend, const struct store_list *list,
                                        const struct record_world *world, int64_t *ret_seen)
{
    struct backend *behind = enter(backend);
    return leave(backend, behind->ops->list(behind, list, world, ret_seen));
}

static enum backend_status hostile_query(struct backend *backend, const struct table_query *query,
                                         int64_t now, int64_t *ret_next)
{
    struct backend *behind = enter(backend);
    return leave(backend, behind->ops->query(behind, query, now, ret_next));
}

static enum backend_status hostile_look(struct backend *backend, struct backend_watch *watches,
                                        size_t n)
{
    if (atomic_load(&hostile_faults(backend)->gone))
        return BACKEND_AWAY;
    struct backend *behind = enter(backend);
    return leave(backend, behind->ops->look(behind, watches, n));
}

static void hostile_close(struct backend *backend)
{
    struct backend *behind = enter(backend);
    behind->ops->close(behind);
    struct holds *holds = lock_holds((struct hostile *)backend);
    bool last = --holds->refs == 0;
    mutex_unlock(&holds->mutex);
    free(backend);
    if (!last)
        return;
    mutex_fini(&holds->mutex);
    free(holds);
}

static const struct backend_ops hostile_ops = {
    .load = hostile_load,
    .maintain = hostile_maintain,
    .save = hostile_save,
    .abandon = hostile_abandon,
    .rest = hostile_rest,
    .outcome = hostile_outcome,
    .list = hostile_list,
    .query = hostile_query,
    .look = hostile_look,
    .close = hostile_close,
};

void hostile_let_pair(struct backend *backend)
{
    struct hostile *hostile = (struct hostile *)backend;
    CHECK(hostile->behind->ops->pairs);
    hostile->ops.pairs = hostile_pairs;
}

static struct holds *make_holds(void)
{
    struct holds *holds = calloc(1, sizeof *holds);
    CHECK(holds);
    mutex_init(&holds->mutex);
    return holds;
}

static struct backend *open_over(struct backend *behind, struct holds *holds)
{
    struct hostile *hostile = calloc(1, sizeof *hostile);
    CHECK(hostile);
    hostile->backend = *behind;
    hostile->ops = hostile_ops;
    hostile->backend.ops = &hostile->ops;
    hostile->faults = &hostile->own_faults;
    hostile->behind = behind;
    hostile->holds = holds;
    mutex_lock(&holds->mutex);
    holds->refs++;
    mutex_unlock(&holds->mutex);
    return &hostile->backend;
}

struct backend *hostile_over(struct backend *behind, uint64_t seed, bool waits)
{
    struct hostile *hostile = (struct hostile *)open_over(behind, make_holds());
    hostile->random = seed;
    hostile->waits = waits;
    return &hostile->backend;
}

/* What is told to the first one happens to any. */
static struct backend *hostile_another(const struct backend *backend, size_t number)
{
    const struct hostile *first = (const struct hostile *)backend;
    CHECK(number > 1);
    struct hostile *hostile = (struct hostile *)open_over(toy_open(first->behind), first->holds);
    hostile->ops = first->ops;
    hostile->faults = first->faults;
    return &hostile->backend;
}

struct backend *hostile_toy(struct backend *with)
{
    const struct hostile *other = (const struct hostile *)with;
    struct hostile *hostile = (struct hostile *)open_over(toy_open(with ? other->behind : NULL),
                                                          with ? other->holds : make_holds());
    hostile->ops.another = hostile_another;
    return &hostile->backend;
}

struct hostile_faults *hostile_faults(struct backend *backend)
{
    return ((struct hostile *)backend)->faults;
}
