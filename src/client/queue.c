/* SPDX-License-Identifier: Apache-2.0 */
#include "client/queue.h"

#include "base/check.h"
#include "base/compress/compress.h"
#include "base/mem.h"
#include "client/operation.h"
#include "store/tables/orders.h"
#include <assert.h>
#include <stdio.h>

#define ARENA_MAX ((size_t)512 * 1024 * 1024)
#define PACK_LEAST ((size_t)512)
#define LANE_MAX ((size_t)1024)

/* Each with its request and the last one of its group; or with its list, all of them. */
static_assert(3 * QUEUE_BATCH_MOST + 2 <= TABLE_BRINGS_MAX, "a batch is one commit");
static_assert(2 * STEPS_MOST + 2 <= TABLE_BRINGS_MAX, "a list is one commit");
static_assert(STEPS_MOST <= QUEUE_BATCH_MOST, "a list is a batch");
static_assert(CLIENT_KEY_SIZE <= KEY_TEXT_MAX + 1, "a key that is minted is one");

/* ---- rows ---- */

/* An operation on its way into the store. */
struct adding {
    const struct queue_operation *operation;
    struct queue_added *added;
    struct store_task task;
    struct store_request request;
    char undo_key[KEY_TEXT_MAX + 1];
};

/* What is added together. */
struct batch {
    struct rows rows;
    struct arena arena;
    struct compress compress;
    struct adding *addings;
    size_t n;
    struct store_task_list *list;              /* of which they are the steps; NULL: of none */
    struct store_task tails[QUEUE_BATCH_MOST]; /* behind which some are added */
    size_t n_tails;
    size_t most;                /* 0: any number */
    struct queue_same same;     /* without a window what they send is not compared */
    struct store_counter bound; /* read before its operations were counted */
    struct table_change changes[TABLE_BRINGS_MAX];
};

struct slice queue_lane(const struct url *url, struct arena *arena)
{
    BUF_AUTO struct buf lane = buf_make(LANE_MAX);
    url_write_origin(&lane, url);
    return arena_copy_buf(arena, &lane);
}

struct slice queue_method(const struct queue_operation *operation)
{
    return operation->method.len > 0 ? operation->method
           : operation->has_body     ? SLICE("POST")
                                     : SLICE("GET");
}

static void pack_body(struct batch *batch, struct slice body, struct store_request *request)
{
    BUF_AUTO struct buf packed = buf_make(body.len);
    request->body = body;
    request->packed = body.len >= PACK_LEAST && compress_pack(&batch->compress, body, &packed);
    if (request->packed)
        request->body = arena_copy(&batch->arena, buf_slice(&packed));
}

static void choose_key(const struct queue_operation *operation, bool dated,
                       struct queue_added *added)
{
    if (operation->key.len == 0)
        client_mint_key(dated, added->key);
    else
        snprintf(added->key, sizeof added->key, "%.*s", SLICE_ARG(operation->key));
}

struct slice queue_answers(const struct queue_operation *operation, struct arena *arena)
{
    BUF_AUTO struct buf lines = buf_make(SIZE_MAX);
    if (operation->attempts == 0 && operation->remember_us == 0)
        return operation->answers;
    buf_add_slice(&lines, operation->answers);
    if (operation->attempts > 0)
        buf_printf(&lines, "attempts=%d\n", operation->attempts);
    if (operation->remember_us > 0)
        buf_printf(&lines, "remember=%lld\n",
                   (long long)((operation->remember_us - 1) / CLOCK_US_PER_S + 1));
    return arena_copy_buf(arena, &lines);
}

static void make_rows(struct batch *batch, struct adding *adding)
{
    const struct queue_operation *operation = adding->operation;
    int64_t now = store_now(batch->rows.store);
    int64_t deadline_at =
        operation->lasts_us == 0 ? CLOCK_NEVER : clock_after(now, operation->lasts_us);
    struct url url;
    const char *problem;
    bool is_url = url_read(operation->url, &url, &problem);
    CHECK(is_url); /* queue_check */
    choose_key(operation, operation->dated, adding->added);
    adding->task = (struct store_task){.kind = SLICE(QUEUE_KIND),
                                       .lane = queue_lane(&url, &batch->arena),
                                       .key = slice_of(adding->added->key),
                                       .ord = operation->group,
                                       .lasts_us = operation->lasts_us,
                                       .skips = operation->skips,
                                       .task = {.due_at = now,
                                                .deadline_at = deadline_at,
                                                .profile = RETRY_PROFILE_queue,
                                                .created_at = now,
                                                .gone_at = CLOCK_NEVER}};
    adding->request = (struct store_request){.method = queue_method(operation),
                                             .url = operation->url,
                                             .fields = operation->fields,
                                             .answers = queue_answers(operation, &batch->arena),
                                             .undo_key = SLICE("")};
    pack_body(batch, operation->body, &adding->request);
}

