/* SPDX-License-Identifier: Apache-2.0 */
#include "client/queue_steps.h"

#include "base/check.h"
#include "base/url.h"
#include "client/queue.h"
#include "store/find.h"

#define STORE_US (10 * CLOCK_US_PER_S)
#define ARENA_MAX ((size_t)64 * 1024 * 1024)
#define LANE_MAX ((size_t)1024)
#define TRIES_MOST 100 /* somebody else was first each time */

/* A list as it is, and the task that ends. */
struct walk {
    struct courier_follow *follow;
    const struct store_task *ended;
    struct store_task_list list;
    struct store_found tasks; /* all of it: reverses backwards, then steps */
    int64_t now;
};

static enum store_status find(const struct courier_follow *follow, const struct table_query *query,
                              struct store_found *ret_found)
{
    *ret_found = (struct store_found){.arena = follow->arena};
    return store_find_rows(follow->store, query, follow->parker,
                           clock_after(clock_boot_us(), STORE_US), ret_found);
}

/* The row of that id, or NULL. */
static enum store_status find_row(const struct courier_follow *follow, const struct table *table,
                                  int64_t id, const struct table_row **ret_row)
{
    struct store_found found;
    struct table_query query = {.table = table, .after = id - 1, .limit = 1};
    enum store_status status = find(follow, &query, &found);
    bool is_found = status == STORE_DONE && found.n == 1 && found.rows[0]->id == id;
    *ret_row = is_found ? found.rows[0] : NULL;
    return status;
}

static void bring(struct walk *walk, const struct table *table, enum table_act act,
                  struct table_row *row, const struct table_row *parent)
{
    struct courier_follow *follow = walk->follow;
    CHECK(follow->n < follow->most);
    follow->changes[follow->n++] =
        (struct table_change){.table = table, .act = act, .row = row, .parent = parent};
}

static void *keep(struct walk *walk, const void *row, size_t size)
{
    void *kept = arena_alloc(walk->follow->arena, size);
    if (kept)
        memcpy(kept, row, size);
    return kept;
}

static const struct store_task *task_at(const struct walk *walk, size_t i)
{
    return (const struct store_task *)walk->tasks.rows[i];
}

/* ---- reading ---- */

/* `*ret_found`: the task is in a list that is there. */
static enum store_status read_list(struct walk *walk, bool *ret_found)
{
    const struct table_row *row = NULL;
    const struct store_task like = {.list_id = walk->ended->list_id};
    const struct table_query query = {.table = &task_table,
                                      .by = TABLE_BY_INDEX,
                                      .index = &task_indexes[TASK_BY_STEP],
                                      .prefix = 1,
                                      .like = &like.row,
                                      .limit = 2 * STEPS_MOST};
    enum store_status status = find_row(walk->follow, &task_list_table, walk->ended->list_id, &row);
    *ret_found = row;
    if (!row)
        return status;
    walk->list = *(const struct store_task_list *)row;
    status = find(walk->follow, &query, &walk->tasks);
    walk->now = walk->tasks.now;
    return status;
}

/* Steps come one behind the other, reverses backwards: step -2 before step -1. */
static struct steps_task describe(const struct walk *walk)
{
    const struct store_task *ended = walk->ended;
    struct steps_task task = {.is_reverse = ended->step < 0,
                              .state = ended->task.state,
                              .in_doubt = ended->task.in_doubt,
                              .is_last = true};
    for (size_t i = 0; i < walk->tasks.n; i++) {
        const struct store_task *other = task_at(walk, i);
        bool is_behind = other->step > ended->step && (other->step < 0) == task.is_reverse;
        if (!is_behind || !task_is_open(&other->task))
            continue;
        task.next_is_dead |= task.is_last && other->task.state == TASK_DEAD;
        task.is_last = false;
    }
    return task;
}

/* ---- what follows ---- */

