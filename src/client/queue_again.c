/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a list that is added is one that was added before. Declared in queue.h. */
#include "base/compress.h"
#include "base/url.h"
#include "client/operation.h"
#include "client/queue.h"
#include "client/undo.h"
#include "store/find.h"
#include <stdio.h>

#define TIMEOUT_US (30 * CLOCK_US_PER_S) /* for one operation of the store */
#define ARENA_MAX ((size_t)512 * 1024 * 1024)
#define LANE_MAX ((size_t)1024)

struct comparing {
    struct store *store;
    struct parker *parker;
    struct arena arena;
    struct compress compress;
    int64_t list; /* of the steps so far; 0: none was found */
};

static enum store_status find(struct comparing *comparing, const struct table_query *query,
                              struct store_found *ret_found)
{
    *ret_found = (struct store_found){.arena = &comparing->arena};
    return store_find_rows(comparing->store, query, comparing->parker,
                           clock_after(clock_boot_us(), TIMEOUT_US), ret_found);
}

static enum store_status find_step(struct comparing *comparing,
                                   const struct queue_operation *operation,
                                   const struct store_task **ret_task)
{
    BUF_AUTO struct buf lane = buf_make(LANE_MAX);
    struct store_found found = {0};
    struct url url;
    const char *problem;
    *ret_task = NULL;
    if (operation->key.len == 0 || !url_read(operation->url, &url, &problem))
        return STORE_DONE;
    url_write_origin(&lane, &url);
    const struct store_task like = {
        .kind = SLICE(QUEUE_KIND), .lane = buf_slice(&lane), .key = operation->key};
    const struct table_query query = {.table = &task_table,
                                      .by = TABLE_BY_INDEX,
                                      .index = &task_indexes[TASK_BY_KEY],
                                      .prefix = 3,
                                      .like = &like.row,
                                      .limit = 1};
    enum store_status status = find(comparing, &query, &found);
    if (status == STORE_DONE && found.n == 1)
        *ret_task = (const struct store_task *)found.rows[0];
    return status;
}

static bool has_body(struct comparing *comparing, const struct store_request *request,
                     struct slice body)
{
    BUF_AUTO struct buf unpacked = buf_make(SIZE_MAX);
    if (!request->packed)
        return slice_eq(request->body, body);
    return compress_unpack(&comparing->compress, request->body, body.len, &unpacked) &&
           slice_eq(buf_slice(&unpacked), body);
}

/* Of an undo that was filled in since, only that there is one. */
static bool has_undo(const struct store_request *request, struct slice undo)
{
    return undo_is_marked(request->undo) ? undo.len > 0 : slice_eq(request->undo, undo);
}

static bool is_same(struct comparing *comparing, const struct queue_operation *operation,
                    const struct store_request *request)
{
    struct slice method = operation->method.len > 0 ? operation->method
                          : operation->has_body     ? SLICE("POST")
                                                    : SLICE("GET");
    return slice_eq(request->method, method) && slice_eq(request->url, operation->url) &&
           slice_eq(request->fields, operation->fields) &&
           slice_eq(request->answers, queue_answers(operation, &comparing->arena)) &&
           has_body(comparing, request, operation->body) && has_undo(request, operation->undo);
}

/* `*ret_same`: it is that step of the list that those before it are of. */
static enum store_status compare_step(struct comparing *comparing,
                                      const struct queue_operation *operation, int64_t step,
                                      struct queue_added *added, bool *ret_same)
{
    const struct store_task *task = NULL;
    struct store_found found = {0};
    *ret_same = false;
    enum store_status status = find_step(comparing, operation, &task);
    if (!task)
        return status;
    comparing->list = comparing->list == 0 ? task->list_id : comparing->list;
    *added =
        (struct queue_added){.end = QUEUE_KNOWN, .id = task->row.id, .state = task->task.state};
    snprintf(added->key, sizeof added->key, "%.*s", SLICE_ARG(task->key));
    const struct table_query query = {
        .table = &request_table, .after = task->row.id - 1, .limit = 1};
    status = find(comparing, &query, &found);
    *ret_same = status == STORE_DONE && found.n == 1 && found.rows[0]->id == task->row.id &&
                task->list_id != 0 && task->list_id == comparing->list && task->step == step &&
                task->lasts_us == operation->lasts_us &&
                is_same(comparing, operation, (const struct store_request *)found.rows[0]);
    return status;
}

/* Whether the list says the same of its services. */
static enum store_status says_same(struct comparing *comparing, bool dedupes, bool *ret_same)
{
    struct store_found found = {0};
    const struct table_query query = {
        .table = &task_list_table, .after = comparing->list - 1, .limit = 1};
    enum store_status status = find(comparing, &query, &found);
    bool is_there = status == STORE_DONE && found.n == 1 && found.rows[0]->id == comparing->list;
    const struct store_task_list *list =
        is_there ? (const struct store_task_list *)found.rows[0] : NULL;
    *ret_same = list && slice_starts(list->deduping, SLICE(QUEUE_LIST_DEDUPES)) == dedupes;
    return status;
}

static enum store_status has_step(struct comparing *comparing, int64_t step, bool *ret_has)
{
    struct store_found found = {0};
    const struct store_task like = {.list_id = comparing->list, .step = step};
    const struct table_query query = {.table = &task_table,
                                      .by = TABLE_BY_INDEX,
                                      .index = &task_indexes[TASK_BY_STEP],
                                      .prefix = 2,
                                      .like = &like.row,
                                      .limit = 1};
    enum store_status status = find(comparing, &query, &found);
    *ret_has = found.n > 0;
    return status;
}

enum store_status queue_find_list(struct store *store, const struct queue_adding *adding,
                                  struct parker *parker, struct queue_list *list)
{
    struct comparing comparing = {.store = store, .parker = parker, .arena = arena_make(ARENA_MAX)};
    enum store_status status = STORE_DONE;
    bool same = true, has_more = false;
    for (size_t i = 0; i < adding->n && same && status == STORE_DONE; i++)
        status = compare_step(&comparing, &adding->operations[i], (int64_t)i + 1, &adding->added[i],
                              &same);
    if (same && status == STORE_DONE)
        status = has_step(&comparing, (int64_t)adding->n + 1, &has_more);
    if (same && status == STORE_DONE)
        status = says_same(&comparing, list->dedupes, &same);
    list->id = same && !has_more ? comparing.list : 0;
    arena_fini(&comparing.arena);
    compress_fini(&comparing.compress);
    return status;
}