static void make_step(struct batch *batch, size_t i, struct slice order)
{
    struct adding *adding = &batch->addings[i];
    CHECK(adding->operation->group.len == 0 && i < STEPS_MOST);
    make_rows(batch, adding);
    adding->task.step = (int64_t)i + 1;
    adding->task.ord = order;
    if (i > 0)
        (void)order_hold(&adding->task);
    adding->request.undo = adding->operation->undo;
    if (adding->request.undo.len == 0)
        return;
    client_mint_key(key_made_at(adding->task.key) > 0, adding->undo_key);
    adding->request.undo_key = slice_of(adding->undo_key);
}

/* ---- groups ---- */

/* Behind one that is added with it, or behind the last one that is there. */
static enum store_status place_in_group(struct batch *batch, size_t i)
{
    struct store_task *task = &batch->addings[i].task, tail = {0};
    enum store_status status = STORE_DONE;
    bool is_behind = false;
    if (task->ord.len == 0)
        return STORE_DONE;
    for (size_t before = 0; before < i && !is_behind; before++)
        is_behind = slice_eq(batch->addings[before].task.ord, task->ord);
    if (!is_behind)
        status = order_find_last(&batch->rows, task, &tail);
    CHECK(batch->n_tails <= i && i < batch->n);
    if (tail.row.id != 0)
        batch->tails[batch->n_tails++] = tail;
    if (tail.row.id != 0 || is_behind)
        (void)order_hold(task);
    return status;
}

/* ---- a bound ---- */

/* The row that every add with a bound touches: of two at the same time one counts again. */
static const struct store_counter bound_row = {.name = {"queue_bound", sizeof "queue_bound" - 1},
                                               .labels = {"", 0}};

static enum store_status read_queue_bound(struct batch *batch)
{
    batch->bound = bound_row;
    return rows_find_one(&batch->rows, &counter_table, &batch->bound.row);
}

static enum store_status count_queue_state(struct batch *batch, enum task_state state, size_t *n)
{
    struct store_task like = {.kind = SLICE(QUEUE_KIND), .task.state = state};
    size_t counted;
    struct table_query query = {.table = &task_table,
                                .by = TABLE_BY_INDEX,
                                .index = &task_indexes[TASK_BY_STATE],
                                .prefix = 2,
                                .like = &like.row,
                                .limit = batch->most};
    enum store_status status = rows_count(&batch->rows, &query, &counted);
    *n += counted;
    return status;
}

/* Whether all of them fit. */
static enum store_status find_room(struct batch *batch, bool *ret_fits)
{
    size_t n = batch->n;
    *ret_fits = true;
    if (batch->most == 0)
        return STORE_DONE;
    enum store_status status = read_queue_bound(batch);
    if (status == STORE_DONE)
        status = count_queue_state(batch, TASK_WAITING, &n);
    if (status == STORE_DONE)
        status = count_queue_state(batch, TASK_SENDING, &n);
    *ret_fits = n <= batch->most;
    return status;
}

/* ---- one commit ---- */

