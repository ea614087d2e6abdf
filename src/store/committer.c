/* SPDX-License-Identifier: Apache-2.0 */
#include "store/committer.h"

#include "base/check.h"
#include "base/crash.h"
#include "base/mem.h"
#include "base/random.h"
#include "core/errors.h"
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#define PROBLEM_LINE_MAX 512
#define BATCH_BYTES ((size_t)1024 * 1024) /* of outcomes in one transaction */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- operations; the queue under the mutex ---- */

static void queue_front(struct committer *c, struct op_list *front)
{
    for (struct store_op *op = front->first; op; op = op->next)
        atomic_store_explicit(&op->state, OP_QUEUED, memory_order_relaxed);
    list_prepend(&c->queue, front);
}

/* The owner may free the operation and its parker as soon as it reads OP_ENDED. */
static void end_op(struct store_op *op)
{
    parker_publish(op->parker, &op->state, OP_ENDED);
}

/* ---- one batch ---- */

struct batch {
    struct apply apply;
    struct op_list ops;     /* taken, in order */
    struct op_list decided; /* applied, not told */
    struct op_list parked;  /* begins that met a live lease and have time to wait */
    int64_t boot;           /* when it began */
    int64_t held;           /* when it held the store: boot time of world.now */
    struct backend_gauges gauges;
};

static void publish_time(struct committer *c, int64_t store_time, int64_t boot)
{
    atomic_store(&c->offset, store_time - boot);
}

/* In one write, and not at all where nobody reads: to stop matters more than to say so. */
static void say_stopping(const char *problem)
{
    char line[PROBLEM_LINE_MAX];
    int n = snprintf(line, sizeof line, "pawl: the store failed, stopping: %s\n", problem);
    struct pollfd error = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (poll(&error, 1, 0) == 1 && (error.revents & POLLOUT) != 0 &&
        write(STDERR_FILENO, line, (size_t)n) != n)
        return;
}

/* Fail-stop: what was decided is told to nobody (contract section 2, invariant 8). */
static void fail_stop(struct committer *c)
{
    atomic_store(&c->dead, true);
    if (c->config.fail_stop) {
        c->config.fail_stop(c->config.fail_stop_argument, c->backend->problem);
        return;
    }
    say_stopping(c->backend->problem);
    _exit(EXIT_FAIL_STOP);
}

static void drop_found(struct op_list *ops)
{
    for (struct store_op *op = ops->first; op; op = op->next)
        apply_forget(op);
}

static void end_all_dead(struct committer *c, struct batch *batch)
{
    drop_found(&batch->decided);
    mutex_lock(&c->mutex);
    queue_front(c, &batch->ops);
    queue_front(c, &batch->parked);
    queue_front(c, &batch->decided);
    struct store_op *op;
    while ((op = waiters_take_any(&c->waiters)))
        list_append(&c->queue, op);
    while ((op = list_pop(&c->queue))) {
        op->status = STORE_DEAD;
        end_op(op);
    }
    mutex_unlock(&c->mutex);
}

/* A batch that cannot go on: its operations are queued again, in order. */
static void put_back(struct committer *c, struct batch *batch)
{
    drop_found(&batch->decided);
    mutex_lock(&c->mutex);
    queue_front(c, &batch->ops);
    queue_front(c, &batch->parked);
    queue_front(c, &batch->decided);
    mutex_unlock(&c->mutex);
}

/* A file that is gone does not come back by itself: whoever only asks is told so at once. */
static void end_reads(struct committer *c)
{
    mutex_lock(&c->mutex);
    struct store_op *next = NULL;
    for (struct store_op *op = c->queue.first; op; op = next) {
        next = op->next;
        if (!op_may_be_refused(op))
            continue;
        list_remove(&c->queue, op);
        op->status = STORE_DOWN;
        end_op(op);
    }
    mutex_unlock(&c->mutex);
}

/* For whoever watches the store from another thread. */
static void note_problem(struct committer *c, enum backend_status status)
{
    mutex_lock(&c->mutex);
    committer_note_retry(c, status);
    memcpy(c->problem, c->backend->problem, sizeof c->problem);
    mutex_unlock(&c->mutex);
}

