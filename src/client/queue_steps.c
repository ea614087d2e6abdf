/* SPDX-License-Identifier: Apache-2.0 */
#include "client/queue_steps.h"

#include "base/check.h"
#include "base/headers.h"
#include "base/text/url.h"
#include "client/fields.h"
#include "client/queue_steps_priv.h"
#include "store/tables/orders.h"
#include <assert.h>

#define ORDER_MAX ((size_t)1024)

/* The list, the request of the one that ends, the audit, all steps, and reverses with theirs. */
static_assert(2 + STORE_AUDIT_CHANGES + 3 * STEPS_MOST <= COURIER_FOLLOW_MAX,
              "what follows is saved with an end");

/* ---- reading ---- */

/* The task as it will be, where it is among the changes. */
static struct table_change *find_brought(const struct rows *rows, int64_t id)
{
    for (size_t i = 0; i < rows->n; i++)
        if (rows->changes[i].table == &task_table && rows->changes[i].row->id == id)
            return &rows->changes[i];
    return NULL;
}

static void take_tasks(struct walk *walk, const struct store_found *found)
{
    for (size_t i = 0; i < found->n; i++) {
        const struct table_change *brought = find_brought(walk->rows, found->rows[i]->id);
        walk->tasks[walk->n++] = (struct store_task *)(brought ? brought->row : found->rows[i]);
    }
}

enum store_status walk_read(struct walk *walk, int64_t list, bool *ret_found)
{
    struct table_row *row;
    struct store_found found;
    const struct store_task like = {.list_id = list};
    const struct table_query query = {.table = &task_table,
                                      .by = TABLE_BY_INDEX,
                                      .index = &task_indexes[TASK_BY_STEP],
                                      .prefix = 1,
                                      .like = &like.row,
                                      .limit = WALK_MOST};
    CHECK(!walk->list && walk->n == 0); /* read once */
    enum store_status status = rows_take(walk->rows, &task_list_table, list, &row);
    *ret_found = row;
    if (!row)
        return status;
    walk->list = (struct store_task_list *)row;
    status = rows_find(walk->rows, &query, &found);
    walk->now = found.now;
    if (status == STORE_DONE)
        take_tasks(walk, &found);
    return status;
}

/* ---- what is known of its services ---- */

static bool has_header_line(struct slice lines, struct slice wanted)
{
    for (struct slice line; lines.len > 0 && slice_next(&lines, '\n', &line);)
        if (slice_eq(line, wanted))
            return true;
    return false;
}

static bool lane_dedupes(const struct walk *walk, struct slice lane)
{
    return has_header_line(walk->list->deduping, SLICE(QUEUE_LIST_DEDUPES)) ||
           has_header_line(walk->list->deduping, lane);
}

/* Whoever says such a thing knows the key, unless it says that it looked at none. */
static bool tells_that_it_dedupes(const struct undo_response *response)
{
    struct headers fields;
    if (!response || !client_fields_split(response->fields, &fields))
        return false;
    const struct header *status = headers_find(&fields, SLICE("Idempotency-Status"));
    if (!status)
        return headers_find(&fields, SLICE("Idempotent-Replayed"));
    return !slice_eq_nocase(slice_trim(status->value), SLICE("bypassed"));
}

static void note_that_it_dedupes(struct walk *walk, struct slice lane)
{
    BUF_AUTO struct buf lines = buf_make(SIZE_MAX);
    if (lane_dedupes(walk, lane))
        return;
    buf_add_slice(&lines, walk->list->deduping);
    if (lines.len > 0)
        buf_add_char(&lines, '\n');
    buf_add_slice(&lines, lane);
    walk->list->deduping = arena_copy_buf(walk->rows->arena, &lines);
    walk->list_is_changed = true;
}

/* ---- what it is ---- */

bool walk_is_back(const struct walk *walk)
{
    return walk->n > 0 && walk->tasks[0]->step < 0;
}

static struct steps_task describe_task(const struct walk *walk, const struct store_task *stored)
{
    const struct task *task = &stored->task;
    enum task_reason reason = store_task_reason(stored);
    bool is_held = reason == TASK_REASON_ODD_ROW;
    bool is_refused = steps_is_refusal(task, reason, lane_dedupes(walk, stored->lane));
    return (struct steps_task){
        .step = stored->step,
        .state = task->state,
        .in_doubt = task->in_doubt,
        .must_park = task->state == TASK_DEAD && (is_held || (task->in_doubt && !is_refused)),
        .has_begun = task->attempts > 0 || task->status != 0 || task->in_doubt};
}

void walk_describe(const struct walk *walk, struct steps_task tasks[WALK_MOST])
{
    for (size_t i = 0; i < walk->n; i++)
        tasks[i] = describe_task(walk, walk->tasks[i]);
}

/* ---- what follows ---- */