static enum store_status save_added(struct batch *batch)
{
    struct rows *rows = &batch->rows;
    const struct table_row *list = batch->list ? &batch->list->row : NULL;
    CHECK(batch->n > 0 && (!batch->list || batch->n_tails == 0));
    CHECK(batch->same.window_us == 0 || batch->same.row.hash.len == DIGEST_SIZE);
    rows->n = 0;
    if (batch->most > 0)
        rows_put(rows, batch->bound.row.id == 0 ? TABLE_INSERT : TABLE_TOUCH, &counter_table,
                 &batch->bound.row, NULL);
    if (batch->list)
        rows_put(rows, TABLE_INSERT, &task_list_table, &batch->list->row, NULL);
    for (size_t i = 0; i < batch->n_tails; i++)
        rows_put(rows, TABLE_TOUCH, &task_table, &batch->tails[i].row, NULL);
    for (size_t i = 0; i < batch->n; i++) {
        struct adding *adding = &batch->addings[i];
        store_task_derive(&adding->task);
        rows_put(rows, TABLE_INSERT, &task_table, &adding->task.row, list);
        rows_put(rows, TABLE_INSERT, &request_table, &adding->request.row, &adding->task.row);
    }
    if (batch->same.window_us > 0)
        rows_put(rows, TABLE_INSERT, &same_table, &batch->same.row.row,
                 &batch->addings[0].task.row);
    rows->begins = true;
    return batch->arena.failed ? STORE_NO_MEMORY : rows_save(rows);
}

static void report_batch(struct batch *batch)
{
    for (size_t i = 0; i < batch->n; i++) {
        struct queue_added *added = batch->addings[i].added;
        CHECK(batch->addings[i].task.row.id != 0);
        added->end = QUEUE_ADDED;
        added->id = batch->addings[i].task.row.id;
    }
}

static enum store_status find_same(struct batch *batch, bool *ret_found)
{
    const struct adding *adding = &batch->addings[0];
    adding->added->end = QUEUE_ADDED;
    enum store_status status =
        batch->same.window_us == 0
            ? STORE_DONE
            : queue_same_find(batch->rows.store, adding->operation, batch->rows.parker,
                              &batch->same, adding->added);
    *ret_found = adding->added->end == QUEUE_SAME;
    return status;
}

static enum store_status try_batch(struct batch *batch)
{
    bool fits = true, is_same_operation;
    enum store_status status = find_same(batch, &is_same_operation);
    if (status != STORE_DONE || is_same_operation)
        return status;
    status = find_room(batch, &fits);
    batch->n_tails = 0;
    if (status == STORE_DONE && !fits && batch->n > 1)
        return STORE_CONFLICT; /* as many as fit, one by one */
    if (status == STORE_DONE && !fits) {
        batch->addings[0].added->end = QUEUE_FULL;
        return STORE_DONE;
    }
    for (size_t i = 0; i < batch->n && status == STORE_DONE; i++) {
        make_rows(batch, &batch->addings[i]);
        status = place_in_group(batch, i);
    }
    if (status == STORE_DONE)
        status = save_added(batch);
    if (status == STORE_DONE)
        report_batch(batch);
    return status;
}

/* ---- what is there already ---- */

/* Bodies are packed alike. */
static bool is_same_operation(const struct adding *adding, const struct store_task *task,
                              const struct store_request *request)
{
    return slice_eq(adding->task.ord, task->ord) &&
           slice_eq(adding->request.method, request->method) &&
           slice_eq(adding->request.url, request->url) &&
           slice_eq(adding->request.fields, request->fields) &&
           slice_eq(adding->request.body, request->body);
}

/* Whoever did not learn whether an operation was stored adds it again, under its key. */
static enum store_status find_known(struct batch *batch, bool *ret_found)
{
    struct adding *adding = &batch->addings[0];
    struct store_task task;
    struct store_request request;
    make_rows(batch, adding);
    struct table_query query = {.table = &task_table,
                                .by = TABLE_BY_INDEX,
                                .index = &task_indexes[TASK_BY_KEY],
                                .prefix = 3,
                                .like = &adding->task.row};
    enum store_status status = rows_find_first(&batch->rows, &query, &task.row);
    *ret_found = task.row.id != 0;
    if (!*ret_found)
        return status;
    status = rows_by_id(&batch->rows, &request_table, task.row.id, &request.row);
    adding->added->id = task.row.id;
    adding->added->state = task.task.state;
    adding->added->end = request.row.id != 0 && is_same_operation(adding, &task, &request)
                             ? QUEUE_KNOWN
                             : QUEUE_OTHER;
    return status;
}

