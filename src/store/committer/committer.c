/* SPDX-License-Identifier: Apache-2.0 */
#include "store/committer/committer.h"

#include "base/check.h"
#include "base/crash.h"
#include "base/crypto/random.h"
#include "base/mem.h"
#include "store/committer/assume.h"
#include "store/committer/batch.h"
#include "store/committer/handover.h"

/* Of a block, or of what one batch may draw. */
static void note_highest(struct committer *c, const struct backend_read *read)
{
    int64_t n = read->n_tokens < COMMITTER_BATCH_MAX ? read->n_tokens : COMMITTER_BATCH_MAX;
    atomic_store(&c->highest, read->token + n - 1);
}

static void publish_time(struct committer *c, const struct backend_read *read)
{
    atomic_store(&c->store->offset, read->now - read->boot);
}

/* For those that watch the store from another thread. */
static void note_backend_problem(struct committer *c, enum backend_status status)
{
    mutex_lock(&c->mutex);
    committer_note_retry(c, status);
    mutex_unlock(&c->mutex);
}

static void move_state(struct committer *c, enum committer_event event)
{
    atomic_store(&c->state, committer_next(committer_state(c), event));
}

static enum committer_event event_of(enum backend_status status)
{
    switch (status) {
    case BACKEND_OK:
        return COMMITTER_COMMITTED;
    case BACKEND_FULL:
        return COMMITTER_NO_SPACE;
    case BACKEND_BUSY:
    case BACKEND_NO_MEMORY:
    case BACKEND_UNSURE:
        return COMMITTER_HELD_UP;
    case BACKEND_AWAY:
        return COMMITTER_LOST;
    case BACKEND_FATAL:
        return COMMITTER_FAILED;
    }
    UNREACHABLE();
}

/* Refuses at once the queued operations that may be refused: a deleted store does not come back by
 * itself. */
static void end_reads(struct committer *c)
{
    mutex_lock(&c->mutex);
    struct store_op *next = NULL;
    for (struct store_op *op = c->queue.first; op; op = next) {
        next = op->own.next;
        if (!op_may_be_refused(op) || op->own.unsure)
            continue;
        list_remove(&c->queue, op);
        op->result.status = STORE_DOWN;
        batch_end_op(op);
    }
    mutex_unlock(&c->mutex);
}

/* A batch that was not saved. Fail-stop: what was decided is reported to nobody. */
static void handle_failure(struct committer *c, struct batch *batch, enum backend_status status)
{
    CHECK(status != BACKEND_OK);
    note_backend_problem(c, status);
    move_state(c, event_of(status));
    switch (committer_state(c)) {
    case COMMITTER_DEAD:
        if (c->store->config.fail_stop)
            c->store->config.fail_stop(c->store->config.fail_stop_argument, c->backend->problem);
        batch_end_dead(c, batch);
        return;
    case COMMITTER_FULL:
        c->due[DUE_WRITE] = batch->boot + COMMITTER_RETRY_US;
        atomic_store(&c->full_until, batch->boot + COMMITTER_FULL_US);
        break;
    case COMMITTER_AWAY:
    case COMMITTER_HELD:
        c->due[DUE_RETRY] = batch->boot + COMMITTER_RETRY_US;
        break;
    case COMMITTER_UP:
    case COMMITTER_STATES:
        UNREACHABLE();
    }
    batch_undo(c, batch, status == BACKEND_UNSURE);
    if (committer_state(c) != COMMITTER_AWAY)
        return;
    if (c->at == 0)
        end_reads(c);
    else
        handover_queue(c);
}

/* NULL: nobody waits, or there is no memory for it now. */
static struct backend_watch *watches_of(struct committer *c, size_t *ret_n)
{
    mutex_lock(&c->mutex);
    size_t n = c->waiters.n;
    struct backend_watch *watches = n > 0 ? mem_alloc(n * sizeof *watches) : NULL;
    *ret_n = watches ? waiters_watch(&c->waiters, watches, n) : 0;
    mutex_unlock(&c->mutex);
    return watches;
}

/* Begins that wait for an attempt that has ended decide again. How many they are. */
static size_t wake_ended(struct committer *c, const struct backend_watch *watches, size_t n)
{
    struct op_list again = {0};
    mutex_lock(&c->mutex);
    for (size_t i = 0; i < n; i++) {
        struct store_op *op = NULL;
        while (watches[i].ended && (op = waiters_take_key(&c->waiters, &watches[i].key)))
            list_append(&again, op);
    }
    size_t woken = again.n;
    batch_queue_front(c, &again);
    mutex_unlock(&c->mutex);
    return woken;
}

