/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a list that is added is one that was added before. Declared in queue.h. */
#include "base/check.h"
#include "base/text/url.h"
#include "client/operation.h"
#include "client/queue.h"
#include "client/undo.h"
#include "store/rows.h"
#include <stdio.h>

#define ARENA_MAX ((size_t)512 * 1024 * 1024)

struct comparing {
    struct rows rows;
    int64_t list; /* of the steps so far; 0: none was found */
};

/* Its id is 0: there is none. */
static enum store_status find_step(struct comparing *comparing,
                                   const struct queue_operation *operation,
                                   struct store_task *ret_task)
{
    struct url url;
    const char *problem;
    ret_task->row.id = 0;
    if (operation->key.len == 0 || !url_read(operation->url, &url, &problem))
        return STORE_DONE;
    const struct store_task like = {.kind = SLICE(QUEUE_KIND),
                                    .lane = queue_lane(&url, comparing->rows.arena),
                                    .key = operation->key};
    const struct table_query query = {.table = &task_table,
                                      .by = TABLE_BY_INDEX,
                                      .index = &task_indexes[TASK_BY_KEY],
                                      .prefix = 3,
                                      .like = &like.row};
    return rows_find_first(&comparing->rows, &query, &ret_task->row);
}

static bool has_body(const struct comparing *comparing, const struct store_request *request,
                     struct slice body)
{
    struct slice there;
    return store_request_unpack(request, body.len, comparing->rows.arena, &there) &&
           slice_eq(there, body);
}

/* Of an undo that was filled in since, only that there is one. */
static bool has_undo(const struct store_request *request, struct slice undo)
{
    return undo_is_marked(request->undo) ? undo.len > 0 : slice_eq(request->undo, undo);
}

static bool is_same_request(const struct comparing *comparing,
                            const struct queue_operation *operation,
                            const struct store_request *request)
{
    return slice_eq(request->method, queue_method(operation)) &&
           slice_eq(request->url, operation->url) && slice_eq(request->fields, operation->fields) &&
           slice_eq(request->answers, queue_answers(operation, comparing->rows.arena)) &&
           has_body(comparing, request, operation->body) && has_undo(request, operation->undo);
}

/* `*ret_same`: it is that step of the list that those before it are of. */
static enum store_status compare_step(struct comparing *comparing,
                                      const struct queue_operation *operation, int64_t step,
                                      struct queue_added *added, bool *ret_same)
{
    struct store_task task;
    struct store_request request;
    *ret_same = false;
    enum store_status status = find_step(comparing, operation, &task);
    if (task.row.id == 0)
        return status;
    comparing->list = comparing->list == 0 ? task.list_id : comparing->list;
    *added = (struct queue_added){.end = QUEUE_KNOWN, .id = task.row.id, .state = task.task.state};
    snprintf(added->key, sizeof added->key, "%.*s", SLICE_ARG(task.key));
    status = rows_by_id(&comparing->rows, &request_table, task.row.id, &request.row);
    *ret_same = request.row.id != 0 && task.list_id != 0 && task.list_id == comparing->list &&
                task.step == step && task.lasts_us == operation->lasts_us &&
                is_same_request(comparing, operation, &request);
    return comparing->rows.arena->failed ? STORE_NO_MEMORY : status;
}

/* Whether the list says the same of its services. */
static enum store_status says_same(struct comparing *comparing, bool dedupes, bool *ret_same)
{
    struct store_task_list list;
    enum store_status status =
        rows_by_id(&comparing->rows, &task_list_table, comparing->list, &list.row);
    *ret_same =
        list.row.id != 0 && slice_starts(list.deduping, SLICE(QUEUE_LIST_DEDUPES)) == dedupes;
    return status;
}

static enum store_status has_step(struct comparing *comparing, int64_t step, bool *ret_has)
{
    struct store_task there;
    const struct store_task like = {.list_id = comparing->list, .step = step};
    const struct table_query query = {.table = &task_table,
                                      .by = TABLE_BY_INDEX,
                                      .index = &task_indexes[TASK_BY_STEP],
                                      .prefix = 2,
                                      .like = &like.row};
    enum store_status status = rows_find_first(&comparing->rows, &query, &there.row);
    *ret_has = there.row.id != 0;
    return status;
}

enum store_status queue_find_list(struct store *store, const struct queue_adding *adding,
                                  struct parker *parker, struct queue_list *list)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct comparing comparing = {.rows = {.store = store, .parker = parker, .arena = &arena}};
    enum store_status status = STORE_DONE;
    bool same = true, has_more = false;
    CHECK(adding->n > 0 && adding->n <= STEPS_MOST);
    for (size_t i = 0; i < adding->n && same && status == STORE_DONE; i++)
        status = compare_step(&comparing, &adding->operations[i], (int64_t)i + 1, &adding->added[i],
                              &same);
    if (same && status == STORE_DONE)
        status = has_step(&comparing, (int64_t)adding->n + 1, &has_more);
    if (same && status == STORE_DONE)
        status = says_same(&comparing, list->dedupes, &same);
    list->id = same && !has_more ? comparing.list : 0;
    return status;
}