static void trouble(struct committer *c, struct batch *batch, enum backend_status status)
{
    if (status == BACKEND_FATAL) {
        fail_stop(c);
        end_all_dead(c, batch);
        return;
    }
    put_back(c, batch);
    note_problem(c, status);
    if (status == BACKEND_FULL) {
        c->write_at = batch->boot + COMMITTER_RETRY_US;
        atomic_store(&c->full_until, batch->boot + COMMITTER_FULL_US);
        return;
    }
    atomic_store(&c->gone, status == BACKEND_GONE);
    if (status == BACKEND_GONE)
        end_reads(c);
    c->retry_at = batch->boot + COMMITTER_RETRY_US;
}

static struct record_world world_of(struct committer *c, const struct backend_state *state,
                                    int64_t *ret_boot)
{
    int64_t now = committer_time(c, state, ret_boot);
    bool alive = c->config.is_serve || c->backend->ops->serve_alive(c->backend);
    return (struct record_world){
        .now = now,
        .self = c->self,
        .serve = state->serve,
        .serve_alive = alive,
        .serve_dead_at = alive ? state->serve_since : now,
    };
}

/* Without space, begins (which may read) and outcomes (which must write) go in separate batches. */
static bool eligible(const struct committer *c, const struct store_op *op, int64_t boot)
{
    return c->write_at == 0 || op_may_be_refused(op) == committer_writes_wait(c, boot);
}

/* A lease that lapsed is everybody's who waits for it: the oldest decides first. */
static void take_due_waiters(struct committer *c, int64_t boot)
{
    struct op_list due = {0};
    struct store_op *op;
    while ((op = waiters_due(&c->waiters, boot))) {
        if (op->wait_until <= boot) {
            op->wait_until = 0;
            waiters_remove(&c->waiters, op);
            list_append(&due, op);
            continue;
        }
        struct digest key = op->key_hash;
        while ((op = waiters_take_key(&c->waiters, &key)))
            list_append(&due, op);
    }
    queue_front(c, &due);
}

/* Outcomes go first and by row, so that rows are appended: nobody can tell, as none has ended. */
static void take_ops(struct committer *c, struct batch *batch)
{
    size_t bytes = 0;
    struct op_list outcomes = {0};
    mutex_lock(&c->mutex);
    take_due_waiters(c, batch->boot);
    struct store_op *next = NULL;
    for (struct store_op *op = c->queue.first; op; op = next) {
        next = op->next;
        if (batch->ops.n + outcomes.n == COMMITTER_BATCH_MAX || bytes > BATCH_BYTES)
            break;
        if (!eligible(c, op, batch->boot))
            continue;
        list_remove(&c->queue, op);
        atomic_store_explicit(&op->state, OP_TAKEN, memory_order_relaxed);
        list_add_outcome(&outcomes, &batch->ops, op);
        bytes += op->outcome ? outcome_size(op->outcome) : 0;
    }
    mutex_unlock(&c->mutex);
    list_prepend(&batch->ops, &outcomes);
    if (batch->ops.n == 0 && c->write_at != 0 && batch->boot >= c->write_at)
        c->write_at = 0;
}

static void note_lease(struct committer *c, const struct store_op *op, int64_t boot)
{
    bool begun = op->kind == STORE_BEGIN && op->status == STORE_DONE &&
                 (op->verdict == RECORD_PROCEED || op->verdict == RECORD_ASK);
    bool acquired = begun || (op->kind == STORE_ASK && op->write == RECORD_WRITTEN);
    if (!acquired)
        return;
    c->lease_least = least(c->lease_least, op->begin.lease_us);
    c->heartbeat_at = least(c->heartbeat_at, boot + c->lease_least / 3);
}

static bool may_wait(const struct store_op *op, int64_t boot)
{
    return op->kind == STORE_BEGIN && op->status == STORE_DONE &&
           op->verdict == RECORD_IN_PROGRESS && op->wait_until > boot;
}

/* Who waits for a record that changed decides again, in the same batch and before whatever came
 * later: the oldest waiter proceeds, and nobody overtakes it. */
