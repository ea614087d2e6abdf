/* SPDX-License-Identifier: Apache-2.0 */
#include "store/committer/batch.h"

#include "base/crash.h"
#include "core/web/origin.h"

/* ---- operations ---- */

void batch_queue_front(struct committer *c, struct op_list *front)
{
    for (struct store_op *op = front->first; op; op = op->own.next)
        atomic_store_explicit(&op->own.state, OP_QUEUED, memory_order_relaxed);
    list_prepend(&c->queue, front);
}

/* The owner may free the operation and its parker as soon as it reads OP_ENDED. */
void batch_end_op(struct store_op *op)
{
    parker_publish(op->parker, &op->own.state, OP_ENDED);
}

/* ---- what is decided ---- */

/* Without space, begins (which may read) and outcomes (which must write) go in separate batches. */
static bool op_is_eligible(const struct committer *c, const struct store_op *op, int64_t boot)
{
    bool full = committer_state(c) == COMMITTER_FULL;
    return !full || op_may_be_refused(op) == committer_writes_wait(c, boot);
}

/* All that wait for a lease that lapsed decide again, the oldest first. */
static void take_due_waiters(struct committer *c, int64_t boot)
{
    struct op_list due = {0};
    struct store_op *op;
    while ((op = waiters_due(&c->waiters, boot))) {
        if (op->arrival.wait_until <= boot) {
            op->arrival.wait_until = 0;
            waiters_remove(&c->waiters, op);
            list_append(&due, op);
            continue;
        }
        struct digest key = op->key_hash;
        while ((op = waiters_take_key(&c->waiters, &key)))
            list_append(&due, op);
    }
    batch_queue_front(c, &due);
}

/* Begins that wait for a record that a write is about to change decide again in its batch: what
 * they look at is loaded, too, as far as there is room. */
static void want_waiters(struct committer *c, const struct store_op *op)
{
    bool asks = op_may_be_refused(op);
    const struct store_op *waiter = asks ? NULL : waiters_first(&c->waiters, &op->own.named);
    while (waiter && rowset_want(&c->rows, waiter))
        waiter = waiters_after(waiter);
}

/* Reads from the queue what is to be loaded. They are not taken yet. How many they are. */
static size_t want_names(struct committer *c, int64_t boot)
{
    size_t n = 0;
    mutex_lock(&c->mutex);
    take_due_waiters(c, boot);
    for (const struct store_op *op = c->queue.first; op && n < COMMITTER_BATCH_MAX;
         op = op->own.next) {
        if (!op_is_eligible(c, op, boot))
            continue;
        if (!rowset_want(&c->rows, op))
            break;
        want_waiters(c, op);
        n++;
    }
    mutex_unlock(&c->mutex);
    return n;
}

/* Under the mutex. */
void batch_take_op(struct committer *c, struct batch *batch, struct op_list *outcomes,
                   struct store_op *op)
{
    list_remove(&c->queue, op);
    atomic_store_explicit(&op->own.state, OP_TAKEN, memory_order_relaxed);
    op->result.held = false;
    list_add_outcome(outcomes, &batch->ops, op);
}

size_t batch_bytes_of(const struct store_op *op)
{
    bool any = !op_may_be_refused(op) && op->writing.outcome;
    return any ? outcome_size(op->writing.outcome) : 0;
}

/* Outcomes go first and by row, so that rows are appended: nobody notices, as none has ended. What
 * sets the terms is alone: nothing is decided beside it under those that it ends. */
static void take_ops(struct committer *c, struct batch *batch)
{
    size_t bytes = 0;
    struct op_list outcomes = {0};
    mutex_lock(&c->mutex);
    struct store_op *next = NULL;
    for (struct store_op *op = c->queue.first; op; op = next) {
        next = op->own.next;
        if (batch->ops.n + outcomes.n == COMMITTER_BATCH_MAX || bytes > BATCH_BYTES)
            break;
        if (!op_is_eligible(c, op, batch->boot))
            continue;
        bool alone = op->kind == STORE_ROWS && op->rows.terms;
        if (!rowset_knows(&c->rows, op) || (alone && batch->ops.n + outcomes.n > 0))
            break;
        batch_take_op(c, batch, &outcomes, op);
        bytes += batch_bytes_of(op);
        if (alone)
            break;
    }
    mutex_unlock(&c->mutex);
    list_prepend(&batch->ops, &outcomes);
}

