/* SPDX-License-Identifier: Apache-2.0 */
/* The committers' door: submit, withdraw, configure, from any thread. */
#include "store/committer/committer.h"
#include "store/store.h"

bool store_op_ended(const struct store_op *op)
{
    return atomic_load_explicit(&op->own.state, memory_order_acquire) == OP_ENDED;
}

bool store_op_waits(const struct store_op *op)
{
    return atomic_load_explicit(&op->own.state, memory_order_acquire) == OP_WAITING;
}

/* Whether it reads at least: what it holds is replayed also while there is no space. */
static bool committer_answers(const struct committer *c)
{
    enum committer_state state = committer_state(c);
    if (state == COMMITTER_DEAD || state == COMMITTER_AWAY)
        return false;
    int64_t busy_since = atomic_load(&c->busy_since);
    return busy_since == 0 || clock_boot_us() - busy_since < atomic_load(&c->store->timeout_us);
}

bool store_is_up(const struct store *store)
{
    const struct committer *first = store->committers[0];
    return committer_answers(first) && !atomic_load(&first->low_on_space) &&
           clock_boot_us() >= atomic_load(&first->full_until);
}

/* ---- which committer ---- */

/* What is about one record, and brings no rows of modules. */
static bool op_goes_by_key(const struct store_op *op)
{
    static const unsigned others = 1U << STORE_LIST | 1U << STORE_QUERY | 1U << STORE_ROWS;
    return op->n_brings == 0 && !(others >> op->kind & 1);
}

static struct committer *committer_for(const struct store *store, const struct store_op *op)
{
    size_t active = atomic_load(&store->active);
    if (active == 1 || !op_goes_by_key(op))
        return store->committers[0];
    struct committer *c = store->committers[op->key_hash.bytes[0] % active];
    return atomic_load(&c->takes_keys) && committer_answers(c) ? c : store->committers[0];
}

/* The one whose it is, with its mutex held: it may go to another until then. */
static struct committer *lock_committer_of(struct store *store, const struct store_op *op)
{
    for (;;) {
        size_t at = atomic_load(&op->own.committer);
        struct committer *c = store->committers[at];
        mutex_lock(&c->mutex);
        if (atomic_load(&op->own.committer) == at)
            return c;
        mutex_unlock(&c->mutex);
    }
}

/* ---- the calls ---- */

static void refuse_op(struct store_op *op, enum store_status status)
{
    op->result.status = status;
    atomic_store_explicit(&op->own.state, OP_ENDED, memory_order_release);
}

static void queue_op(struct committer *c, struct store_op *op)
{
    if (committer_state(c) == COMMITTER_DEAD) {
        refuse_op(op, STORE_DEAD);
        return;
    }
    if (op_may_be_refused(op) && !committer_answers(c)) {
        refuse_op(op, STORE_DOWN);
        return;
    }
    mutex_lock(&c->mutex);
    bool stopping = c->stopping;
    /* Looked at again: what is queued after batch_end_dead would never end. */
    bool dead = committer_state(c) == COMMITTER_DEAD;
    if (dead ||
        (op_may_be_refused(op) && (c->queue.n >= c->store->config.max_queued || stopping))) {
        mutex_unlock(&c->mutex);
        refuse_op(op, dead ? STORE_DEAD : stopping ? STORE_DOWN : STORE_LIMITED);
        return;
    }
    atomic_store_explicit(&op->own.state, OP_QUEUED, memory_order_relaxed);
    atomic_store_explicit(&op->own.committer, c->at, memory_order_relaxed);
    list_append(&c->queue, op);
    bool wake = committer_takes_signal(c, c->queue.n >= c->wakes_at);
    mutex_unlock(&c->mutex);
    if (wake)
        cond_signal(&c->cond);
}

void store_submit(struct store *store, struct store_op *op)
{
    op->own = (struct store_links){.named = op->key_hash};
    op->result = (struct store_result){0};
    CHECK(op->n_brings <= TABLE_BRINGS_MAX && (op->n_brings == 0 || op->brings));
    for (size_t i = 0; i < op->n_brings; i++) {
        op->brings[i].version = 0;
        op->brings[i].is_stale = false;
    }
    queue_op(committer_for(store, op), op);
}

bool store_withdraw(struct store *store, struct store_op *op, bool only_waiting)
{
    struct committer *c = lock_committer_of(store, op);
    int state = atomic_load_explicit(&op->own.state, memory_order_relaxed);
    if ((state == OP_QUEUED || state == OP_LOCKED) && (only_waiting || op->own.unsure))
        state = OP_TAKEN;
    if (state == OP_QUEUED)
        list_remove(&c->queue, op);
    else if (state == OP_LOCKED)
        list_remove(&c->locked, op);
    else if (state == OP_WAITING)
        waiters_remove(&c->waiters, op);
    mutex_unlock(&c->mutex);
    if (state == OP_TAKEN || state == OP_ENDED)
        return false;
    op->result.status = STORE_WITHDRAWN;
    atomic_store_explicit(&op->own.state, OP_ENDED, memory_order_relaxed);
    return true;
}

bool store_make_room(struct store *store, const struct store_limits *limits)
{
    bool made = true;
    for (size_t i = 0; i < store->n; i++) {
        struct committer *c = store->committers[i];
        mutex_lock(&c->mutex);
        made = waiters_make_room(&c->waiters, limits->max_waiting) && made;
        mutex_unlock(&c->mutex);
    }
    return made;
}

void store_configure(struct store *store, const struct store_limits *limits)
{
    for (size_t i = 0; i < store->n; i++) {
        struct committer *c = store->committers[i];
        mutex_lock(&c->mutex);
        waiters_limit(&c->waiters, limits->max_waiting, limits->max_waiting_per_key);
        mutex_unlock(&c->mutex);
    }
    atomic_store(&store->timeout_us, limits->timeout_us);
    atomic_store(&store->disk_reserve, limits->disk_reserve);
}
