/* SPDX-License-Identifier: Apache-2.0 */
#include "store/committer/handover.h"

static void add_ended(struct handed *handed, const struct batch *batch)
{
    for (const struct store_op *op = batch->decided.first; op; op = op->own.next) {
        if (!op->own.ended)
            continue;
        handed->all |= handed->n == HANDED_MOST;
        if (!handed->all)
            handed->keys[handed->n++] = op->key_hash;
    }
}

static void hand_to(struct committer *other, const struct batch *batch)
{
    mutex_lock(&other->mutex);
    add_ended(&other->handed, batch);
    bool wake = committer_takes_signal(other, other->handed.n > 0);
    mutex_unlock(&other->mutex);
    if (wake)
        cond_signal(&other->cond);
}

void handover_ended(struct committer *c, const struct batch *batch)
{
    const struct store *store = c->store;
    for (size_t i = 0; i < store->n; i++)
        if (i != c->at && atomic_load(&store->committers[i]->expects_ends))
            hand_to(store->committers[i], batch);
}

static void take_sure(struct op_list *queue, struct op_list *ret_sure)
{
    struct store_op *next = NULL;
    for (struct store_op *op = queue->first; op; op = next) {
        next = op->own.next;
        if (op->own.unsure)
            continue;
        list_remove(queue, op);
        list_append(ret_sure, op);
        atomic_store(&op->own.committer, 0);
    }
}

void handover_queue(struct committer *c)
{
    struct committer *first = c->store->committers[0];
    struct op_list sure = {0};
    CHECK(c != first);
    atomic_store(&c->takes_keys, false);
    c->due[DUE_JOIN] = 0;
    mutex_lock(&c->mutex);
    if (!c->stopping)
        take_sure(&c->queue, &sure);
    mutex_lock(&first->mutex);
    bool wake = committer_takes_signal(first, sure.n > 0);
    batch_queue_front(first, &sure);
    mutex_unlock(&first->mutex);
    mutex_unlock(&c->mutex);
    if (wake)
        cond_signal(&first->cond);
}
