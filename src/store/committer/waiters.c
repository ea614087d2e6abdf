/* SPDX-License-Identifier: Apache-2.0 */
#include "store/committer/waiters.h"

#include "base/check.h"
#include "base/mem.h"

bool waiters_init(struct waiters *waiters, size_t max, size_t max_per_key)
{
    *waiters = (struct waiters){.max = max, .max_per_key = max_per_key};
    return waiters_make_room(waiters, max);
}

bool waiters_make_room(struct waiters *waiters, size_t max)
{
    if (waiters->heap && max <= waiters->room)
        return true;
    struct store_op **heap = mem_realloc(waiters->heap, (max + 1) * sizeof *heap);
    if (!heap)
        return false;
    waiters->heap = heap;
    waiters->room = max;
    return true;
}

void waiters_limit(struct waiters *waiters, size_t max, size_t max_per_key)
{
    CHECK(max <= waiters->room);
    waiters->max = max;
    waiters->max_per_key = max_per_key;
}

void waiters_fini(struct waiters *waiters)
{
    CHECK(waiters->n == 0);
    mem_free(waiters->heap);
}

static size_t waiter_bucket_of(const struct digest *key)
{
    uint64_t word;
    memcpy(&word, key->bytes, sizeof word);
    return word % WAITERS_BUCKETS;
}

/* The link to the oldest of a key; NULL is in it where none waits. */
static struct store_op **find_oldest(struct waiters *waiters, const struct digest *key)
{
    struct store_op **link = &waiters->buckets[waiter_bucket_of(key)];
    while (*link && !digest_eq(&(*link)->key_hash, key))
        link = &(*link)->own.other_key;
    return link;
}

static void append_to_key(struct store_op **link, struct store_op *op)
{
    struct store_op *first = *link ? *link : op;
    op->own.key_next = op->own.other_key = NULL;
    op->own.key_prev = first->own.key_prev;
    if (first == op)
        op->own.same_key = 0;
    else
        op->own.key_prev->own.key_next = op;
    *link = first;
    first->own.key_prev = op;
    first->own.same_key++;
}

static void remove_from_key(struct store_op **link, struct store_op *op)
{
    struct store_op *first = *link, *next = op->own.key_next;
    CHECK(first && first->own.same_key > 0);
    first->own.same_key--;
    if (op != first)
        op->own.key_prev->own.key_next = next;
    if (next || op != first)
        (next ? next : first)->own.key_prev = op->own.key_prev;
    if (op != first)
        return;
    *link = next ? next : op->own.other_key;
    if (next) {
        next->own.same_key = op->own.same_key;
        next->own.other_key = op->own.other_key;
    }
}

static void heap_set(struct waiters *waiters, size_t at, struct store_op *op)
{
    waiters->heap[at] = op;
    op->own.heap_index = at;
}

static void heap_up(struct waiters *waiters, size_t at)
{
    struct store_op *op = waiters->heap[at];
    while (at > 0 && waiters->heap[(at - 1) / 2]->own.wake_at > op->own.wake_at) {
        heap_set(waiters, at, waiters->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    heap_set(waiters, at, op);
}

static void heap_down(struct waiters *waiters, size_t at)
{
    struct store_op *op = waiters->heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= waiters->n)
            break;
        if (child + 1 < waiters->n &&
            waiters->heap[child + 1]->own.wake_at < waiters->heap[child]->own.wake_at)
            child++;
        if (waiters->heap[child]->own.wake_at >= op->own.wake_at)
            break;
        heap_set(waiters, at, waiters->heap[child]);
        at = child;
    }
    heap_set(waiters, at, op);
}

bool waiters_add(struct waiters *waiters, struct store_op *op)
{
    CHECK(op->kind == STORE_BEGIN && waiters->max <= waiters->room);
    if (waiters->n >= (op->own.waits ? waiters->room : waiters->max))
        return false;
    struct store_op **link = find_oldest(waiters, &op->key_hash);
    size_t same_key = *link ? (*link)->own.same_key : 0;
    if (!op->own.waits && same_key >= waiters->max_per_key)
        return false;
    append_to_key(link, op);
    heap_set(waiters, waiters->n++, op);
    heap_up(waiters, op->own.heap_index);
    return true;
}

void waiters_remove(struct waiters *waiters, struct store_op *op)
{
    remove_from_key(find_oldest(waiters, &op->key_hash), op);
    size_t at = op->own.heap_index;
    CHECK(at < waiters->n && waiters->heap[at] == op);
    struct store_op *last = waiters->heap[--waiters->n];
    if (last == op)
        return;
    heap_set(waiters, at, last);
    heap_up(waiters, at);
    heap_down(waiters, last->own.heap_index);
}

const struct store_op *waiters_first(const struct waiters *waiters, const struct digest *key)
{
    const struct store_op *op = waiters->n > 0 ? waiters->buckets[waiter_bucket_of(key)] : NULL;
    while (op && !digest_eq(&op->key_hash, key))
        op = op->own.other_key;
    return op;
}

const struct store_op *waiters_after(const struct store_op *op)
{
    return op->own.key_next;
}

/* What is held by somebody's transaction has no row to look at. */
size_t waiters_watch(const struct waiters *waiters, struct backend_watch *ret_watches, size_t most)
{
    size_t n = 0;
    for (size_t i = 0; i < waiters->n && n < most; i++) {
        const struct store_op *op = waiters->heap[i];
        if (op->result.row != 0 && waiters_first(waiters, &op->key_hash) == op)
            ret_watches[n++] = (struct backend_watch){
                .key = op->key_hash, .row = op->result.row, .token = op->result.record.token};
    }
    return n;
}

struct store_op *waiters_take_key(struct waiters *waiters, const struct digest *key)
{
    struct store_op *op = *find_oldest(waiters, key);
    if (op)
        waiters_remove(waiters, op);
    return op;
}

struct store_op *waiters_due(const struct waiters *waiters, int64_t now_us)
{
    bool any = waiters->n > 0 && waiters->heap[0]->own.wake_at <= now_us;
    return any ? waiters->heap[0] : NULL;
}

struct store_op *waiters_take_any(struct waiters *waiters)
{
    return waiters->n > 0 ? waiters_take_key(waiters, &waiters->heap[0]->key_hash) : NULL;
}

int64_t waiters_next(const struct waiters *waiters)
{
    return waiters->n > 0 ? waiters->heap[0]->own.wake_at : CLOCK_NEVER;
}