/* Looks in the store for records that another process has ended, and returns whether a waiting
 * operation was woken. After a look that woke many the next one is later: however often another
 * process commits, most of the time is left for new operations. */
static bool look_for_ended(struct committer *c, int64_t boot)
{
    size_t n = 0, woken = 0;
    struct backend_watch *watches MEM_AUTO = watches_of(c, &n);
    c->due[DUE_LOOK] = boot + COMMITTER_LOOK_US;
    if (n > 0 && c->backend->ops->look(c->backend, watches, n) == BACKEND_OK)
        woken = wake_ended(c, watches, n);
    c->due[DUE_LOOK] += (int64_t)woken * COMMITTER_WAKE_US;
    return woken > 0;
}

static enum backend_status rest_backend(const struct committer *c)
{
    return c->backend->ops->rest ? c->backend->ops->rest(c->backend) : BACKEND_OK;
}

/* Whether it did what had to come before one with operations. */
static bool run_batch(struct committer *c, int64_t boot)
{
    bool assumes = assume_fits(c, boot), ready = assume_is_ready(c, boot);
    struct batch batch = {.boot = boot,
                          .takes_none = assumes && !ready && !c->backlog,
                          .apply.others_memory = committer_memory(c->store, c)};
    if (atomic_load(&c->busy_since) == 0)
        atomic_store(&c->busy_since, boot);
    enum backend_status status = assumes && ready ? assume_run(c, &batch) : batch_run(c, &batch);
    committer_note_back(c);
    c->read = status == BACKEND_OK ? batch.apply.read : (struct backend_read){0};
    if (status != BACKEND_OK) {
        handle_failure(c, &batch, status);
        return false;
    }
    CRASH_POINT(after_commit);
    handover_ended(c, &batch);
    move_state(c, committer_writes_wait(c, boot) ? COMMITTER_READS : COMMITTER_COMMITTED);
    if (batch.save.changed)
        atomic_store(&c->full_until, 0);
    publish_time(c, &batch.apply.read);
    committer_note_forgets(c, batch.save.counts.forgets);
    note_highest(c, &batch.apply.read);
    atomic_store(&c->seen_at, clock_first(boot, batch.apply.read.boot));
    batch_report(c, &batch);
    CRASH_POINT(after_wake_up);
    status = rest_backend(c);
    if (status == BACKEND_FATAL) {
        handle_failure(c, &batch, status);
        return false;
    }
    atomic_store(&c->busy_since, 0);
    c->due[DUE_JOIN] = CLOCK_NEVER;
    atomic_store(&c->takes_keys, true);
    return batch.takes_none;
}

/* ---- what is due, and when ---- */

/* Those on what was locked when they were tried last. Under the mutex. */
static void take_due_locked(struct committer *c, int64_t boot)
{
    struct op_list due = {0};
    struct store_op *next = NULL;
    for (struct store_op *op = c->locked.first; op; op = next) {
        next = op->own.next;
        if (op->own.wake_at > boot)
            continue;
        list_remove(&c->locked, op);
        list_append(&due, op);
    }
    batch_queue_front(c, &due);
}

static int64_t next_locked(const struct committer *c)
{
    int64_t next = CLOCK_NEVER;
    for (const struct store_op *op = c->locked.first; op; op = op->own.next)
        next = clock_first(next, op->own.wake_at);
    return next;
}

/* Begins that wait for what another committer has ended. Under the mutex. */
static void take_handed(struct committer *c)
{
    struct handed *handed = &c->handed;
    struct op_list again = {0};
    struct store_op *op = NULL;
    for (size_t i = 0; i < handed->n; i++)
        while ((op = waiters_take_key(&c->waiters, &handed->keys[i])))
            list_append(&again, op);
    while (handed->all && (op = waiters_take_any(&c->waiters)))
        list_append(&again, op);
    *handed = (struct handed){0};
    batch_queue_front(c, &again);
}

static bool take_waiters(struct committer *c, int64_t boot, bool *ret_queued, int64_t *ret_next)
{
    mutex_lock(&c->mutex);
    take_handed(c);
    take_due_locked(c, boot);
    *ret_queued = c->queue.n > 0;
    *ret_next = waiters_next(&c->waiters);
    bool any = c->waiters.n > 0;
    mutex_unlock(&c->mutex);
    return any;
}

