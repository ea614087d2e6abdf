/* SPDX-License-Identifier: Apache-2.0 */
/* What people do to lists of the queue, and to their tasks. Declared in queue_steps.h. */
#include "base/check.h"
#include "base/mem.h"
#include "base/text/url.h"
#include "client/operation.h"
#include "client/queue_steps_priv.h"
#include <assert.h>

#define ARENA_MAX ((size_t)64 * 1024 * 1024)

/* An act under way. */
struct acting {
    struct rows rows;
    struct walk walk;
    struct arena arena;
    struct store_task_audit audit;
    struct table_change changes[COURIER_FOLLOW_MAX];
    struct queue_steps_acted *acted;
};

static bool refuse_steps_act(struct acting *acting, enum steps_answer answer)
{
    acting->acted->answer = answer;
    if (answer != STEPS_MAY)
        acting->acted->end = QUEUE_STEPS_REFUSED;
    return answer != STEPS_MAY;
}

static enum store_status commit_steps(struct acting *acting, struct store_saver *saver)
{
    struct rows *rows = &acting->rows;
    acting->acted->end = QUEUE_STEPS_ACTED;
    acting->acted->after = acting->walk.list->state;
    return saver ? saver->save(saver, rows) : rows_save(rows);
}

/* ---- one of its tasks ---- */

/* It sends something else from now on, under another key. */
static enum store_status edit_step(struct acting *acting, const struct queue_operation *operation,
                                   struct store_task *task, struct store_request *request)
{
    struct url url;
    const char *problem;
    if (operation->url.len > 0) {
        bool is_url = url_read(operation->url, &url, &problem);
        CHECK(is_url); /* queue_check */
        task->lane = queue_lane(&url, &acting->arena);
        request->url = operation->url;
    }
    if (operation->method.len > 0)
        request->method = operation->method;
    if (operation->has_body) {
        request->body = operation->body;
        request->packed = false;
    }
    request->fields = operation->fields;
    if (task->step < 0)
        request->undo = SLICE(""); /* what could not be filled in */
    client_mint_key(key_made_at(task->key) > 0, acting->acted->key);
    task->key = slice_of(acting->acted->key);
    task_edit(&task->task, acting->walk.now);
    rows_put(&acting->rows, TABLE_UPDATE, &request_table, &request->row, NULL);
    return STORE_DONE;
}

/* A person says that it was done: what its undo needs is in the response that they give. */
static enum store_status settle_done(struct acting *acting, const struct queue_steps_wish *wish,
                                     struct store_task *task, struct store_request *request)
{
    const struct undo_response response = {.url = request->url, .body = wish->response};
    task_retry(&task->task, true, acting->walk.now);
    task_settle(&task->task, TASK_DONE, TASK_REASON_ALREADY, &task_terms_of_acts, acting->walk.now);
    if (task->step > 0 && request->undo.len > 0)
        return walk_fill_undo(&acting->walk, task, &response);
    request->response = wish->response;
    rows_put(&acting->rows, TABLE_UPDATE, &request_table, &request->row, NULL);
    return STORE_DONE;
}

static enum store_status apply_steps_wish(struct acting *acting,
                                          const struct queue_steps_wish *wish,
                                          struct store_task *task, struct store_request *request)
{
    switch (wish->act) {
    case STEPS_RETRY:
        task_retry(&task->task, true, acting->walk.now);
        return STORE_DONE;
    case STEPS_DROP: /* by force says nothing: the doubt stays */
        task_drop(&task->task, &task_terms_of_acts, acting->walk.now);
        return STORE_DONE;
    case STEPS_SETTLE_NOT_DONE:
        task_drop(&task->task, &task_terms_of_acts, acting->walk.now);
        task->task.in_doubt = false;
        return STORE_DONE;
    case STEPS_SETTLE_DONE:
        return settle_done(acting, wish, task, request);
    case STEPS_EDIT:
        return edit_step(acting, wish->operation, task, request);
    }
    UNREACHABLE();
}

static const char *name_of(enum steps_act act)
{
    static const char *const names[] = {[STEPS_RETRY] = "retry",
                                        [STEPS_DROP] = "drop",
                                        [STEPS_SETTLE_DONE] = "settle --done",
                                        [STEPS_SETTLE_NOT_DONE] = "settle --not-done",
                                        [STEPS_EDIT] = "edit"};
    static_assert(sizeof names / sizeof *names == STEPS_EDIT + 1, "each act has a name");
    return names[act];
}

/* Where in the list it is. */
static bool find_task(const struct walk *walk, int64_t id, size_t *ret_at)
{
    for (*ret_at = 0; *ret_at < walk->n; ++*ret_at)
        if (walk->tasks[*ret_at]->row.id == id)
            return true;
    return false;
}

static enum store_status act_at(struct acting *acting, const struct queue_steps_wish *wish,
                                size_t at)
{
    struct walk *walk = &acting->walk;
    struct store_task *task = walk->tasks[at];
    const struct store_task before = *task;
    struct steps_task tasks[WALK_MOST];
    struct table_row *row;
    enum store_status status = rows_take(&acting->rows, &request_table, task->row.id, &row);
    struct store_request *request = (struct store_request *)row;
    if (!request)
        return status;
    walk_describe(walk, tasks);
    tasks[at].can_run = request->url.len > 0;
    const struct steps_wish may = {wish->act, wish->actor.force, walk_is_back(walk)};
    if (refuse_steps_act(acting, steps_may(walk->list->state, &tasks[at], &may)))
        return STORE_DONE;
    status = apply_steps_wish(acting, wish, task, request);
    walk->is_changed[at] = true;
    acting->audit = store_audit_task(&wish->actor, name_of(wish->act), &before, task, walk->now);
    store_audit_put(&acting->audit, &wish->actor, &acting->rows);
    if (status == STORE_DONE)
        status = walk_go_on(walk);
    return status == STORE_DONE ? commit_steps(acting, wish->saver) : status;
}