static void wake_waiters(struct committer *c, struct batch *batch, const struct digest *key)
{
    struct op_list again = {0};
    struct store_op *op;
    mutex_lock(&c->mutex);
    while ((op = waiters_take_key(&c->waiters, key))) {
        atomic_store_explicit(&op->state, OP_TAKEN, memory_order_relaxed);
        list_append(&again, op);
    }
    mutex_unlock(&c->mutex);
    struct store_op *next = NULL;
    for (op = batch->parked.first; op; op = next) {
        next = op->next;
        if (!digest_eq(&op->key_hash, key))
            continue;
        list_remove(&batch->parked, op);
        list_append(&again, op);
    }
    list_prepend(&batch->ops, &again);
}

/* Applies what was taken. On anything but OK the transaction is to be rolled back. */
static enum backend_status apply_ops(struct committer *c, struct batch *batch)
{
    struct store_op *op;
    while ((op = batch->ops.first)) {
        bool touched = false;
        CRASH_POINT(inside_batch);
        enum backend_status status = apply_op(&batch->apply, op, &touched);
        if (status == BACKEND_NO_MEMORY && op_may_be_refused(op)) {
            list_remove(&batch->ops, op);
            op->status = STORE_NO_MEMORY;
            end_op(op);
            return BACKEND_NO_MEMORY;
        }
        if (status != BACKEND_OK)
            return status;
        list_remove(&batch->ops, op);
        op->begin.waited = may_wait(op, batch->boot);
        list_append(op->begin.waited ? &batch->parked : &batch->decided, op);
        if (touched)
            wake_waiters(c, batch, &op->key_hash);
        note_lease(c, op, batch->boot);
    }
    return BACKEND_OK;
}

static enum backend_status work(struct committer *c, struct batch *batch)
{
    struct apply *apply = &batch->apply;
    enum backend_status status = c->backend->ops->begin(c->backend, &apply->state);
    if (status != BACKEND_OK)
        return status;
    if (!committer_may_go_on(c, &apply->state)) {
        c->backend->ops->rollback(c->backend);
        return BACKEND_GONE;
    }
    take_ops(c, batch);
    committer_look_at_space(c, batch->boot);
    apply->backend = c->backend;
    apply->boot = batch->boot;
    apply->world = world_of(c, &apply->state, &batch->held);
    apply->may_write = !atomic_load(&c->low_on_space) && c->write_at == 0 &&
                       (c->registered || !c->config.is_serve);
    status = committer_heartbeat(c, apply);
    if (status == BACKEND_OK)
        status = apply_ops(c, batch);
    if (status == BACKEND_OK)
        status = committer_sweep(c, apply, batch->decided.n + batch->parked.n);
    if (status == BACKEND_OK)
        status = committer_gauge(c, &apply->world, batch->boot, &batch->gauges);
    apply_fini(apply);
    if (status != BACKEND_OK) {
        c->backend->ops->rollback(c->backend);
        return status;
    }
    committer_mark_time(c, &apply->state, apply->world.now, batch->held);
    return c->backend->ops->commit(c->backend, &apply->state, apply->changed);
}

/* ---- after the commit ---- */

/* Keeps a begin that met a live lease. A lease of this process ends by a write that passes here;
 * one of another process may lapse unseen, so its waiter looks again then. */
static bool keep_waiting(struct committer *c, struct store_op *op, int64_t boot)
{
    if (c->stopping)
        return false;
    bool own = op->record.owner == c->self;
    int64_t lapse = own ? CLOCK_NEVER : clock_after(boot, op->lease_left_us + 1);
    op->wake_at = least(op->wait_until, lapse);
    if (!waiters_add(&c->waiters, op)) {
        op->status = STORE_LIMITED;
        return false;
    }
    op->waits = true;
    atomic_store_explicit(&op->state, OP_WAITING, memory_order_release);
    /* An owner that was interrupted before it waited gives its place back now. */
    if (op->parker)
        parker_wake(op->parker);
    return true;
}

