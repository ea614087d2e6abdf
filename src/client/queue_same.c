/* SPDX-License-Identifier: Apache-2.0 */
/* Whether an operation that sends the same was added a short while ago under another key. */
#include "base/compress.h"
#include "client/fields.h"
#include "client/operation.h"
#include "client/queue.h"
#include "client/request.h"
#include "store/find.h"
#include "store/tasks.h"
#include <stdio.h>

#define TIMEOUT_US (30 * CLOCK_US_PER_S)  /* for one operation of the store */
#define NAMING_MAX (CLIENT_BODY_MAX * 42) /* client_name_record */

/* Over the hashes that its record has. */
static bool hash(const struct queue_operation *operation, struct digest *ret_hash)
{
    ARENA_AUTO struct arena arena = arena_make(NAMING_MAX);
    struct headers *headers = arena_alloc(&arena, sizeof *headers);
    struct attempt *attempt = arena_alloc(&arena, sizeof *attempt);
    struct client_operation made = {
        .method = operation->method, .headers = headers, .body = operation->body};
    struct digest both[2];
    const char *problem;
    if (made.method.len == 0)
        made.method = operation->has_body ? SLICE("POST") : SLICE("GET");
    if (!headers || !attempt || !client_fields_split(operation->fields, headers) ||
        !url_read(operation->url, &made.url, &problem) ||
        !client_name_record(&made, &arena, attempt))
        return false;
    both[0] = attempt->begin.payload_hash;
    both[1] = attempt->begin.target_hash;
    *ret_hash = digest_of(slice_make((const char *)both, sizeof both));
    return true;
}

static bool read_operation(const struct store_request *request, struct arena *arena,
                           struct queue_operation *ret_operation)
{
    COMPRESS_AUTO struct compress compress = {0};
    BUF_AUTO struct buf body = buf_make(SIZE_MAX);
    *ret_operation = (struct queue_operation){.method = request->method,
                                              .url = request->url,
                                              .fields = request->fields,
                                              .body = request->body};
    if (!request->packed)
        return true;
    if (!compress_unpack(&compress, request->body, CLIENT_BODY_MAX, &body))
        return false;
    ret_operation->body = arena_copy(arena, buf_slice(&body));
    return ret_operation->body.at;
}

/* A look for one operation. */
struct look {
    struct store *store;
    struct parker *parker;
    struct arena *arena;
    struct slice key;
    struct digest wanted;
};

static enum store_status find(const struct look *look, const struct table_query *query,
                              struct store_found *ret_found)
{
    *ret_found = (struct store_found){.arena = look->arena};
    return store_find_rows(look->store, query, look->parker,
                           clock_after(clock_boot_us(), TIMEOUT_US), ret_found);
}

/* The row with this id, which is no key of it. NULL: it is gone. */
static enum store_status find_by_id(const struct look *look, const struct table *table, int64_t id,
                                    const struct table_row **ret_row)
{
    struct table_query query = {.table = table, .after = id - 1, .limit = 1};
    struct store_found found;
    enum store_status status = find(look, &query, &found);
    bool is_there = status == STORE_DONE && found.n == 1 && found.rows[0]->id == id;
    *ret_row = is_there ? found.rows[0] : NULL;
    return status;
}

/* What it sends may have been edited since. */
static enum store_status still_sends_it(const struct look *look, int64_t id, bool *ret_same)
{
    const struct table_row *request;
    struct queue_operation operation;
    struct digest now;
    enum store_status status = find_by_id(look, &request_table, id, &request);
    *ret_same = false;
    if (status != STORE_DONE || !request)
        return status;
    if (!read_operation((const struct store_request *)request, look->arena, &operation) ||
        !hash(&operation, &now))
        return STORE_NO_MEMORY;
    *ret_same = digest_eq(&now, &look->wanted);
    return STORE_DONE;
}

static void report(const struct store_same *there, const struct store_task *task,
                   struct queue_added *ret_added)
{
    *ret_added = (struct queue_added){
        .end = QUEUE_SAME, .id = there->task, .state = task ? task->task.state : TASK_DONE};
    if (task)
        snprintf(ret_added->key, sizeof ret_added->key, "%.*s", SLICE_ARG(task->key));
}

/* Reports it if it holds what is added. One that was swept does as long as its window lasts; one
 * that has the same key shows itself when that is saved. `*ret_stands`: its row is to stay. */
static enum store_status judge(const struct look *look, const struct store_same *there, int64_t now,
                               struct queue_added *ret_added, bool *ret_stands)
{
    const struct table_row *row;
    enum store_status status = find_by_id(look, &task_table, there->task, &row);
    const struct store_task *task = (const struct store_task *)row;
    bool in_window = now < there->until;
    *ret_stands = in_window && !task;
    if (status == STORE_DONE && task && (in_window || task->task.state < TASK_DONE) &&
        task->task.state != TASK_DROPPED)
        status = still_sends_it(look, there->task, ret_stands);
    if (status == STORE_DONE && *ret_stands && !(task && slice_eq(task->key, look->key)))
        report(there, task, ret_added);
    return status;
}

static enum store_status forget(const struct look *look, struct store_same *same)
{
    struct table_change change = {.table = &same_table, .act = TABLE_REMOVE, .row = &same->row};
    struct store_op op = {.kind = STORE_ROWS, .brings = &change, .n_brings = 1};
    store_run(look->store, &op, look->parker, clock_after(clock_boot_us(), TIMEOUT_US));
    return op.status;
}

enum store_status queue_same_find(struct store *store, const struct queue_operation *operation,
                                  struct parker *parker, struct queue_same *same,
                                  struct queue_added *ret_added)
{
    struct look look = {
        .store = store, .parker = parker, .arena = same->arena, .key = operation->key};
    struct store_found found;
    bool stands = false;
    if (!hash(operation, &look.wanted))
        return STORE_NO_MEMORY;
    struct slice hash =
        arena_copy(same->arena, slice_make((const char *)look.wanted.bytes, DIGEST_SIZE));
    same->row = (struct store_same){.hash = hash};
    struct table_query query = {
        .table = &same_table, .by = TABLE_BY_KEY, .like = &same->row.row, .limit = 1};
    enum store_status status = find(&look, &query, &found);
    same->row.until = clock_after(found.now, same->window_us);
    if (status != STORE_DONE || found.n == 0)
        return status;
    struct store_same there = *(const struct store_same *)found.rows[0];
    status = judge(&look, &there, found.now, ret_added, &stands);
    return status != STORE_DONE || stands ? status : forget(&look, &there);
}
