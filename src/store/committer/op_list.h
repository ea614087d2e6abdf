/* SPDX-License-Identifier: Apache-2.0 */
/* op_list: operations, their states, and lists of them linked through themselves. Not locked. */
#ifndef PAWL_STORE_OP_LIST_H
#define PAWL_STORE_OP_LIST_H

#include "base/check.h"
#include "store/op.h"

/* Where an operation is; store.h draws it. */
enum op_state { OP_NEW, OP_QUEUED, OP_TAKEN, OP_WAITING, OP_LOCKED, OP_ENDED };

/* Asks, or may claim: nothing has happened by it yet, and its owner asks again. All others say what
 * has happened, and must be stored. */
static inline bool op_may_be_refused(const struct store_op *op)
{
    static const unsigned asks = 1U << STORE_BEGIN | 1U << STORE_ROWS | 1U << STORE_LOOK |
                                 1U << STORE_LIST | 1U << STORE_QUERY;
    return asks >> op->kind & 1;
}

struct op_list {
    struct store_op *first;
    struct store_op *last;
    size_t n;
};

static inline void list_append(struct op_list *list, struct store_op *op)
{
    op->own.next = NULL;
    op->own.prev = list->last;
    *(list->last ? &list->last->own.next : &list->first) = op;
    list->last = op;
    list->n++;
}

/* An outcome goes into `list`, behind the last one whose row does not come after its own; any other
 * operation to the end of `others`. */
static inline void list_add_outcome(struct op_list *list, struct op_list *others,
                                    struct store_op *op)
{
    if (op->kind != STORE_FINISH) {
        list_append(others, op);
        return;
    }
    struct store_op *after = list->last;
    while (after && after->row_hint > op->row_hint)
        after = after->own.prev;
    op->own.prev = after;
    op->own.next = after ? after->own.next : list->first;
    *(op->own.next ? &op->own.next->own.prev : &list->last) = op;
    *(after ? &after->own.next : &list->first) = op;
    list->n++;
}

static inline void list_remove(struct op_list *list, struct store_op *op)
{
    CHECK(list->n > 0);
    *(op->own.prev ? &op->own.prev->own.next : &list->first) = op->own.next;
    *(op->own.next ? &op->own.next->own.prev : &list->last) = op->own.prev;
    list->n--;
}

/* The first one, taken out; NULL: empty. */
static inline struct store_op *list_pop(struct op_list *list)
{
    struct store_op *op = list->first;
    if (op)
        list_remove(list, op);
    return op;
}

/* Puts `front` before everything in `list`, in its own order; `front` is empty afterwards. */
static inline void list_prepend(struct op_list *list, struct op_list *front)
{
    if (front->n == 0)
        return;
    front->last->own.next = list->first;
    *(list->first ? &list->first->own.prev : &list->last) = front->last;
    list->first = front->first;
    list->n += front->n;
    *front = (struct op_list){0};
}

#endif