static enum store_status fill_undo(struct walk *walk, const struct undo_response *response)
{
    const struct table_row *row = NULL;
    struct arena *arena = walk->follow->arena;
    enum store_status status = find_row(walk->follow, &request_table, walk->ended->row.id, &row);
    if (!row)
        return status;
    struct store_request *request = keep(walk, row, sizeof *request);
    if (!request)
        return STORE_NO_MEMORY;
    if (request->undo.len == 0 || undo_is_marked(request->undo))
        return STORE_DONE;
    struct slice problem, filled = undo_fill(request->undo, response, arena, &problem);
    request->undo = filled.len > 0 ? undo_mark(filled, arena)
                                   : undo_mark_unfilled(request->undo, problem, arena);
    if (response)
        request->response = slice_first(response->body, UNDO_RESPONSE_MOST);
    bring(walk, &request_table, TABLE_UPDATE, &request->row, NULL);
    return STORE_DONE;
}

/* Nothing is sent of what has not begun. */
static enum store_status drop_rest(struct walk *walk)
{
    static const struct task_terms keeps = {TASK_KEEP_DONE_US, TASK_KEEP_DEAD_US, false};
    for (size_t i = 0; i < walk->tasks.n; i++) {
        const struct store_task *other = task_at(walk, i);
        if (other->task.state != TASK_WAITING || other->row.id == walk->ended->row.id)
            continue;
        struct store_task *dropped = keep(walk, other, sizeof *dropped);
        if (!dropped)
            return STORE_NO_MEMORY;
        task_drop(&dropped->task, &keeps, walk->now);
        dropped->task.reason = TASK_REASON_LIST;
        store_task_settle(dropped);
        bring(walk, &task_table, TABLE_UPDATE, &dropped->row, NULL);
    }
    return STORE_DONE;
}

static struct slice text_of(struct walk *walk, const char *before, struct slice behind)
{
    BUF_AUTO struct buf text = buf_make(LANE_MAX);
    buf_add_str(&text, before);
    buf_add_slice(&text, behind);
    return arena_copy(walk->follow->arena, buf_slice(&text));
}

/* The operation of a filled undo. False: there is none, and somebody must look. */
static bool read_undo(struct walk *walk, const struct store_request *done,
                      struct store_task *reverse, struct store_request *request)
{
    struct queue_operation operation = {0};
    struct slice problem, filled = undo_unmark(done->undo);
    struct url url;
    const char *why;
    BUF_AUTO struct buf lane = buf_make(LANE_MAX);
    if (filled.len == 0 || !queue_line_read(filled, walk->follow->arena, &operation, &problem) ||
        !url_read(operation.url, &url, &why) || url.userinfo.at)
        return false;
    url_write_origin(&lane, &url);
    reverse->lane = arena_copy(walk->follow->arena, buf_slice(&lane));
    request->method = operation.method.len > 0 ? operation.method : SLICE("POST");
    request->url = operation.url;
    request->fields = operation.fields;
    request->body = operation.body;
    return true;
}

/* One that cannot be made from what its step's response said is dead from the start, has nothing to
 * send, and says why: it holds those behind it until a person looks. The first one says what the
 * list is then. */