enum store_status walk_fill_undo(struct walk *walk, const struct store_task *done,
                                 const struct undo_response *response)
{
    struct table_row *row;
    struct arena *arena = walk->rows->arena;
    enum store_status status = rows_take(walk->rows, &request_table, done->row.id, &row);
    struct store_request *request = (struct store_request *)row;
    if (!request)
        return status;
    if (request->undo.len == 0 || undo_is_marked(request->undo))
        return STORE_DONE;
    struct slice problem, filled = undo_fill(request->undo, response, arena, &problem);
    if (arena->failed)
        return STORE_NO_MEMORY;
    request->undo = filled.len > 0 ? undo_mark(filled, arena)
                                   : undo_mark_unfilled(request->undo, problem, arena);
    if (response)
        request->response = slice_first(response->body, UNDO_RESPONSE_MOST);
    rows_put(walk->rows, TABLE_UPDATE, &request_table, &request->row, NULL);
    return STORE_DONE;
}

/* What is undone over a refusal behind a doubt was not done: the list knows. */
static void end_walk_doubt(struct walk *walk)
{
    for (size_t i = 0; i < walk->n; i++) {
        struct task *task = &walk->tasks[i]->task;
        if (task->state != TASK_DEAD || !task->in_doubt)
            continue;
        task->in_doubt = false;
        task->reason = TASK_REASON_FINAL;
        walk->is_changed[i] = true;
    }
}

/* Nothing is sent of what has not begun. */
static void drop_rest(struct walk *walk)
{
    for (size_t i = 0; i < walk->n; i++) {
        struct task *task = &walk->tasks[i]->task;
        if (task->state != TASK_WAITING)
            continue;
        task_drop(task, &task_terms_of_acts, walk->now);
        task->reason = TASK_REASON_LIST;
        walk->is_changed[i] = true;
    }
}

static struct slice text_of_step(struct walk *walk, const char *before, struct slice behind)
{
    BUF_AUTO struct buf text = buf_make(ORDER_MAX);
    buf_add_str(&text, before);
    buf_add_slice(&text, behind);
    return arena_copy_buf(walk->rows->arena, &text);
}

/* The operation of a filled undo. False: there is none, and somebody must look. */
static bool read_reverse(struct walk *walk, const struct store_request *done,
                         struct store_task *reverse, struct store_request *request)
{
    struct queue_operation operation = {0};
    struct slice problem, filled = undo_unmark(done->undo);
    struct url url;
    const char *why;
    if (filled.len == 0 || !queue_line_read(filled, walk->rows->arena, &operation, &problem) ||
        !url_read(operation.url, &url, &why) || url.userinfo.at)
        return false;
    reverse->lane = queue_lane(&url, walk->rows->arena);
    request->method = operation.method.len > 0 ? operation.method : SLICE("POST");
    request->url = operation.url;
    request->fields = operation.fields;
    request->body = operation.body;
    return true;
}

/* One that cannot be made from what its step's response said is dead from the start, has nothing to
 * send, and says why: it holds those behind it until a person looks. */
static struct store_task *add_reverse(struct walk *walk, const struct store_task *step,
                                      const struct store_request *done)
{
    struct task_terms holding = task_terms_of_acts;
    holding.holds = true;
    struct store_task *reverse = arena_alloc(walk->rows->arena, sizeof *reverse);
    struct store_request *request = arena_alloc(walk->rows->arena, sizeof *request);
    if (!reverse || !request)
        return NULL;
    *reverse = (struct store_task){.kind = step->kind,
                                   .lane = step->lane,
                                   .key = done->undo_key,
                                   .ord = text_of_step(walk, QUEUE_UNDO_ORDER, walk->list->name),
                                   .list_id = walk->list->row.id,
                                   .step = -step->step,
                                   .task = {.due_at = CLOCK_NEVER,
                                            .deadline_at = CLOCK_NEVER,
                                            .profile = RETRY_PROFILE_webhook,
                                            .created_at = walk->now,
                                            .gone_at = CLOCK_NEVER}};
    *request = (struct store_request){.method = SLICE("POST")};
    if (!read_reverse(walk, done, reverse, request)) {
        task_settle(&reverse->task, TASK_DEAD, TASK_REASON_UNREADABLE, &holding, walk->now);
        request->undo = done->undo;
    }
    rows_put(walk->rows, TABLE_INSERT, &task_table, &reverse->row, NULL);
    rows_put(walk->rows, TABLE_INSERT, &request_table, &request->row, &reverse->row);
    return reverse;
}

static void put_in_front(struct walk *walk, struct store_task *const *reverses, size_t n)
{
    CHECK(walk->n + n <= WALK_MOST);
    memmove(walk->tasks + n, walk->tasks, walk->n * sizeof *walk->tasks);
    memmove(walk->is_changed + n, walk->is_changed, walk->n * sizeof *walk->is_changed);
    for (size_t i = 0; i < n; i++) {
        walk->tasks[i] = reverses[i];
        walk->is_changed[i] = false;
    }
    walk->n += n;
}