/* A serve that found no space to register at its start. False: no batch can go on. */
static bool register_late(struct committer *c, int64_t boot)
{
    if (c->store->config.role == STORE_COMMAND || c->registered || committer_writes_wait(c, boot))
        return true;
    enum backend_status status = committer_register(c);
    if (status == BACKEND_OK)
        return true;
    handle_failure(c, &(struct batch){.boot = boot}, status);
    return status == BACKEND_FULL;
}

/* Nothing goes through, and it is not yet time to try again. */
static bool is_batch_held_up(const struct committer *c, int64_t boot)
{
    enum committer_state state = committer_state(c);
    return (state == COMMITTER_HELD || state == COMMITTER_AWAY) && boot < c->due[DUE_RETRY];
}

bool committer_step(struct committer *c)
{
    int64_t boot = clock_boot_us();
    if (committer_state(c) == COMMITTER_DEAD || is_batch_held_up(c, boot))
        return false;
    bool queued = false;
    int64_t next = CLOCK_NEVER;
    if (take_waiters(c, boot, &queued, &next) && boot >= c->due[DUE_LOOK] &&
        look_for_ended(c, boot))
        queued = true;
    bool chores = boot >= c->due[DUE_BEAT] || boot >= c->due[DUE_SWEEP] || c->backlog;
    bool stuck = committer_writes_wait(c, boot) && queued;
    bool tells = c->backend->back.untold && boot >= c->due[DUE_TELL];
    bool joins = boot >= c->due[DUE_JOIN];
    if (!queued && !tells && !joins && next > boot && (!chores || committer_writes_wait(c, boot)))
        return false;
    if (!register_late(c, boot))
        return true;
    if (run_batch(c, boot))
        (void)run_batch(c, clock_boot_us());
    return !stuck;
}

/* When something may be due without a submit. Under the mutex. */
static int64_t next_due(struct committer *c, int64_t now)
{
    int64_t next = clock_first(c->due[DUE_BEAT], c->due[DUE_SWEEP]);
    bool writes_wait = committer_writes_wait(c, now);
    if (writes_wait && next < c->due[DUE_WRITE])
        next = c->due[DUE_WRITE];
    if (c->waiters.n > 0)
        next = clock_first(clock_first(next, c->due[DUE_LOOK]), waiters_next(&c->waiters));
    next = clock_first(next, next_locked(c));
    next = clock_first(next, c->due[DUE_JOIN]);
    if (c->handed.n > 0)
        next = now;
    if (c->queue.n > 0)
        next = writes_wait ? clock_first(next, c->due[DUE_WRITE]) : now;
    if (c->backend->back.untold)
        next = clock_first(next, c->due[DUE_TELL]);
    return is_batch_held_up(c, now) && next < c->due[DUE_RETRY] ? c->due[DUE_RETRY] : next;
}

/* Until so many operations are queued, or that long. Under the mutex. */
static void sleep_until(struct committer *c, size_t queued, int64_t wait_us)
{
    CHECK(queued > 0 && wait_us > 0);
    c->wakes_at = queued;
    cond_wait_for(&c->cond, &c->mutex, wait_us);
    c->wakes_at = 0;
}

void committer_collect(struct committer *c)
{
    if (!c->backend->has_round_trips)
        return;
    mutex_lock(&c->mutex);
    size_t queued = c->queue.n;
    int64_t wait_us = collect_wait_us(&c->collect, queued, clock_boot_us());
    if (wait_us > 0 && !c->stopping) {
        sleep_until(c, c->collect.most, wait_us);
        collect_note_wait(&c->collect, queued, c->queue.n);
    }
    mutex_unlock(&c->mutex);
}

void committer_wait(struct committer *c)
{
    mutex_lock(&c->mutex);
    int64_t now = clock_boot_us();
    bool held_up = is_batch_held_up(c, now) || committer_writes_wait(c, now);
    bool idle = c->queue.n == 0 ? !c->stopping || c->locked.n > 0 : held_up && !c->stopping;
    int64_t wait_us = next_due(c, now) - now;
    if (held_up && c->stopping)
        wait_us = COMMITTER_RETRY_US;
    if ((idle || held_up) && wait_us > 0)
        sleep_until(c, 1, clock_first(wait_us, COMMITTER_SWEEP_US));
    mutex_unlock(&c->mutex);
}

