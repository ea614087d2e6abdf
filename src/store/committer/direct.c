/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of store/direct.h. */
#include "store/direct.h"

#include "base/mem.h"
#include "store/committer/apply.h"

struct direct {
    struct backend *backend;
    struct rowset rows;
};

struct direct *direct_open(struct backend *backend)
{
    struct direct *direct = mem_zalloc(1, sizeof *direct);
    if (direct && rowset_init(&direct->rows)) {
        direct->backend = backend;
        return direct;
    }
    mem_free(direct);
    backend->ops->close(backend);
    return NULL;
}

void direct_close(struct direct *direct)
{
    if (!direct)
        return;
    rowset_fini(&direct->rows);
    direct->backend->ops->close(direct->backend);
    mem_free(direct);
}

static enum backend_status load_record(struct direct *direct, const struct store_op *op,
                                       size_t sweep, struct backend_read *ret_read)
{
    struct backend *backend = direct->backend;
    struct backend_chores chores = {.sweep_most = sweep};
    rowset_want(&direct->rows, op);
    enum backend_status status = sweep > 0 ? backend->ops->maintain(backend, &chores) : BACKEND_OK;
    return status == BACKEND_OK ? rowset_load(&direct->rows, backend, ret_read) : status;
}

static enum backend_status decide_direct_op(struct direct *direct, struct apply *apply,
                                            struct store_op *op)
{
    bool touched = false;
    rowset_open(&direct->rows);
    enum backend_status status = apply_op(apply, op, &touched);
    if (status == BACKEND_OK && !rowset_close(&direct->rows, op))
        return BACKEND_NO_MEMORY;
    /* A token of another transaction is above all of this one's snapshot. */
    return status == BACKEND_OK && apply->lags ? BACKEND_BUSY : status;
}

static enum backend_status run_direct_op(struct direct *direct, struct store_op *op, int64_t self,
                                         size_t sweep)
{
    struct backend *backend = direct->backend;
    struct apply apply = {.backend = backend, .rows = &direct->rows, .may_write = true};
    enum backend_status status = load_record(direct, op, sweep, &apply.read);
    if (status != BACKEND_OK)
        return status;
    apply.boot = apply.read.boot;
    apply_set_world(&apply, self);
    apply.closed = apply.read.terms.frozen ? STORE_FROZEN : STORE_DONE;
    status = decide_direct_op(direct, &apply, op);
    if (status != BACKEND_OK) {
        backend->ops->abandon(backend);
        return status;
    }
    struct backend_save save = {
        .groups = rowset_groups(&direct->rows), .drawn = apply.drawn, .terms = apply.read.terms};
    status = backend->ops->save(backend, &save);
    if (status == BACKEND_OK && save.groups && save.groups->result != GROUP_OK)
        op->result.status = STORE_CONFLICT;
    return status;
}

static enum store_status status_of(enum backend_status status)
{
    switch (status) {
    case BACKEND_BUSY:
        return STORE_DOWN;
    case BACKEND_FULL:
        return STORE_FULL;
    case BACKEND_NO_MEMORY:
        return STORE_NO_MEMORY;
    default:
        return STORE_DEAD;
    }
}

void direct_run(struct direct *direct, struct store_op *op, int64_t self, size_t sweep)
{
    rowset_reset(&direct->rows);
    direct->backend->problem[0] = 0;
    op->own.named = op->key_hash;
    enum backend_status status = run_direct_op(direct, op, self, sweep);
    if (status == BACKEND_OK)
        return;
    store_result_fini(&op->result, &op->room);
    op->result.status = status_of(status);
}

void direct_row(struct direct *direct, const struct store_op *op, struct store_row *ret_row)
{
    rowset_row(&direct->rows, op->result.row, ret_row);
}

const char *direct_problem(const struct direct *direct)
{
    return direct->backend->problem;
}
