/* SPDX-License-Identifier: Apache-2.0 */
/* The committer's door: submit, withdraw, configure, from any thread. */
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
static bool committer_answers(const struct store *c)
{
    enum committer_state state = committer_state(c);
    if (state == COMMITTER_DEAD || state == COMMITTER_AWAY)
        return false;
    int64_t busy_since = atomic_load(&c->busy_since);
    return busy_since == 0 || clock_boot_us() - busy_since < atomic_load(&c->timeout_us);
}

bool store_is_up(const struct store *c)
{
    return committer_answers(c) && !atomic_load(&c->low_on_space) &&
           clock_boot_us() >= atomic_load(&c->full_until);
}

static void refuse_op(struct store_op *op, enum store_status status)
{
    op->result.status = status;
    atomic_store_explicit(&op->own.state, OP_ENDED, memory_order_release);
}

void store_submit(struct store *c, struct store_op *op)
{
    op->own = (struct store_links){.named = op->key_hash};
    op->result = (struct store_result){0};
    CHECK(op->n_brings <= TABLE_BRINGS_MAX && (op->n_brings == 0 || op->brings));
    for (size_t i = 0; i < op->n_brings; i++) {
        op->brings[i].version = 0;
        op->brings[i].is_stale = false;
    }
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
    if (dead || (op_may_be_refused(op) && (c->queue.n >= c->config.max_queued || stopping))) {
        mutex_unlock(&c->mutex);
        refuse_op(op, dead ? STORE_DEAD : stopping ? STORE_DOWN : STORE_LIMITED);
        return;
    }
    atomic_store_explicit(&op->own.state, OP_QUEUED, memory_order_relaxed);
    list_append(&c->queue, op);
    bool wake = c->wakes_at > 0 && c->queue.n >= c->wakes_at;
    c->wakes_at = wake ? 0 : c->wakes_at;
    mutex_unlock(&c->mutex);
    if (wake)
        cond_signal(&c->cond);
}

bool store_withdraw(struct store *c, struct store_op *op, bool only_waiting)
{
    mutex_lock(&c->mutex);
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

bool store_make_room(struct store *c, const struct store_limits *limits)
{
    mutex_lock(&c->mutex);
    bool made = waiters_make_room(&c->waiters, limits->max_waiting);
    mutex_unlock(&c->mutex);
    return made;
}

void store_configure(struct store *c, const struct store_limits *limits)
{
    mutex_lock(&c->mutex);
    waiters_limit(&c->waiters, limits->max_waiting, limits->max_waiting_per_key);
    mutex_unlock(&c->mutex);
    atomic_store(&c->timeout_us, limits->timeout_us);
    atomic_store(&c->disk_reserve, limits->disk_reserve);
}