static enum store_status try_steps_act(struct acting *acting, const void *argument)
{
    const struct queue_steps_wish *wish = argument;
    struct store_task task;
    bool is_found = false;
    size_t at = 0;
    enum store_status status = rows_by_id(&acting->rows, &task_table, wish->id, &task.row);
    if (task.row.id == 0 || task.list_id == 0)
        return status;
    status = walk_read(&acting->walk, task.list_id, &is_found);
    if (!is_found || !find_task(&acting->walk, wish->id, &at))
        return status;
    acting->acted->list = acting->walk.list->row.id;
    acting->acted->before = acting->walk.list->state;
    acting->acted->found = acting->walk.tasks[at]->task.state;
    return act_at(acting, wish, at);
}

/* ---- the whole list ---- */

static enum store_status find_list_name(struct acting *acting, struct slice name, int64_t *ret_id)
{
    struct store_found found;
    enum store_status status = rows_find_all(&acting->rows, &task_list_table, &found);
    for (size_t i = 0; status == STORE_DONE && i < found.n; i++)
        if (slice_eq(((const struct store_task_list *)found.rows[i])->name, name))
            *ret_id = found.rows[i]->id;
    return status;
}

/* The doubt of what may have been done stays: the list ends partial by it. */
static void drop_all(struct walk *walk)
{
    bool is_back = walk_is_back(walk);
    for (size_t i = 0; i < walk->n; i++) {
        struct store_task *task = walk->tasks[i];
        if (!task_allows(task->task.state, TASK_DROP) || (is_back && task->step > 0))
            continue;
        task_drop(&task->task, &task_terms_of_acts, walk->now);
        walk->is_changed[i] = true;
    }
}

static enum store_status drop_list(struct acting *acting, const struct queue_steps_drop *wish)
{
    struct walk *walk = &acting->walk;
    struct steps_task tasks[WALK_MOST];
    enum steps_state before = walk->list->state;
    walk_describe(walk, tasks);
    if (refuse_steps_act(acting, steps_may_drop(before, tasks, walk->n, wish->actor.force)))
        return STORE_DONE;
    drop_all(walk);
    bool keeps_done = wish->keep && !walk_is_back(walk);
    enum store_status status = keeps_done ? walk_save(walk, STEPS_KEPT) : walk_go_on(walk);
    if (status != STORE_DONE)
        return status;
    acting->audit = (struct store_task_audit){.at = walk->now,
                                              .actor = wish->actor.name,
                                              .act = SLICE("drop"),
                                              .kind = SLICE(QUEUE_KIND),
                                              .key = walk->list->name,
                                              .from = steps_state_name(before),
                                              .to = steps_state_name(walk->list->state),
                                              .force = wish->actor.force};
    store_audit_put(&acting->audit, &wish->actor, &acting->rows);
    return commit_steps(acting, NULL);
}

static enum store_status try_drop(struct acting *acting, const void *argument)
{
    const struct queue_steps_drop *wish = argument;
    uint64_t number = 0;
    int64_t id = 0;
    bool is_found = false;
    enum store_status status = STORE_DONE;
    if (slice_to_u64(wish->list, INT64_MAX, &number))
        id = (int64_t)number;
    else
        status = find_list_name(acting, wish->list, &id);
    if (status != STORE_DONE || id == 0)
        return status;
    status = walk_read(&acting->walk, id, &is_found);
    if (status != STORE_DONE || !is_found)
        return status;
    acting->acted->list = id;
    acting->acted->before = acting->walk.list->state;
    return drop_list(acting, wish);
}

/* ---- until nobody is first ---- */

typedef enum store_status (*try_fn)(struct acting *acting, const void *wish);

static enum store_status act_on_steps(struct store *store, struct parker *parker, try_fn try,
                                      const void *wish, struct queue_steps_acted *ret_acted)
{
    enum store_status status = STORE_CONFLICT;
    struct acting *acting = mem_zalloc(1, sizeof *acting);
    if (!acting)
        return STORE_NO_MEMORY;
    acting->rows = (struct rows){.store = store,
                                 .parker = parker,
                                 .arena = &acting->arena,
                                 .changes = acting->changes,
                                 .most = COURIER_FOLLOW_MAX};
    acting->arena = arena_make(ARENA_MAX);
    acting->acted = ret_acted;
    while (rows_try_again(&acting->rows, &status)) {
        *ret_acted = (struct queue_steps_acted){.end = QUEUE_STEPS_NONE};
        arena_reset(&acting->arena);
        acting->walk = (struct walk){.rows = &acting->rows};
        status = try(acting, wish);
    }
    arena_fini(&acting->arena);
    mem_free(acting);
    return status;
}

enum store_status queue_steps_act(struct store *store, const struct queue_steps_wish *wish,
                                  struct parker *parker, struct queue_steps_acted *ret_acted)
{
    CHECK(wish->act != STEPS_EDIT || wish->operation);
    return act_on_steps(store, parker, try_steps_act, wish, ret_acted);
}

enum store_status queue_steps_drop(struct store *store, const struct queue_steps_drop *wish,
                                   struct parker *parker, struct queue_steps_acted *ret_acted)
{
    return act_on_steps(store, parker, try_drop, wish, ret_acted);
}