/* Somebody else changed what one of them is added behind, or its key is there. */
static enum store_status add_alone(struct batch *batch)
{
    enum store_status status = STORE_CONFLICT;
    bool is_known = false;
    while (rows_try_again(&batch->rows, &status)) {
        arena_reset(&batch->arena);
        status =
            batch->addings[0].operation->key.len > 0 ? find_known(batch, &is_known) : STORE_DONE;
        if (status == STORE_DONE && !is_known)
            status = try_batch(batch);
    }
    return status;
}

static enum store_status add_one_by_one(struct batch *batch, size_t *ret_n)
{
    struct adding *all = batch->addings;
    size_t n = batch->n;
    enum store_status status = STORE_DONE;
    batch->n = 1;
    bool is_full = false;
    for (size_t i = 0; i < n && status == STORE_DONE && !is_full; i++) {
        batch->addings = &all[i];
        status = add_alone(batch);
        *ret_n += status == STORE_DONE;
        is_full = all[i].added->end == QUEUE_FULL;
    }
    batch->addings = all;
    return status;
}

static struct batch *new_batch(struct store *store, struct parker *parker, size_t n)
{
    struct batch *batch = mem_zalloc(1, sizeof *batch);
    struct adding *addings = mem_zalloc(n, sizeof *addings);
    if (!batch || !addings) {
        mem_free(batch);
        mem_free(addings);
        return NULL;
    }
    batch->rows = (struct rows){.store = store,
                                .parker = parker,
                                .arena = &batch->arena,
                                .changes = batch->changes,
                                .most = TABLE_BRINGS_MAX};
    batch->arena = arena_make(ARENA_MAX);
    batch->addings = addings;
    batch->n = n;
    return batch;
}

static void free_batch(struct batch *batch)
{
    arena_fini(&batch->arena);
    compress_fini(&batch->compress);
    mem_free(batch->addings);
    mem_free(batch);
}

static struct batch *new_batch_of(struct store *store, struct parker *parker,
                                  struct queue_adding *adding)
{
    struct batch *batch = new_batch(store, parker, adding->n);
    adding->n_added = 0;
    if (batch) {
        batch->most = adding->most;
        batch->same = (struct queue_same){.window_us = adding->dedupe_us, .arena = &batch->arena};
    }
    for (size_t i = 0; batch && i < adding->n; i++) {
        batch->addings[i].operation = &adding->operations[i];
        batch->addings[i].added = &adding->added[i];
    }
    return batch;
}

enum store_status queue_add(struct store *store, struct queue_adding *adding, struct parker *parker)
{
    CHECK(adding->n > 0 && adding->n <= QUEUE_BATCH_MOST);
    CHECK(adding->dedupe_us == 0 || adding->n == 1);
    struct batch *batch = new_batch_of(store, parker, adding);
    if (!batch)
        return STORE_NO_MEMORY;
    enum store_status status = try_batch(batch);
    if (status == STORE_DONE)
        adding->n_added = adding->n;
    if (status == STORE_CONFLICT)
        status = add_one_by_one(batch, &adding->n_added);
    free_batch(batch);
    return status;
}

static enum store_status try_list(struct batch *batch, struct slice order)
{
    bool fits = true;
    enum store_status status = find_room(batch, &fits);
    if (status != STORE_DONE)
        return status;
    if (!fits) {
        batch->addings[0].added->end = QUEUE_FULL;
        return STORE_DONE;
    }
    for (size_t i = 0; i < batch->n; i++)
        make_step(batch, i, order);
    status = save_added(batch);
    if (status == STORE_DONE)
        report_batch(batch);
    return status;
}

enum store_status queue_add_linked(struct store *store, struct queue_adding *adding,
                                   struct parker *parker, struct queue_list *given)
{
    CHECK(adding->n > 0 && adding->n <= STEPS_MOST);
    char name[KEY_TEXT_MAX + 1], order[KEY_TEXT_MAX + sizeof QUEUE_STEPS_ORDER];
    client_mint_key(false, name);
    snprintf(order, sizeof order, "%s%s", QUEUE_STEPS_ORDER, name);
    struct batch *batch = new_batch_of(store, parker, adding);
    if (!batch)
        return STORE_NO_MEMORY;
    struct store_task_list list = {.name = slice_of(name),
                                   .state = STEPS_RUNNING,
                                   .created_at = store_now(store),
                                   .gone_at = CLOCK_NEVER,
                                   .deduping =
                                       given->dedupes ? SLICE(QUEUE_LIST_DEDUPES) : SLICE("")};
    batch->list = &list;
    enum store_status status = STORE_CONFLICT;
    while (rows_try_again(&batch->rows, &status)) {
        status = try_list(batch, slice_of(order));
        bool is_counted_again = batch->most > 0 && batch->changes[0].is_stale; /* save_added */
        if (status == STORE_CONFLICT && !is_counted_again)
            break; /* one of their keys is there */
    }
    if (status == STORE_DONE)
        adding->n_added = adding->n;
    given->id = list.row.id;
    free_batch(batch);
    return status;
}

