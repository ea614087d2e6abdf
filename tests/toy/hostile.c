/* SPDX-License-Identifier: Apache-2.0 */
#include "hostile.h"

#include "base/check.h"
#include <stdlib.h>

struct hostile {
    struct backend backend; /* first: the two are cast into each other */
    struct backend *behind;
    uint64_t random;
    bool waits;
};

static struct backend *enter(struct backend *backend)
{
    struct backend *behind = ((struct hostile *)backend)->behind;
    behind->self.incarnation = backend->self.incarnation;
    behind->self.is_serve = backend->self.is_serve;
    return behind;
}

/* The committer reads these itself. */
static enum backend_status leave(struct backend *backend, enum backend_status status)
{
    const struct backend *behind = ((struct hostile *)backend)->behind;
    backend->clock = behind->clock;
    backend->space = behind->space;
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
    return *random % n == 0;
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
    for (size_t i = 0; i < group->n; i++) {
        const struct backend_change *change = &group->changes[i];
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
        for (size_t i = 0; i < group->n; i++) {
            const struct backend_change *change = &group->changes[i];
            if (!is_begin(change) && !change->brought && !change->seen)
                return false;
        }
    return true;
}

/* Takes some groups out of what is saved. */
static void refuse_some(struct hostile *hostile, struct backend_save *save)
{
    for (struct backend_group **link = &save->groups, *group = *link; group; group = *link) {
        bool locks = hostile->waits && may_lock(group) && happens(hostile, 6);
        bool refused = locks || happens(hostile, 6);
        group->result = locks ? GROUP_LOCKED : refused ? GROUP_CONFLICT : GROUP_OK;
        if (refused)
            *link = group->next;
        else
            link = &group->next;
    }
}

static enum backend_status hostile_save(struct backend *backend, struct backend_save *save)
{
    struct hostile *hostile = (struct hostile *)backend;
    struct backend *behind = enter(backend);
    bool writes = save->groups || save->registers;
    if (writes && hostile->waits && happens(hostile, 8)) {
        behind->ops->abandon(behind);
        return leave(backend, BACKEND_UNSURE);
    }
    bool unsure = hostile->waits && save->groups && may_repeat(save->groups) && happens(hostile, 8);
    refuse_some(hostile, save);
    enum backend_status status = leave(backend, behind->ops->save(behind, save));
    return status == BACKEND_OK && save->changed && unsure ? BACKEND_UNSURE : status;
}

/* ---- all else as it is ---- */

static enum backend_status hostile_load(struct backend *backend, struct backend_name *names,
                                        size_t n, struct arena *arena,
                                        struct backend_read *ret_read)
{
    struct backend *behind = enter(backend);
    return leave(backend, behind->ops->load(behind, names, n, arena, ret_read));
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

static enum backend_status hostile_look(struct backend *backend, bool *ret_changed)
{
    struct backend *behind = enter(backend);
    return leave(backend, behind->ops->look(behind, ret_changed));
}

static void hostile_close(struct backend *backend)
{
    struct backend *behind = enter(backend);
    behind->ops->close(behind);
    free(backend);
}

static const struct backend_ops hostile_ops = {
    .load = hostile_load,
    .save = hostile_save,
    .abandon = hostile_abandon,
    .rest = hostile_rest,
    .outcome = hostile_outcome,
    .list = hostile_list,
    .query = hostile_query,
    .look = hostile_look,
    .close = hostile_close,
};

struct backend *hostile_over(struct backend *behind, uint64_t seed, bool waits)
{
    struct hostile *hostile = calloc(1, sizeof *hostile);
    CHECK(hostile);
    *hostile =
        (struct hostile){.backend = *behind, .behind = behind, .random = seed, .waits = waits};
    hostile->backend.ops = &hostile_ops;
    return &hostile->backend;
}
