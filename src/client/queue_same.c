/* SPDX-License-Identifier: Apache-2.0 */
/* Whether an operation that sends the same was added a short while ago under another key. */
#include "base/check.h"
#include "client/fields.h"
#include "client/operation.h"
#include "client/queue.h"
#include "client/request.h"
#include "store/rows.h"
#include "store/tables/tasks.h"
#include <stdio.h>

#define NAMING_MAX (CLIENT_BODY_MAX * 42) /* client_name_record */

/* Over the hashes that its record has. */
static bool hash_operation(const struct queue_operation *operation, struct digest *ret_hash)
{
    ARENA_AUTO struct arena arena = arena_make(NAMING_MAX);
    struct headers *headers = arena_alloc(&arena, sizeof *headers);
    struct attempt *attempt = arena_alloc(&arena, sizeof *attempt);
    struct client_operation made = {
        .method = queue_method(operation), .headers = headers, .body = operation->body};
    struct digest both[2];
    const char *problem;
    if (!headers || !attempt || !client_fields_split(operation->fields, headers) ||
        !url_read(operation->url, &made.url, &problem) ||
        !client_name_record(&made, &arena, attempt))
        return false;
    both[0] = attempt->begin.payload_hash;
    both[1] = attempt->begin.target_hash;
    *ret_hash = digest_of(slice_make((const char *)both, sizeof both));
    return true;
}

/* A look for one operation. */
struct look {
    struct rows rows;
    struct slice key;
    struct digest wanted;
};

/* What it sends may have been edited since. */
static enum store_status still_sends_it(struct look *look, int64_t id, bool *ret_same)
{
    struct store_request request;
    struct queue_operation operation;
    struct digest now;
    enum store_status status = rows_by_id(&look->rows, &request_table, id, &request.row);
    *ret_same = false;
    if (request.row.id == 0)
        return status;
    operation = (struct queue_operation){
        .method = request.method, .url = request.url, .fields = request.fields};
    if (!store_request_unpack(&request, CLIENT_BODY_MAX, look->rows.arena, &operation.body) ||
        !hash_operation(&operation, &now))
        return STORE_NO_MEMORY;
    *ret_same = digest_eq(&now, &look->wanted);
    return STORE_DONE;
}

static void tell_same(const struct store_same *there, const struct store_task *task,
                      struct queue_added *ret_added)
{
    *ret_added = (struct queue_added){
        .end = QUEUE_SAME, .id = there->task, .state = task ? task->task.state : TASK_DONE};
    if (task)
        snprintf(ret_added->key, sizeof ret_added->key, "%.*s", SLICE_ARG(task->key));
}

/* Reports it if it holds what is added. One that was swept does as long as its window lasts; one
 * that has the same key shows itself when that is saved. `*ret_stands`: its row is to stay. */
static enum store_status judge_same(struct look *look, const struct store_same *there, int64_t now,
                                    struct queue_added *ret_added, bool *ret_stands)
{
    struct store_task found;
    enum store_status status = rows_by_id(&look->rows, &task_table, there->task, &found.row);
    const struct store_task *task = found.row.id != 0 ? &found : NULL;
    bool in_window = now < there->until;
    *ret_stands = in_window && !task;
    if (status == STORE_DONE && task && (in_window || task->task.state < TASK_DONE) &&
        task->task.state != TASK_DROPPED)
        status = still_sends_it(look, there->task, ret_stands);
    if (status == STORE_DONE && *ret_stands && !(task && slice_eq(task->key, look->key)))
        tell_same(there, task, ret_added);
    return status;
}

enum store_status queue_same_find(struct store *store, const struct queue_operation *operation,
                                  struct parker *parker, struct queue_same *same,
                                  struct queue_added *ret_added)
{
    struct look look = {.rows = {.store = store, .parker = parker, .arena = same->arena},
                        .key = operation->key};
    bool stands = false;
    CHECK(same->window_us > 0 && same->arena);
    if (!hash_operation(operation, &look.wanted))
        return STORE_NO_MEMORY;
    struct slice hash =
        arena_copy(same->arena, slice_make((const char *)look.wanted.bytes, DIGEST_SIZE));
    same->row = (struct store_same){.hash = hash};
    struct store_same there = same->row;
    enum store_status status = rows_find_one(&look.rows, &same_table, &there.row);
    int64_t now = look.rows.now;
    same->row.until = clock_after(now, same->window_us);
    if (there.row.id == 0)
        return status;
    status = judge_same(&look, &there, now, ret_added, &stands);
    if (status != STORE_DONE || stands)
        return status;
    rows_put(&look.rows, TABLE_REMOVE, &same_table, &there.row, NULL);
    return rows_save(&look.rows);
}