/* ---- edit ---- */

/* Of a step of a list headers may change, while it waits. */
static enum queue_end may_edit(const struct store_task *task, bool has_body, bool force)
{
    enum task_state state = task->task.state;
    if (task->list_id != 0 && (has_body || state == TASK_DEAD))
        return QUEUE_LINKED;
    if (state == TASK_SENDING)
        return QUEUE_SENDING;
    if (!task_allows(state, TASK_EDIT))
        return QUEUE_ENDED;
    return task->task.in_doubt && has_body && !force ? QUEUE_IN_DOUBT : QUEUE_ADDED;
}

/* It sends something else, or the same with other credentials. */
static void edit_task(struct adding *adding, int64_t now)
{
    struct store_task *task = &adding->task;
    if (adding->operation->has_body) {
        choose_key(adding->operation, key_made_at(task->key) > 0, adding->added);
        task->key = slice_of(adding->added->key);
        task_edit(&task->task, now);
        return;
    }
    snprintf(adding->added->key, sizeof adding->added->key, "%.*s", SLICE_ARG(task->key));
    if (task->task.state == TASK_DEAD)
        task_retry(&task->task, false, now);
    else
        (void)task_wake(&task->task, now);
}

static enum store_status save_edit(struct batch *batch, const struct store_request *before,
                                   const struct store_actor *actor, int64_t now)
{
    struct adding *adding = &batch->addings[0];
    struct store_task *task = &adding->task;
    const struct store_task found = *task;
    edit_task(adding, now);
    store_task_derive(task);
    adding->request = *before;
    adding->request.fields = adding->operation->fields;
    if (adding->operation->has_body)
        pack_body(batch, adding->operation->body, &adding->request);
    struct store_task_audit audit = store_audit_task(actor, "edit", &found, task, now);
    rows_put(&batch->rows, TABLE_UPDATE, &task_table, &task->row, NULL);
    rows_put(&batch->rows, TABLE_UPDATE, &request_table, &adding->request.row, NULL);
    store_audit_put(&audit, actor, &batch->rows);
    return batch->arena.failed ? STORE_NO_MEMORY : rows_save(&batch->rows);
}

static enum store_status try_edit(struct batch *batch, int64_t id, const struct store_actor *actor)
{
    struct adding *adding = &batch->addings[0];
    struct queue_added *added = adding->added;
    struct store_task *task = &adding->task;
    struct store_request request;
    enum store_status status = rows_by_id(&batch->rows, &task_table, id, &task->row);
    int64_t now = batch->rows.now;
    if (status == STORE_DONE)
        status = rows_by_id(&batch->rows, &request_table, id, &request.row);
    if (status != STORE_DONE || task->row.id == 0 || request.row.id == 0)
        return status;
    added->id = id;
    added->state = task->task.state;
    added->end = may_edit(task, adding->operation->has_body, actor->force);
    return added->end == QUEUE_ADDED ? save_edit(batch, &request, actor, now) : STORE_DONE;
}

enum store_status queue_edit(struct store *store, const struct queue_edit *edit,
                             struct parker *parker, struct queue_added *ret_added)
{
    struct batch *batch = new_batch(store, parker, 1);
    enum store_status status = STORE_CONFLICT;
    if (!batch)
        return STORE_NO_MEMORY;
    batch->addings[0] = (struct adding){.operation = edit->operation, .added = ret_added};
    while (rows_try_again(&batch->rows, &status)) {
        arena_reset(&batch->arena);
        ret_added->end = QUEUE_NOT_FOUND;
        status = try_edit(batch, edit->id, &edit->actor);
    }
    free_batch(batch);
    return status;
}
