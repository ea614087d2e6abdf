/* SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "base/mem.h"
#include "operator/tasks.h"
#include "store/tables/orders.h"

#define PAGE_MAX ((size_t)64 * 1024 * 1024)
#define WHOLE_MAX ((size_t)256 * 1024 * 1024)
#define ATTEMPTS_MOST 1000
#define LANES_MOST 1000

/* ---- pages ---- */

void tasks_page_fini(struct tasks_page *page)
{
    arena_fini(&page->arena);
}

/* A request that is read for a row of the page. */
struct reading {
    struct store_op op;
    struct table_query query;
    struct tasks_row *row;
    struct arena *arena;
};

/* On the committer's thread. Bodies stay where they are. */
static void copy_request(void *argument, const struct table_row *row)
{
    struct reading *reading = argument;
    const struct store_request *request = (const struct store_request *)row;
    if (row->id != reading->row->stored->row.id)
        return;
    reading->row->method = arena_copy(reading->arena, request->method);
    reading->row->url = arena_copy(reading->arena, request->url);
}

/* All of them in one batch: one after the other would wait for as many. */
static enum store_status read_requests(const struct tasks_source *source, struct tasks_page *page)
{
    struct reading *readings = mem_zalloc(page->n, sizeof *readings);
    int64_t deadline = clock_after(clock_boot_us(), ROWS_WITHIN_US);
    enum store_status status = readings || page->n == 0 ? STORE_DONE : STORE_NO_MEMORY;
    for (size_t i = 0; readings && i < page->n; i++) {
        struct reading *reading = &readings[i];
        reading->row = &page->rows[i];
        reading->arena = &page->arena;
        reading->query = (struct table_query){.table = &request_table,
                                              .after = reading->row->stored->row.id - 1,
                                              .limit = 1,
                                              .each = copy_request,
                                              .argument = reading};
        reading->op = (struct store_op){
            .kind = STORE_QUERY, .query = &reading->query, .parker = source->parker};
        store_submit(source->store, &reading->op);
    }
    for (size_t i = 0; readings && i < page->n; i++) {
        store_await(source->store, &readings[i].op, source->parker, deadline);
        status = status == STORE_DONE ? readings[i].op.result.status : status;
    }
    mem_free(readings);
    return status == STORE_DONE && page->arena.failed ? STORE_NO_MEMORY : status;
}

/* ---- what they wait for ---- */

static bool is_parked_behind(const struct store_task *head)
{
    return head && head->task.state == TASK_DEAD;
}

struct slice tasks_state_name(const struct store_task *stored, const struct store_task *head)
{
    return is_parked_behind(head) ? SLICE("parked") : task_state_name(stored->task.state);
}

int64_t tasks_held_since(const struct store_task *head)
{
    if (!head || head->task.reason == TASK_REASON_NONE)
        return 0;
    return head->task.ended_at != 0   ? head->task.ended_at
           : head->task.first_at != 0 ? head->task.first_at
                                      : head->task.created_at;
}

void tasks_want_state(struct tasks_wanted *wanted, size_t state)
{
    bool is_parked = state == TASKS_STATE_PARKED;
    CHECK(state <= TASKS_STATE_PARKED);
    wanted->has_state = true;
    wanted->state = is_parked ? TASK_WAITING : (enum task_state)state;
    wanted->parked = is_parked ? TASKS_PARKED_ONLY : TASKS_PARKED_NOT;
}

static bool is_held(const struct store_task *stored)
{
    return task_is_held(&stored->task) && stored->ord.len > 0;
}

static enum store_status find_head(const struct tasks_source *source,
                                   const struct store_task *stored, struct arena *arena,
                                   const struct store_task **ret_head)
{
    struct rows rows = tasks_rows(source, arena);
    struct store_task *head = arena_alloc(arena, sizeof *head);
    if (!head)
        return STORE_NO_MEMORY;
    enum store_status status = order_find_earlier(&rows, stored, head);
    *ret_head = head->row.id != 0 ? head : NULL;
    return status;
}