static void tell(struct committer *c, struct batch *batch)
{
    struct batch_sum sum = {.began = batch->boot,
                            .ended = clock_boot_us(),
                            .operations = batch->decided.n + batch->parked.n,
                            .wrote = batch->apply.changed,
                            .gauges = batch->gauges};
    mutex_lock(&c->mutex);
    c->seen = batch->apply.state;
    committer_note_batch(c, &sum);
    struct store_op *op;
    while ((op = list_pop(&batch->decided)))
        end_op(op);
    while ((op = list_pop(&batch->parked)))
        if (!keep_waiting(c, op, batch->boot))
            end_op(op);
    mutex_unlock(&c->mutex);
}

/* Another process committed: everybody who waits decides again. How many they are. */
static size_t wake_everybody(struct committer *c)
{
    struct op_list again = {0};
    mutex_lock(&c->mutex);
    struct store_op *op;
    while ((op = waiters_take_any(&c->waiters)))
        list_append(&again, op);
    size_t n = again.n;
    queue_front(c, &again);
    mutex_unlock(&c->mutex);
    return n;
}

/* The next look keeps a distance from one that woke many: however often another process commits,
 * most of the time is left for what arrives. */
static bool look(struct committer *c, int64_t boot)
{
    bool changed = false;
    c->look_at = boot + COMMITTER_LOOK_US;
    enum backend_status status = c->backend->ops->look(c->backend, &changed);
    if (status == BACKEND_OK && changed)
        c->look_at += (int64_t)wake_everybody(c) * COMMITTER_WAKE_US;
    return changed;
}

static void run_batch(struct committer *c, int64_t boot)
{
    struct batch batch = {.boot = boot};
    if (atomic_load(&c->busy_since) == 0)
        atomic_store(&c->busy_since, boot);
    int64_t heartbeat_at = c->heartbeat_at;
    enum backend_status status = work(c, &batch);
    if (status != BACKEND_OK) {
        /* A heartbeat that was rolled back is still due. */
        c->heartbeat_at = least(c->heartbeat_at, heartbeat_at);
        trouble(c, &batch, status);
        return;
    }
    CRASH_POINT(after_commit);
    c->retry_at = 0;
    if (c->write_at != 0 && boot >= c->write_at)
        c->write_at = 0;
    if (batch.apply.changed)
        atomic_store(&c->full_until, 0);
    publish_time(c, batch.apply.world.now, batch.held);
    atomic_store(&c->forgets, batch.apply.state.forgets);
    atomic_store(&c->seen_at, boot);
    atomic_store(&c->gone, false);
    tell(c, &batch);
    CRASH_POINT(after_wake_up);
    status = c->backend->ops->rest(c->backend);
    if (status == BACKEND_FATAL) {
        trouble(c, &batch, status);
        return;
    }
    atomic_store(&c->busy_since, 0);
}

/* ---- what is due, and when ---- */

static bool has_waiters(struct committer *c, bool *ret_queued, int64_t *ret_next)
{
    mutex_lock(&c->mutex);
    *ret_queued = c->queue.n > 0;
    *ret_next = waiters_next(&c->waiters);
    bool any = c->waiters.n > 0;
    mutex_unlock(&c->mutex);
    return any;
}

/* A serve that found no space to register at its start. False: no batch can go on. */
static bool register_late(struct committer *c, int64_t boot)
{
    if (!c->config.is_serve || c->registered || committer_writes_wait(c, boot))
        return true;
    enum backend_status status = committer_register(c);
    if (status == BACKEND_OK)
        return true;
    trouble(c, &(struct batch){.boot = boot}, status);
    return status == BACKEND_FULL;
}

bool committer_step(struct committer *c)
{
    int64_t boot = clock_boot_us();
    if (atomic_load(&c->dead) || boot < c->retry_at)
        return false;
    bool queued = false;
    int64_t next = CLOCK_NEVER;
    if (has_waiters(c, &queued, &next) && boot >= c->look_at && look(c, boot))
        queued = true;
    bool chores = boot >= c->heartbeat_at || boot >= c->sweep_at || c->backlog;
    bool stuck = committer_writes_wait(c, boot) && queued;
    if (!queued && next > boot && (!chores || committer_writes_wait(c, boot)))
        return false;
    if (!register_late(c, boot))
        return true;
    run_batch(c, boot);
    return !stuck;
}