static void note_lease(struct committer *c, const struct store_op *op, int64_t boot)
{
    bool begun = op->kind == STORE_BEGIN && op->result.status == STORE_DONE &&
                 (op->result.verdict == RECORD_PROCEED || op->result.verdict == RECORD_PROBE);
    bool acquired = begun || (op->kind == STORE_ASK && op->result.write == RECORD_WRITTEN);
    if (!acquired)
        return;
    c->lease_least = clock_first(c->lease_least, op->begin.lease_us);
    c->due[DUE_BEAT] = clock_first(c->due[DUE_BEAT], boot + c->lease_least / BEATS_OF_LEASE);
}

/* What it changed may be what a begin waits for; also one that was unsure, and had changed it. */
static bool has_ended(const struct store_op *op, bool touched)
{
    bool acquired = op->kind == STORE_BEGIN &&
                    (op->result.verdict == RECORD_PROCEED || op->result.verdict == RECORD_PROBE);
    return (touched || op->own.unsure) && !acquired && op->kind != STORE_EXTEND;
}

static bool may_wait(const struct store_op *op, int64_t boot)
{
    return op->kind == STORE_BEGIN && op->result.status == STORE_DONE &&
           op->result.verdict == RECORD_IN_PROGRESS && op->result.lease != RECORD_LEASE_LAPSED &&
           op->arrival.wait_until > boot;
}

/* Begins that wait for a record that changed decide again, in the same batch and before what came
 * later: the oldest waiter proceeds, and nobody overtakes it. One of whom the batch does not know
 * all that it looks at comes first in the next, with those behind it. */
static void wake_key_waiters(struct committer *c, struct batch *batch, const struct digest *key)
{
    struct op_list again = {0}, later = {0};
    struct store_op *op;
    bool known = true;
    mutex_lock(&c->mutex);
    while ((op = waiters_take_key(&c->waiters, key))) {
        known = known && rowset_knows(&c->rows, op);
        atomic_store_explicit(&op->own.state, known ? OP_TAKEN : OP_QUEUED, memory_order_relaxed);
        list_append(known ? &again : &later, op);
    }
    list_prepend(&c->queue, &later);
    mutex_unlock(&c->mutex);
    struct store_op *next = NULL;
    for (op = batch->parked.first; op; op = next) {
        next = op->own.next;
        if (!digest_eq(&op->key_hash, key))
            continue;
        list_remove(&batch->parked, op);
        list_append(&again, op);
    }
    list_prepend(&batch->ops, &again);
}

/* The next one. `later`: those to be decided with later tokens. */
static enum backend_status apply_next(struct committer *c, struct batch *batch,
                                      struct op_list *later)
{
    struct store_op *op = batch->ops.first;
    bool touched = false;
    if (op->kind != STORE_QUERY) /* those come whenever serve counts what is queued */
        CRASH_POINT(inside_batch);
    rowset_open(&c->rows);
    enum backend_status status = apply_op(&batch->apply, op, &touched);
    if (status == BACKEND_OK && !rowset_close(&c->rows, op))
        status = BACKEND_NO_MEMORY;
    if (status != BACKEND_OK)
        store_result_fini(&op->result, &op->room);
    if (status == BACKEND_NO_MEMORY && op_may_be_refused(op)) {
        list_remove(&batch->ops, op);
        op->result.status = STORE_NO_MEMORY;
        batch_end_op(op);
        return BACKEND_NO_MEMORY;
    }
    if (status != BACKEND_OK)
        return status;
    list_remove(&batch->ops, op);
    op->own.ended = has_ended(op, touched);
    op->begin.waited = !batch->apply.lags && may_wait(op, batch->boot);
    list_append(batch->apply.lags  ? later
                : op->begin.waited ? &batch->parked
                                   : &batch->decided,
                op);
    if (touched)
        wake_key_waiters(c, batch, &op->key_hash);
    if (!batch->apply.lags)
        note_lease(c, op, batch->boot);
    return BACKEND_OK;
}

/* Applies what was taken, for as long as there are tokens: the rest comes first in the next batch.
 * On anything but OK the transaction is to be rolled back. */
static enum backend_status apply_ops(struct committer *c, struct batch *batch)
{
    struct op_list later = {0};
    enum backend_status status = BACKEND_OK;
    while (status == BACKEND_OK && batch->ops.n > 0 &&
           apply_may_go_on(&batch->apply, batch->ops.first))
        status = apply_next(c, batch, &later);
    list_prepend(&batch->ops, &later);
    return status;
}