/* Those of one order mostly come one behind the other. */
static enum store_status find_heads(const struct tasks_source *source, struct tasks_page *page)
{
    enum store_status status = STORE_DONE;
    const struct tasks_row *before = NULL;
    for (size_t i = 0; i < page->n && status == STORE_DONE; i++) {
        struct tasks_row *row = &page->rows[i];
        if (!is_held(row->stored))
            continue;
        if (before && before->head && slice_eq(before->stored->ord, row->stored->ord))
            row->head = before->head;
        else
            status = find_head(source, row->stored, &page->arena, &row->head);
        before = row;
    }
    return status;
}

static enum store_status count_tasks_state(const struct tasks_source *source, enum task_state state,
                                           size_t *ret_n)
{
    const struct store_task like = {.kind = source->kind, .task.state = state};
    const struct table_query query = {.table = &task_table,
                                      .by = TABLE_BY_INDEX,
                                      .index = &task_indexes[TASK_BY_STATE],
                                      .prefix = 2,
                                      .like = &like.row,
                                      .limit = SIZE_MAX};
    struct rows rows = tasks_rows(source, NULL);
    return rows_count(&rows, &query, ret_n);
}

/* ---- which ---- */

/* That URL, or one below it: no other host that begins with its name. */
static bool is_below(struct slice url, struct slice prefix)
{
    if (prefix.len == 0)
        return true;
    if (!slice_starts(url, prefix))
        return false;
    char next = url.len > prefix.len ? url.at[prefix.len] : '/';
    return next == '/' || next == '?' || prefix.at[prefix.len - 1] == '/';
}

/* By what only its request and its order's head say. */
static bool is_shown(const struct tasks_wanted *wanted, const struct tasks_row *row)
{
    bool is_parked = is_parked_behind(row->head);
    return is_below(row->url, wanted->to) && (wanted->parked == TASKS_PARKED_TOO ||
                                              is_parked == (wanted->parked == TASKS_PARKED_ONLY));
}

static void keep_shown(const struct tasks_wanted *wanted, struct tasks_page *page)
{
    size_t n = 0;
    for (size_t i = 0; i < page->n; i++)
        if (is_shown(wanted, &page->rows[i]))
            page->rows[n++] = page->rows[i];
    page->n = n;
}

/* In any state by id, of one state by the index that has them apart. */
static struct table_query query_page(const struct tasks_source *source,
                                     const struct tasks_wanted *wanted, struct store_task *like)
{
    CHECK(wanted->after >= 0 && wanted->state < TASK_STATE_COUNT);
    *like = (struct store_task){
        .row.id = wanted->after, .kind = source->kind, .task = {.state = wanted->state}};
    struct table_query query = {
        .table = &task_table, .after = wanted->after, .limit = TASKS_PAGE_MOST};
    if (!wanted->has_state)
        return query;
    query.by = TABLE_BY_INDEX;
    query.index = &task_indexes[TASK_BY_STATE];
    query.prefix = 2;
    query.like = query.behind = &like->row;
    return query;
}

static bool is_wanted_task(const struct tasks_source *source, const struct tasks_wanted *wanted,
                           const struct store_task *stored)
{
    int64_t at = stored->task.ended_at != 0 ? stored->task.ended_at : stored->task.created_at;
    return slice_eq(stored->kind, source->kind) &&
           (wanted->ord.len == 0 || slice_eq(stored->ord, wanted->ord)) &&
           (wanted->lane.len == 0 || slice_eq(stored->lane, wanted->lane)) && at >= wanted->since &&
           (wanted->until == 0 || at <= wanted->until);
}

enum store_status tasks_list(const struct tasks_source *source, const struct tasks_wanted *wanted,
                             struct tasks_page *ret_page)
{
    struct store_task like;
    struct store_found found;
    struct table_query query = query_page(source, wanted, &like);
    *ret_page = (struct tasks_page){.arena = arena_make(PAGE_MAX)};
    struct rows rows = tasks_rows(source, &ret_page->arena);
    enum store_status status = rows_find(&rows, &query, &found);
    if (status != STORE_DONE)
        return status;
    ret_page->rows = arena_alloc(&ret_page->arena, (found.n + 1) * sizeof *ret_page->rows);
    ret_page->now = found.now;
    for (size_t i = 0; ret_page->rows && i < found.n; i++) {
        const struct store_task *stored = (const struct store_task *)found.rows[i];
        if (is_wanted_task(source, wanted, stored))
            ret_page->rows[ret_page->n++] = (struct tasks_row){.stored = stored};
        ret_page->next = found.n == TASKS_PAGE_MOST ? stored->row.id : 0;
    }
    CHECK(ret_page->n <= found.n && found.n <= TASKS_PAGE_MOST);
    status = read_requests(source, ret_page);
    if (status == STORE_DONE)
        status = find_heads(source, ret_page);
    if (status == STORE_DONE)
        keep_shown(wanted, ret_page);
    return status;
}

