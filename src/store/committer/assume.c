/* SPDX-License-Identifier: Apache-2.0 */
#include "store/committer/assume.h"

#include "base/check.h"
#include "store/committer/batch.h"

#define TRUST_US CLOCK_US_PER_S /* in what was read last: the time, the terms, how many forgets */

/* ---- which operations ---- */

/* An acquisition whose row this process has surely saved, and a finish that brings nothing else. */
static bool is_plain_finish(const struct store_op *op)
{
    const struct store_result *claim = op->writing.claim;
    return claim && claim->version != 0 && claim->row == op->row_hint &&
           claim->record.token == op->writing.token && op->writing.actor.len == 0;
}

/* It has one name, nobody waits for its record, and it did not find anything else before. */
static bool is_plain(const struct committer *c, const struct store_op *op)
{
    if (op->own.loads || op->own.unsure || op->own.waits || op->n_brings > 0 ||
        waiters_first(&c->waiters, &op->own.named))
        return false;
    if (op->kind == STORE_BEGIN)
        return !op->arrival.once && op->arrival.n_former == 0 && op->row_hint == 0;
    return op->kind == STORE_FINISH && is_plain_finish(op);
}

bool assume_fits(struct committer *c, int64_t boot)
{
    if (!c->backend->ops->pairs || c->backend->lacks_pairs || c->backend->back.untold ||
        committer_state(c) != COMMITTER_UP)
        return false;
    bool may_write =
        !atomic_load(&c->low_on_space) && (c->registered || c->store->config.role == STORE_COMMAND);
    if (committer_closed(c, may_write, &c->read.terms) != STORE_DONE)
        return false;
    mutex_lock(&c->mutex);
    bool fits = c->queue.n > 0 && is_plain(c, c->queue.first) && waiters_next(&c->waiters) > boot;
    mutex_unlock(&c->mutex);
    return fits;
}

bool assume_is_ready(const struct committer *c, int64_t boot)
{
    bool knows = c->read.boot != 0 && boot - c->read.boot < TRUST_US;
    return knows && !c->backlog && boot < c->due[DUE_BEAT] && boot < c->due[DUE_SWEEP] &&
           boot < c->due[DUE_GAUGE];
}

/* ---- what is assumed ---- */

static bool assume_row(struct committer *c, const struct store_op *op)
{
    if (op->kind == STORE_BEGIN)
        return rowset_assume(&c->rows, op, NULL);
    const struct store_result *claim = op->writing.claim;
    struct store_row row = {.id = claim->row,
                            .version = claim->version,
                            .key_hash = op->own.named,
                            .record = claim->record};
    return rowset_assume(&c->rows, op, &row);
}

static struct backend_read assumed_read(const struct committer *c, int64_t boot)
{
    struct backend_read read = c->read;
    read.now += boot - read.boot;
    read.boot = boot;
    read.token = 1;
    read.n_tokens = COMMITTER_BATCH_MAX;
    return read;
}

static void take_plain_ops(struct committer *c, struct batch *batch)
{
    size_t bytes = 0;
    struct op_list outcomes = {0};
    batch->apply.read = assumed_read(c, batch->boot);
    mutex_lock(&c->mutex);
    struct store_op *next = NULL;
    for (struct store_op *op = c->queue.first; op; op = next) {
        next = op->own.next;
        if (batch->ops.n + outcomes.n == COMMITTER_BATCH_MAX || bytes > BATCH_BYTES)
            break;
        if (!is_plain(c, op) || !assume_row(c, op))
            continue;
        batch_take_op(c, batch, &outcomes, op);
        bytes += batch_bytes_of(op);
    }
    mutex_unlock(&c->mutex);
    list_prepend(&batch->ops, &outcomes);
}

/* ---- saving ---- */

/* What changed nothing was not compared with what is there. */
static void leave_unproved(struct batch *batch)
{
    struct store_op *next = NULL;
    for (struct store_op *op = batch->decided.first; op; op = next) {
        next = op->own.next;
        if (op->own.group)
            continue;
        store_result_fini(&op->result, &op->room);
        op->own.loads = true;
        list_remove(&batch->decided, op);
        list_append(&batch->ops, op);
    }
}

/* From what it was decided with to what the store drew, and its clock said. */
static void note_claim(struct store_result *result, int64_t shift, int64_t at)
{
    struct record *record = &result->record;
    CHECK(result->row == record->token && record->token <= COMMITTER_BATCH_MAX && at > 0);
    record->token += shift;
    result->row += shift;
    record->created_at = record->started_at = result->store_now = at;
    record->lease_until = clock_after(at, record->lease_us);
}

static void note_proved(struct batch *batch, int64_t shift)
{
    for (struct store_op *op = batch->decided.first; op; op = op->own.next) {
        op->own.loads = batch_group_result(op) != GROUP_OK;
        if (!op->own.loads && op->kind == STORE_BEGIN)
            note_claim(&op->result, shift, batch->save.at);
    }
}

static enum backend_status save_assumed(struct committer *c, struct batch *batch)
{
    struct backend_save *save = &batch->save;
    struct backend_read *read = &batch->apply.read, saved = c->read;
    CHECK(batch->parked.n == 0 && saved.boot != 0);
    leave_unproved(batch);
    save->groups = rowset_groups(&c->rows);
    save->terms = read->terms;
    saved.n_tokens = read->n_tokens;
    enum backend_status status = c->backend->ops->pairs(c->backend, save, &saved);
    if (status == BACKEND_OK)
        note_proved(batch, saved.token - read->token);
    *read = saved;
    return status;
}

enum backend_status assume_run(struct committer *c, struct batch *batch)
{
    take_plain_ops(c, batch);
    enum backend_status status = batch_decide(c, batch);
    if (status == BACKEND_OK)
        status = save_assumed(c, batch);
    return batch_conclude(c, batch, status);
}