static enum store_status add_reverse(struct walk *walk, const struct store_task *step,
                                     const struct store_request *done, bool is_first,
                                     enum steps_state *ret_state)
{
    static const struct task_terms keeps = {TASK_KEEP_DONE_US, TASK_KEEP_DEAD_US, true};
    struct store_task *reverse = arena_alloc(walk->follow->arena, sizeof *reverse);
    struct store_request *request = arena_alloc(walk->follow->arena, sizeof *request);
    if (!reverse || !request)
        return STORE_NO_MEMORY;
    *reverse = (struct store_task){.kind = step->kind,
                                   .lane = step->lane,
                                   .key = done->undo_key,
                                   .ord = text_of(walk, QUEUE_UNDO_ORDER, walk->list.name),
                                   .list_id = walk->list.row.id,
                                   .step = -step->step,
                                   .task = {.due_at = is_first ? walk->now : CLOCK_NEVER,
                                            .deadline_at = CLOCK_NEVER,
                                            .profile = RETRY_PROFILE_webhook,
                                            .created_at = walk->now,
                                            .gone_at = CLOCK_NEVER}};
    *request = (struct store_request){.method = SLICE("POST")};
    bool can_run = read_undo(walk, done, reverse, request);
    if (!can_run) {
        task_settle(&reverse->task, TASK_DEAD, TASK_REASON_UNREADABLE, &keeps, walk->now);
        request->undo = done->undo;
    }
    if (is_first)
        *ret_state = can_run ? STEPS_UNDOING : STEPS_PARKED;
    store_task_settle(reverse);
    bring(walk, &task_table, TABLE_INSERT, &reverse->row, NULL);
    bring(walk, &request_table, TABLE_INSERT, &request->row, &reverse->row);
    return STORE_DONE;
}

/* The reverses of what is done, the last step's first. What the list is then. */
static enum store_status begin_undo(struct walk *walk, enum steps_state *ret_state)
{
    size_t n = 0;
    *ret_state = STEPS_UNDONE;
    enum store_status status = drop_rest(walk);
    for (size_t i = walk->tasks.n; i-- > 0 && status == STORE_DONE;) {
        const struct store_task *step = task_at(walk, i);
        const struct table_row *row = NULL;
        if (step->step < 0 || step->task.state != TASK_DONE)
            continue;
        status = find_row(walk->follow, &request_table, step->row.id, &row);
        const struct store_request *done = (const struct store_request *)row;
        if (!done || done->undo.len == 0)
            continue;
        status = add_reverse(walk, step, done, n++ == 0, ret_state);
    }
    return status;
}

static enum store_status save_state(struct walk *walk, enum steps_state state)
{
    struct store_task_list *list = keep(walk, &walk->list, sizeof *list);
    if (!list)
        return STORE_NO_MEMORY;
    bool is_over = state == STEPS_DONE || state == STEPS_UNDONE;
    list->state = state;
    list->gone_at = is_over ? clock_after(walk->now, TASK_KEEP_DEAD_US) : CLOCK_NEVER;
    bring(walk, &task_list_table, TABLE_UPDATE, &list->row, NULL);
    return STORE_DONE;
}

/* From a state that the list has, or is about to have. */
static enum store_status go_on(struct walk *walk, enum steps_state from)
{
    const struct steps_task task = describe(walk);
    enum steps_state state = steps_after(from, &task);
    enum store_status status = STORE_DONE;
    if (state == STEPS_UNDOING && !task.is_reverse)
        status = begin_undo(walk, &state);
    if (status == STORE_DONE && state != walk->list.state)
        status = save_state(walk, state);
    return status == STORE_DONE && walk->follow->arena->failed ? STORE_NO_MEMORY : status;
}

enum store_status queue_steps_follow(const struct store_task *ended,
                                     const struct undo_response *response,
                                     struct courier_follow *follow)
{
    struct walk walk = {.follow = follow, .ended = ended};
    bool is_found = false;
    if (ended->list_id == 0 || ended->task.state < TASK_DONE)
        return STORE_DONE;
    enum store_status status = read_list(&walk, &is_found);
    if (status != STORE_DONE || !is_found)
        return status;
    if (ended->step > 0 && ended->task.state == TASK_DONE)
        status = fill_undo(&walk, response);
    return status == STORE_DONE ? go_on(&walk, walk.list.state) : status;
}

/* ---- a person ---- */