void committer_stop(struct committer *c)
{
    mutex_lock(&c->mutex);
    c->stopping = true;
    c->stop_by = clock_after(clock_boot_us(), atomic_load(&c->store->timeout_us));
    struct op_list again = {0};
    struct store_op *op;
    while ((op = waiters_take_any(&c->waiters))) {
        op->arrival.wait_until = 0;
        list_append(&again, op);
    }
    batch_queue_front(c, &again);
    mutex_unlock(&c->mutex);
    cond_signal(&c->cond);
}

bool committer_stopped(struct committer *c)
{
    mutex_lock(&c->mutex);
    bool given_up = committer_state(c) == COMMITTER_DEAD || clock_boot_us() >= c->stop_by;
    bool stopped = c->stopping && (c->queue.n + c->locked.n == 0 || given_up);
    mutex_unlock(&c->mutex);
    return stopped;
}

/* ---- life ---- */

struct committer *committer_new(struct store *store, struct backend *backend)
{
    const struct store_limits *limits = &store->config.limits;
    struct committer *c = mem_zalloc(1, sizeof *c);
    CHECK(store->n < STORE_SESSIONS_MOST);
    if (!c)
        return NULL;
    if (!rowset_init(&c->rows) ||
        !waiters_init(&c->waiters, limits->max_waiting, limits->max_waiting_per_key)) {
        rowset_fini(&c->rows);
        mem_free(c);
        return NULL;
    }
    mutex_init(&c->mutex);
    cond_init(&c->cond);
    c->store = store;
    c->at = store->n;
    c->backend = backend;
    c->decisions = buf_make(SIZE_MAX); /* the backend has its limit */
    c->odd_rows = buf_make(SIZE_MAX);
    c->held_rows = buf_make(SIZE_MAX);
    c->weakness = backend->weakness;
    backend->self = (struct backend_owner){.incarnation = store->self, .role = store->config.role};
    c->due[DUE_BEAT] = CLOCK_NEVER;
    c->lease_least = CLOCK_NEVER;
    int64_t boot = clock_boot_us();
    if (store->config.role == STORE_COMMAND) /* which may end before anybody asks for gauges */
        c->due[DUE_GAUGE] = clock_after(boot, COMMITTER_GAUGE_US);
    if (c->at > 0)
        c->due[DUE_SWEEP] = c->due[DUE_GAUGE] = CLOCK_NEVER;
    else
        c->due[DUE_JOIN] = CLOCK_NEVER;
    c->registered = c->at > 0;
    atomic_init(&c->takes_keys, c->at == 0);
    store->committers[store->n++] = c;
    return c;
}

void committer_free(struct committer *c)
{
    struct store_op *op;
    batch_queue_front(c, &c->locked);
    while ((op = list_pop(&c->queue))) {
        op->result.status = STORE_DOWN;
        batch_end_op(op);
    }
    waiters_fini(&c->waiters);
    rowset_fini(&c->rows);
    buf_fini(&c->decisions);
    buf_fini(&c->odd_rows);
    buf_fini(&c->held_rows);
    c->backend->ops->close(c->backend);
    cond_fini(&c->cond);
    mutex_fini(&c->mutex);
    mem_free(c);
}

enum backend_status committer_register(struct committer *c)
{
    struct backend_read read;
    enum backend_status status = rowset_load(&c->rows, c->backend, &read);
    if (status != BACKEND_OK)
        return status;
    publish_time(c, &read);
    struct backend_save save = {.registers = c->store->config.role != STORE_COMMAND};
    committer_note_forgets(c, read.forgets);
    note_highest(c, &read);
    atomic_store(&c->seen_at, read.boot);
    status = c->backend->ops->save(c->backend, &save);
    mutex_lock(&c->mutex);
    c->counts = save.counts;
    c->terms = read.terms;
    mutex_unlock(&c->mutex);
    committer_note_epoch(c, read.terms.epoch);
    if (status == BACKEND_FULL) {
        move_state(c, COMMITTER_NO_SPACE);
        c->due[DUE_WRITE] = clock_after(read.boot, COMMITTER_RETRY_US);
    }
    if (status != BACKEND_OK)
        return status;
    c->registered = save.registers;
    return rest_backend(c);
}