static void prepare_apply(struct committer *c, struct batch *batch)
{
    struct apply *apply = &batch->apply;
    committer_note_space(c);
    apply->backend = c->backend;
    apply->rows = &c->rows;
    apply->boot = batch->boot;
    apply_set_world(apply, c->store->self);
    apply->may_write = !atomic_load(&c->low_on_space) && committer_state(c) != COMMITTER_FULL &&
                       (c->registered || c->store->config.role == STORE_COMMAND);
    apply->closed = committer_closed(c, apply->may_write, &apply->read.terms);
    if (c->backend->back.untold && !c->store->config.accepts_weaker)
        apply->closed = STORE_WENT_BACK;
    apply->lost_up_to = atomic_load(&c->store->lost_up_to);
}

enum backend_status batch_decide(struct committer *c, struct batch *batch)
{
    prepare_apply(c, batch);
    return apply_ops(c, batch);
}

/* Not one that may have begun already, by a save of which nobody knows: it goes on until it is
 * sure. */
static bool report_locked(const struct apply *apply, struct store_op *op)
{
    if (op->kind != STORE_BEGIN || op->own.unsure)
        return false;
    struct store_row row = {.id = 0};
    op->result.status = STORE_DONE;
    op->result.verdict = record_begin_locked(&row.record, apply->read.now);
    apply_report(apply, op, &row);
    return true;
}

/* A lock that another batch holds is free again in milliseconds: a begin that met one is decided
 * again, at once and then every COMMITTER_LOCKED_US, before it is told that it is in progress. */
static bool try_op_again(struct batch *batch, struct op_list *from, struct store_op *op)
{
    int64_t boot = clock_boot_us();
    bool first = op->own.locked_until == 0;
    if (op->kind != STORE_BEGIN || op->own.unsure || (!first && boot >= op->own.locked_until))
        return false;
    if (first)
        op->own.locked_until = clock_after(boot, RECORD_LOCKED_US);
    list_remove(from, op);
    list_append(first ? &batch->ops : &batch->locked, op);
    return true;
}

enum group_result batch_group_result(const struct store_op *op)
{
    const struct backend_group *group = op->own.group;
    while (group && group->joined)
        group = group->joined;
    return group ? group->result : GROUP_OK;
}

/* Nor would it be saved if it were decided again. */
static bool brings_stale(const struct store_op *op)
{
    for (size_t i = 0; i < op->n_brings; i++)
        if (op->brings[i].is_stale)
            return true;
    return false;
}

/* Whether `op` may end with an error: its caller can then ask again. Other operations store what
 * has happened, and are tried until they are saved. Of a save that the store refused, an earlier
 * try whose commit was unsure did not commit: the refusal comes from a comparison with the rows.
 */
static bool may_fail(const struct store_op *op)
{
    return op_may_be_refused(op) || op->writing.actor.len > 0;
}

/* What was decided and not saved, by the result of its group: in progress, decided again (later,
 * where somebody holds the terms: nobody knows how long), failed, or ended as what brings a row
 * that did not fit. */
static void undo_op(struct batch *batch, struct op_list *from, struct store_op *op)
{
    bool refused = batch_group_result(op) == GROUP_REFUSED;
    bool locked = batch_group_result(op) == GROUP_LOCKED || refused;
    bool held = batch_group_result(op) == GROUP_HELD;
    batch->refused |= refused;
    store_result_fini(&op->result, &op->room);
    op->own.group = NULL;
    if (brings_stale(op)) {
        op->result.status = STORE_CONFLICT;
        return;
    }
    if (refused && may_fail(op)) {
        op->result.status = STORE_DOWN;
        list_remove(from, op); /* it may have met the lease of one that is refused with it */
        list_append(&batch->decided, op);
        return;
    }
    if (locked && try_op_again(batch, from, op))
        return;
    bool reported = locked && report_locked(&batch->apply, op);
    op->begin.waited = may_wait(op, batch->boot);
    if (reported && !op->begin.waited)
        return;
    struct op_list *to = reported ? &batch->parked : locked || held ? &batch->locked : &batch->ops;
    list_remove(from, op);
    list_append(to, op);
}

static void undo_unsaved(struct batch *batch)
{
    struct op_list *const lists[] = {&batch->decided, &batch->parked};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        struct store_op *next = NULL;
        for (struct store_op *op = lists[i]->first; op; op = next) {
            next = op->own.next;
            if (batch_group_result(op) != GROUP_OK)
                undo_op(batch, lists[i], op);
        }
    }
}