/* Where a reverse is given up, the next one is due. */
static enum store_status free_next(struct walk *walk)
{
    for (size_t i = 0; i < walk->tasks.n; i++) {
        const struct store_task *other = task_at(walk, i);
        if (other->step <= walk->ended->step || other->step > 0 || !task_is_open(&other->task))
            continue;
        struct store_task *next = keep(walk, other, sizeof *next);
        if (!next)
            return STORE_NO_MEMORY;
        if (next->task.state != TASK_WAITING)
            return STORE_DONE;
        next->task.due_at = walk->now;
        store_task_settle(next);
        bring(walk, &task_table, TABLE_UPDATE, &next->row, NULL);
        return STORE_DONE;
    }
    return STORE_DONE;
}

static enum store_status apply(struct walk *walk, struct store_task *task,
                               const struct queue_steps_wish *wish)
{
    static const struct task_terms keeps = {TASK_KEEP_DONE_US, TASK_KEEP_DEAD_US, false};
    bool is_reverse = task->step < 0;
    enum steps_state from = steps_unpark(is_reverse);
    const struct store_task before = *task;
    if (wish->act == QUEUE_STEPS_RETRY)
        task_retry(&task->task, true, walk->now);
    else
        task_drop(&task->task, &keeps, walk->now);
    store_task_settle(task);
    bring(walk, &task_table, TABLE_UPDATE, &task->row, NULL);
    struct store_task_audit *audit = arena_alloc(walk->follow->arena, sizeof *audit);
    if (!audit)
        return STORE_NO_MEMORY;
    *audit = store_audit_task(&wish->actor, wish->act == QUEUE_STEPS_RETRY ? "retry" : "drop",
                              &before, task, walk->now);
    struct courier_follow *follow = walk->follow;
    CHECK(follow->n + STORE_AUDIT_CHANGES <= follow->most);
    follow->n += store_audit_add(audit, &wish->actor, &follow->changes[follow->n]);
    enum store_status status =
        wish->act == QUEUE_STEPS_DROP && is_reverse ? free_next(walk) : STORE_DONE;
    return status == STORE_DONE ? go_on(walk, from) : status;
}

static enum store_status try_act(struct courier_follow *follow, const struct queue_steps_wish *wish,
                                 struct queue_steps_acted *ret_acted)
{
    const struct table_row *row = NULL;
    bool is_found = false;
    ret_acted->end = QUEUE_STEPS_NONE;
    enum store_status status = find_row(follow, &task_table, wish->id, &row);
    if (!row || ((const struct store_task *)row)->list_id == 0)
        return status;
    struct store_task task = *(const struct store_task *)row;
    struct walk walk = {.follow = follow, .ended = &task};
    status = read_list(&walk, &is_found);
    if (!is_found)
        return status;
    bool may = task.task.state == TASK_DEAD &&
               (walk.list.state == STEPS_PARKED || store_task_reason(&task) == TASK_REASON_ODD_ROW);
    *ret_acted = (struct queue_steps_acted){may ? QUEUE_STEPS_ACTED : QUEUE_STEPS_CLOSED,
                                            walk.list.row.id, walk.list.state};
    status = may ? apply(&walk, &task, wish) : STORE_DONE;
    if (!may || status != STORE_DONE)
        return status;
    struct store_op op = {.kind = STORE_ROWS, .brings = follow->changes, .n_brings = follow->n};
    store_run(follow->store, &op, follow->parker, clock_after(clock_boot_us(), STORE_US));
    return op.status;
}

enum store_status queue_steps_act(struct store *store, const struct queue_steps_wish *wish,
                                  struct parker *parker, struct queue_steps_acted *ret_acted)
{
    struct table_change changes[COURIER_FOLLOW_MAX];
    enum store_status status = STORE_CONFLICT;
    for (int try = 0; try < TRIES_MOST && status == STORE_CONFLICT; try++) {
        ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
        struct courier_follow follow = {.store = store,
                                        .parker = parker,
                                        .arena = &arena,
                                        .changes = changes,
                                        .most = COURIER_FOLLOW_MAX};
        status = try_act(&follow, wish, ret_acted);
    }
    return status;
}