/* The reverses of what is done, the last step's first. */
static enum store_status begin_undo(struct walk *walk)
{
    struct store_task *reverses[STEPS_MOST];
    size_t n = 0;
    enum store_status status = STORE_DONE;
    CHECK(!walk_is_back(walk));
    end_walk_doubt(walk);
    drop_rest(walk);
    for (size_t i = walk->n; i-- > 0 && status == STORE_DONE;) {
        struct store_request done;
        if (walk->tasks[i]->task.state != TASK_DONE)
            continue;
        status = rows_by_id(walk->rows, &request_table, walk->tasks[i]->row.id, &done.row);
        if (done.row.id == 0 || done.undo.len == 0)
            continue;
        CHECK(n < STEPS_MOST);
        reverses[n] = add_reverse(walk, walk->tasks[i], &done);
        if (!reverses[n++])
            return STORE_NO_MEMORY;
    }
    put_in_front(walk, reverses, n);
    return status;
}

/* ---- saving ---- */

/* Only the first unfinished one of its direction has a time at which it is due. */
static void place_due(struct walk *walk)
{
    bool is_back = walk_is_back(walk), is_first = true;
    for (size_t i = 0; i < walk->n; i++) {
        struct store_task *task = walk->tasks[i];
        if ((task->step < 0) != is_back || !task_is_open(&task->task))
            continue;
        if (is_first ? order_free(task, walk->now) : order_hold(task))
            walk->is_changed[i] = true;
        is_first = false;
    }
}

/* None of its rows is swept before it is over; then all go at the same time. */
static void place_end(struct walk *walk)
{
    for (size_t i = 0; i < walk->n; i++) {
        struct store_task *task = walk->tasks[i];
        int64_t before = task->task.gone_at;
        store_task_derive(task);
        if (task->task.ended_at != 0)
            task->task.gone_at = walk->list->gone_at;
        walk->is_changed[i] = walk->is_changed[i] || task->task.gone_at != before;
    }
}

enum store_status walk_save(struct walk *walk, enum steps_state state)
{
    CHECK(state >= STEPS_RUNNING && state <= STEPS_KEPT);
    if (state != walk->list->state) {
        walk->list->state = state;
        walk->list->gone_at =
            steps_are_over(state) ? clock_after(walk->now, TASK_KEEP_DEAD_US) : CLOCK_NEVER;
        walk->list_is_changed = true;
    }
    place_due(walk);
    place_end(walk);
    for (size_t i = 0; i < walk->n; i++) {
        struct store_task *task = walk->tasks[i];
        struct table_change *brought = find_brought(walk->rows, task->row.id);
        if (!walk->is_changed[i] || task->row.id == 0)
            continue;
        if (brought)
            brought->act = TABLE_UPDATE;
        else
            rows_put(walk->rows, TABLE_UPDATE, &task_table, &task->row, NULL);
    }
    enum table_act act = walk->list_is_changed ? TABLE_UPDATE : TABLE_TOUCH;
    rows_put(walk->rows, act, &task_list_table, &walk->list->row, NULL);
    return walk->rows->arena->failed ? STORE_NO_MEMORY : STORE_DONE;
}

enum store_status walk_go_on(struct walk *walk)
{
    struct steps_task tasks[WALK_MOST];
    walk_describe(walk, tasks);
    enum steps_state state = steps_judge(tasks, walk->n, walk_is_back(walk));
    if (state == STEPS_UNDOING && !walk_is_back(walk)) {
        enum store_status status = begin_undo(walk);
        if (status != STORE_DONE)
            return status;
        walk_describe(walk, tasks);
        state = steps_judge(tasks, walk->n, true);
    }
    return walk_save(walk, state);
}

enum store_status queue_steps_follow(const struct store_task *ended,
                                     const struct undo_response *response, struct rows *rows)
{
    struct walk walk = {.rows = rows};
    bool is_found = false, has_ended = ended->task.state >= TASK_DONE;
    bool tells = tells_that_it_dedupes(response);
    if (ended->list_id == 0 || !(has_ended || tells))
        return STORE_DONE;
    enum store_status status = walk_read(&walk, ended->list_id, &is_found);
    if (status != STORE_DONE || !is_found || steps_are_over(walk.list->state))
        return status;
    if (tells)
        note_that_it_dedupes(&walk, ended->lane);
    if (ended->step > 0 && ended->task.state == TASK_DONE)
        status = walk_fill_undo(&walk, ended, response);
    if (status != STORE_DONE)
        return status;
    bool goes_on = has_ended && walk.list->state != STEPS_PARKED;
    return goes_on ? walk_go_on(&walk) : walk_save(&walk, walk.list->state);
}