static enum backend_status save_batch(struct committer *c, struct batch *batch)
{
    struct apply *apply = &batch->apply;
    struct backend_save *save = &batch->save;
    save->drawn = apply->drawn;
    struct backend_group *groups = save->groups = rowset_groups(&c->rows);
    save->terms = apply->read.terms;
    save->sets = apply->sets;
    CHECK(!save->sets || (groups && !groups->next && groups->begins));
    enum backend_status status = c->backend->ops->save(c->backend, save);
    if (status == BACKEND_OK)
        committer_chores_done(c, batch->boot, &batch->chores);
    if (status == BACKEND_OK && apply->sets && groups && groups->result == GROUP_OK)
        apply->read.terms = apply->sets->wanted;
    return status;
}

static enum backend_status maintain_store(struct committer *c, struct batch *batch,
                                          size_t operations)
{
    struct backend_chores *chores = &batch->chores;
    *chores = committer_chores(c, batch->boot, operations);
    bool any = chores->beat || chores->sweep_most > 0 || chores->gauge;
    enum backend_status status = any ? c->backend->ops->maintain(c->backend, chores) : BACKEND_OK;
    if (status == BACKEND_OK)
        committer_note_beat(c, chores);
    return status;
}

/* The first batch after it was noticed that the store went back says so there, by which all its
 * processes know; also where there is space for nothing else. Where somebody holds the terms, it is
 * tried again and again, beside the others. */
static enum backend_status tell_back(struct committer *c, struct batch *batch)
{
    struct apply *apply = &batch->apply;
    bool touched = false;
    enum backend_status status = rowset_load(&c->rows, c->backend, &apply->read);
    if (status != BACKEND_OK)
        return status;
    rowset_open(&c->rows);
    prepare_apply(c, batch);
    apply->may_write = true;
    struct terms_change change = {.expected = apply->read.terms,
                                  .wanted = committer_told(c, &apply->read),
                                  .above = c->back.above};
    struct store_op op = {.kind = STORE_ROWS, .rows.terms = &change};
    if (!terms_eq(&change.expected, &change.wanted))
        status = apply_op(apply, &op, &touched);
    else
        rowset_begin(&c->rows);
    if (status == BACKEND_OK && !rowset_close(&c->rows, &op))
        status = BACKEND_NO_MEMORY;
    if (status == BACKEND_OK && op.result.status != STORE_DONE)
        status = BACKEND_BUSY;
    if (status != BACKEND_OK) {
        c->backend->ops->abandon(c->backend);
        return status;
    }
    status = save_batch(c, batch);
    apply->sets = NULL;
    if (status == BACKEND_OK && batch_group_result(&op) == GROUP_OK)
        c->backend->back.untold = false;
    return status;
}

/* It made its row, or put its own origin there: else that of an earlier attempt says whether its
 * success is an event. That, and a once value, is in its row. */
static bool ends_by_record_alone(const struct store_op *op)
{
    struct origin origin;
    bool emits = origin_read(op->arrival.origin, &origin) && origin.emit.len > 0;
    return op->result.verdict == RECORD_PROCEED && !emits && op->result.record.once_ttl_us == 0;
}

/* What has acquired may be finished without a load. */
static void note_versions(struct batch *batch)
{
    for (struct store_op *op = batch->decided.first; op; op = op->own.next)
        if (op->kind == STORE_BEGIN && op->result.status == STORE_DONE && op->own.group &&
            ends_by_record_alone(op))
            op->result.version = batch->save.version;
}

/* Of several sessions one that noticed acknowledges nothing until the store says so: what it showed
 * the others is from before, so none would notice if that were lost (docs/model/marks.pml). */
static bool is_to_tell(const struct committer *c, int64_t boot)
{
    return c->backend->back.untold && (c->store->n > 1 || boot >= c->due[DUE_TELL]);
}

static enum backend_status run_steps(struct committer *c, struct batch *batch)
{
    struct apply *apply = &batch->apply;
    if (is_to_tell(c, batch->boot)) {
        c->due[DUE_TELL] = clock_after(batch->boot, COMMITTER_RETRY_US);
        return tell_back(c, batch);
    }
    size_t n = batch->takes_none ? 0 : want_names(c, batch->boot);
    if (n > 0)
        atomic_store(&c->expects_ends, true);
    enum backend_status status = maintain_store(c, batch, n);
    if (status == BACKEND_OK)
        status = rowset_load(&c->rows, c->backend, &apply->read);
    if (status != BACKEND_OK)
        return status;
    if (!batch->takes_none)
        take_ops(c, batch);
    status = batch_decide(c, batch);
    if (status == BACKEND_OK)
        return save_batch(c, batch);
    c->backend->ops->abandon(c->backend);
    return status;
}