/* ---- one task ---- */

void tasks_whole_fini(struct tasks_whole *whole)
{
    arena_fini(&whole->arena);
}

static enum store_status find_attempts(struct rows *rows, int64_t id, struct tasks_whole *whole)
{
    struct store_attempt like = {.task = id};
    struct store_found found;
    struct table_query query = {.table = &attempt_table,
                                .by = TABLE_BY_INDEX,
                                .index = &attempt_index,
                                .prefix = 1,
                                .like = &like.row,
                                .limit = ATTEMPTS_MOST};
    enum store_status status = rows_find(rows, &query, &found);
    whole->attempts = found.rows;
    whole->n_attempts = found.n;
    return status;
}

enum store_status tasks_read(const struct tasks_source *source, int64_t id,
                             struct tasks_whole *ret_whole)
{
    struct table_row *task, *request, *list = NULL;
    *ret_whole = (struct tasks_whole){.arena = arena_make(WHOLE_MAX)};
    struct rows rows = tasks_rows(source, &ret_whole->arena);
    enum store_status status = rows_take(&rows, &task_table, id, &task);
    ret_whole->now = rows.now;
    if (!task || !slice_eq(((const struct store_task *)task)->kind, source->kind))
        return status;
    ret_whole->stored = (const struct store_task *)task;
    status = rows_take(&rows, &request_table, id, &request);
    ret_whole->request = (const struct store_request *)request;
    if (status == STORE_DONE && ret_whole->stored->list_id != 0)
        status = rows_take(&rows, &task_list_table, ret_whole->stored->list_id, &list);
    ret_whole->list = (const struct store_task_list *)list;
    if (status == STORE_DONE && is_held(ret_whole->stored))
        status = find_head(source, ret_whole->stored, &ret_whole->arena, &ret_whole->head);
    if (status == STORE_DONE)
        status = find_attempts(&rows, id, ret_whole);
    bool is_read =
        status != STORE_DONE || !request ||
        store_request_unpack(ret_whole->request, WHOLE_MAX, &ret_whole->arena, &ret_whole->body);
    return is_read ? status : STORE_NO_MEMORY;
}

/* ---- how many ---- */

/* A list that is over has rolled back what it did, or not: nothing is left to do with its steps. */
static bool is_over_task(const struct tasks_whole *whole)
{
    return whole->list && whole->list->state != STEPS_RUNNING &&
           whole->list->state != STEPS_UNDOING && whole->list->state != STEPS_PARKED;
}

static enum store_status count_dead(const struct tasks_source *source, size_t *ret_n)
{
    struct tasks_wanted wanted = {.has_state = true, .state = TASK_DEAD};
    enum store_status status = STORE_DONE;
    do {
        TASKS_PAGE_AUTO struct tasks_page page = {0};
        status = tasks_list(source, &wanted, &page);
        for (size_t i = 0; i < page.n && status == STORE_DONE; i++) {
            TASKS_WHOLE_AUTO struct tasks_whole whole = {0};
            const struct store_task *stored = page.rows[i].stored;
            if (stored->list_id != 0)
                status = tasks_read(source, stored->row.id, &whole);
            *ret_n += !is_over_task(&whole);
        }
        wanted.after = page.next;
    } while (status == STORE_DONE && wanted.after != 0);
    return status;
}

enum store_status tasks_count(const struct tasks_source *source, enum task_state state,
                              size_t *ret_n)
{
    *ret_n = 0;
    return state == TASK_DEAD ? count_dead(source, ret_n) : count_tasks_state(source, state, ret_n);
}

/* ---- lanes, orders ---- */

enum store_status tasks_lanes(const struct tasks_source *source, struct arena *arena,
                              struct store_found *ret_found)
{
    struct table_query query = {.table = &lane_table, .limit = LANES_MOST};
    struct rows rows = tasks_rows(source, arena);
    return rows_find(&rows, &query, ret_found);
}