/* When something may be due without a submit. Under the mutex. */
static int64_t next_due(struct committer *c)
{
    int64_t next = least(c->heartbeat_at, c->sweep_at);
    next = next > c->write_at ? next : c->write_at;
    if (c->waiters.n > 0)
        next = least(least(next, c->look_at), waiters_next(&c->waiters));
    if (c->queue.n > 0)
        next = least(next, c->write_at);
    return next > c->retry_at ? next : c->retry_at;
}

void committer_wait(struct committer *c)
{
    mutex_lock(&c->mutex);
    int64_t now = clock_boot_us();
    bool held_up = now < c->retry_at || (c->write_at != 0 && now < c->write_at);
    bool idle = !c->stopping && (c->queue.n == 0 || held_up);
    int64_t span = next_due(c) - now;
    if (held_up && c->stopping)
        span = COMMITTER_RETRY_US;
    if ((idle || held_up) && span > 0) {
        c->sleeping = true;
        cond_wait_for(&c->cond, &c->mutex, least(span, COMMITTER_SWEEP_US));
        c->sleeping = false;
    }
    mutex_unlock(&c->mutex);
}

void committer_stop(struct committer *c)
{
    mutex_lock(&c->mutex);
    c->stopping = true;
    c->stop_by = clock_after(clock_boot_us(), atomic_load(&c->timeout_us));
    struct op_list again = {0};
    struct store_op *op;
    while ((op = waiters_take_any(&c->waiters))) {
        op->wait_until = 0;
        list_append(&again, op);
    }
    queue_front(c, &again);
    mutex_unlock(&c->mutex);
    cond_signal(&c->cond);
}

bool committer_stopped(struct committer *c)
{
    mutex_lock(&c->mutex);
    bool given_up = atomic_load(&c->dead) || clock_boot_us() >= c->stop_by;
    bool stopped = c->stopping && (c->queue.n == 0 || given_up);
    mutex_unlock(&c->mutex);
    return stopped;
}

/* ---- life ---- */

struct committer *committer_new(const struct store_config *config, struct backend *backend)
{
    struct committer *c = mem_zalloc(1, sizeof *c);
    if (!c)
        return NULL;
    if (!waiters_init(&c->waiters, config->max_waiting, config->max_waiting_per_key)) {
        mem_free(c);
        return NULL;
    }
    mutex_init(&c->mutex);
    cond_init(&c->cond);
    c->backend = backend;
    c->config = *config;
    atomic_init(&c->timeout_us, config->timeout_us);
    atomic_init(&c->disk_reserve, config->disk_reserve);
    c->boot_id = clock_boot_id();
    c->self = (int64_t)(random_u64() >> 2) | 1;
    c->heartbeat_at = CLOCK_NEVER;
    c->lease_least = CLOCK_NEVER;
    publish_time(c, 0, clock_boot_us());
    return c;
}

void committer_free(struct committer *c)
{
    if (!c)
        return;
    struct store_op *op;
    while ((op = list_pop(&c->queue))) {
        op->status = STORE_DOWN;
        end_op(op);
    }
    waiters_fini(&c->waiters);
    c->backend->ops->close(c->backend);
    cond_fini(&c->cond);
    mutex_fini(&c->mutex);
    mem_free(c);
}

enum backend_status committer_register(struct committer *c)
{
    struct backend_state state;
    enum backend_status status = c->backend->ops->begin(c->backend, &state);
    if (status != BACKEND_OK)
        return status;
    if (!committer_is_sane(c, &state)) {
        c->backend->ops->rollback(c->backend);
        return BACKEND_GONE;
    }
    int64_t boot;
    int64_t now = committer_time(c, &state, &boot);
    publish_time(c, now, boot);
    if (c->config.is_serve) {
        state.serve = c->self;
        state.serve_since = now;
        committer_mark_time(c, &state, now, boot);
    }
    c->seen = state;
    atomic_store(&c->forgets, state.forgets);
    atomic_store(&c->seen_at, boot);
    status = c->backend->ops->commit(c->backend, &state, c->config.is_serve);
    if (status == BACKEND_FULL)
        c->write_at = clock_after(boot, COMMITTER_RETRY_US);
    if (status != BACKEND_OK)
        return status;
    c->registered = c->config.is_serve;
    return c->backend->ops->rest(c->backend);
}