enum backend_status batch_conclude(struct committer *c, struct batch *batch,
                                   enum backend_status status)
{
    if (status == BACKEND_OK) {
        undo_unsaved(batch);
        if (batch->save.version != 0)
            note_versions(batch);
    }
    rowset_reset(&c->rows);
    return status;
}

enum backend_status batch_run(struct committer *c, struct batch *batch)
{
    return batch_conclude(c, batch, run_steps(c, batch));
}

/* ---- afterwards ---- */

/* Keeps a begin that met a live lease. A lease of this process ends by a write that passes here,
 * or is handed over; one of another process may lapse unseen, so its waiter looks again then. */
static bool keep_waiting(struct committer *c, struct store_op *op, int64_t boot)
{
    if (c->stopping)
        return false;
    bool own = op->result.record.owner == c->store->self;
    int64_t lapse = own ? CLOCK_NEVER : clock_after(boot, op->result.lease_left_us + 1);
    op->own.wake_at = clock_first(op->arrival.wait_until, lapse);
    if (!waiters_add(&c->waiters, op)) {
        op->result.status = STORE_LIMITED;
        return false;
    }
    op->own.waits = true;
    atomic_store_explicit(&op->own.state, OP_WAITING, memory_order_release);
    /* An owner that was interrupted before it waited gives its place back now. */
    if (op->parker)
        parker_wake(op->parker);
    return true;
}

/* To be tried again later, and not again and again until the transaction ends that holds it. */
static void keep_locked(struct committer *c, struct store_op *op)
{
    bool soon = op->kind == STORE_BEGIN && !op->own.unsure;
    op->own.wake_at = clock_after(clock_boot_us(), soon ? COMMITTER_LOCKED_US : RECORD_LOCKED_US);
    op->result.held = true;
    list_append(&c->locked, op);
    atomic_store_explicit(&op->own.state, OP_LOCKED, memory_order_relaxed);
}

void batch_report(struct committer *c, struct batch *batch)
{
    mutex_lock(&c->mutex);
    committer_note_batch(c, batch);
    int64_t now = clock_boot_us();
    atomic_store(&c->in_flight, batch->decided.n + c->queue.n);
    atomic_store(&c->measured_at, now);
    collect_note_batch(&c->collect, batch->decided.n, c->queue.n, batch->boot, now);
    if (batch->refused)
        committer_note_retry(c, BACKEND_BUSY);
    batch_queue_front(c, &batch->ops);
    struct store_op *op;
    while ((op = list_pop(&batch->decided)))
        batch_end_op(op);
    while ((op = list_pop(&batch->locked)))
        keep_locked(c, op);
    while ((op = list_pop(&batch->parked))) {
        op->own.unsure = false;
        if (!keep_waiting(c, op, batch->boot))
            batch_end_op(op);
    }
    atomic_store(&c->expects_ends, c->waiters.n > 0);
    mutex_unlock(&c->mutex);
}

/* ---- a batch that was not saved ---- */

static void drop_found(struct op_list *ops)
{
    for (struct store_op *op = ops->first; op; op = op->own.next)
        store_result_fini(&op->result, &op->room);
}

void batch_end_dead(struct committer *c, struct batch *batch)
{
    drop_found(&batch->decided);
    mutex_lock(&c->mutex);
    batch_queue_front(c, &batch->ops);
    batch_queue_front(c, &batch->parked);
    batch_queue_front(c, &batch->decided);
    batch_queue_front(c, &c->locked);
    struct store_op *op;
    while ((op = waiters_take_any(&c->waiters)))
        list_append(&c->queue, op);
    while ((op = list_pop(&c->queue))) {
        op->result.status = STORE_DEAD;
        batch_end_op(op);
    }
    mutex_unlock(&c->mutex);
}

/* The commit may have happened: an operation so marked is not withdrawn before it was applied
 * again. */
static void note_unsure(struct op_list *ops)
{
    for (struct store_op *op = ops->first; op; op = op->own.next)
        op->own.unsure = true;
}

void batch_undo(struct committer *c, struct batch *batch, bool unsure)
{
    drop_found(&batch->decided);
    mutex_lock(&c->mutex);
    if (unsure)
        note_unsure(&batch->decided);
    batch_queue_front(c, &batch->ops);
    batch_queue_front(c, &batch->parked);
    batch_queue_front(c, &batch->decided);
    mutex_unlock(&c->mutex);
}
