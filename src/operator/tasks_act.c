/* SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "base/crash.h"
#include "base/mem.h"
#include "operator/tasks.h"
#include "store/rows.h"
#include "store/tables/events.h"
#include "store/tables/orders.h"
#include "webhook/fanout.h"
#include "webhook/handler.h"

#define ARENA_MAX ((size_t)16 * 1024 * 1024)

static const char *const act_names[] = {[TASKS_RETRY] = "retry",
                                        [TASKS_REPLAY] = "replay",
                                        [TASKS_DROP] = "drop",
                                        [TASKS_SETTLE_DONE] = "settle --done",
                                        [TASKS_SETTLE_NOT] = "settle --not-done"};

/* ---- decisions ---- */

static enum tasks_end decide_task_act(const struct tasks_wish *wish,
                                      const struct store_task *stored)
{
    static const enum task_event events[] = {[TASKS_RETRY] = TASK_RETRY,
                                             [TASKS_REPLAY] = TASK_REPLAY,
                                             [TASKS_DROP] = TASK_DROP,
                                             [TASKS_SETTLE_DONE] = TASK_SETTLE,
                                             [TASKS_SETTLE_NOT] = TASK_SETTLE};
    enum task_state state = stored->task.state;
    if (stored->list_id != 0)
        return TASKS_LINKED;
    if (state == TASK_SENDING)
        return TASKS_SENDING;
    if (wish->version != 0 && stored->row.version != wish->version)
        return TASKS_CHANGED;
    return task_allows(state, events[wish->act]) ? TASKS_ACTED : TASKS_NOT_ALLOWED;
}

/* By the state of its endpoint, under the name that it has now; without a row it is enabled. */
static enum store_status judge_endpoint(const struct tasks_source *source, struct slice lane,
                                        enum tasks_end *end)
{
    CENSUS_AUTO struct census census = census_make();
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    enum store_status read = census_read(&census, source->store, source->parker);
    if (read != STORE_DONE)
        return read;
    const struct census_entry *entry = census_find(&census, SLICE(WEBHOOK_KIND), lane);
    struct store_endpoint state = {.name = entry ? census_heir(entry)->row.name : lane};
    struct rows rows = tasks_rows(source, &arena);
    enum store_status status = rows_find_one(&rows, &endpoint_table, &state.row);
    if (state.row.id != 0 && state.is_disabled)
        *end = TASKS_DISABLED;
    return status;
}

static enum store_status judge_replay(const struct tasks_source *source,
                                      const struct tasks_wish *wish,
                                      const struct store_task *stored, int64_t now,
                                      enum tasks_end *end)
{
    const struct task *task = &stored->task;
    if (wish->act != TASKS_REPLAY || wish->actor.force || *end != TASKS_ACTED)
        return STORE_DONE;
    if (slice_eq(stored->kind, SLICE(WEBHOOK_KIND)))
        return judge_endpoint(source, stored->lane, end);
    if (slice_eq(stored->kind, SLICE(INBOX_KIND)) && task->first_at != 0 &&
        now > clock_after(task->first_at, TASKS_WINDOW_US))
        *end = TASKS_LATE;
    return STORE_DONE;
}

/* A person knows that none of its attempts had its effect. */
static void end_task_doubt(struct store_task *stored)
{
    enum task_reason reason = store_task_reason(stored);
    stored->task.in_doubt = false;
    if (reason == TASK_REASON_IN_DOUBT || reason == TASK_REASON_HAPPENED)
        stored->task.reason = TASK_REASON_FINAL;
}

static void apply_tasks_wish(const struct tasks_wish *wish, struct store_task *stored, int64_t now)
{
    struct task *task = &stored->task;
    switch (wish->act) {
    case TASKS_RETRY:
    case TASKS_REPLAY:
        task_retry(task, true, clock_after(now, wish->after_us));
        return;
    case TASKS_DROP:
        task_drop(task, &task_terms_of_acts, now);
        return;
    case TASKS_SETTLE_DONE:
        task_settle(task, TASK_DONE, TASK_REASON_ALREADY, &task_terms_of_acts, now);
        return;
    case TASKS_SETTLE_NOT:
        end_task_doubt(stored);
        return;
    }
    UNREACHABLE();
}

/* ---- writing ---- */

/* An act under way. */
struct acting {
    const struct tasks_source *source;
    const struct tasks_wish *wish;
    struct tasks_acted *acted;
    struct store_task_audit audit;
    struct store_request request; /* with the response that a person gave */
};

/* Where the first of an order ends, the next one is due. */
static enum store_status free_order(struct rows *rows, const struct store_task *stored)
{
    bool is_first =
        stored->task.state == TASK_DEAD ? stored->task.holds : stored->task.due_at != CLOCK_NEVER;
    return is_first ? order_put_next(rows, stored) : STORE_DONE;
}

/* What a person was told, or found. */
static void keep_response(struct rows *rows, struct acting *acting, const struct tasks_whole *whole)
{
    if (acting->wish->response.len == 0 || !whole->request)
        return;
    acting->request = *whole->request;
    acting->request.response = acting->wish->response;
    rows_put(rows, TABLE_UPDATE, &request_table, &acting->request.row, NULL);
}

static enum store_status act_on_task(struct rows *rows, struct acting *acting,
                                     const struct tasks_whole *whole)
{
    const struct tasks_wish *wish = acting->wish;
    struct store_task stored = *whole->stored;
    acting->acted->state = stored.task.state;
    acting->acted->end = decide_task_act(wish, &stored);
    enum store_status status =
        judge_replay(acting->source, wish, &stored, whole->now, &acting->acted->end);
    if (status != STORE_DONE || acting->acted->end != TASKS_ACTED)
        return status;
    if (wish->act == TASKS_DROP || wish->act == TASKS_SETTLE_DONE)
        status = free_order(rows, whole->stored);
    if (status != STORE_DONE)
        return status;
    apply_tasks_wish(wish, &stored, whole->now);
    store_task_derive(&stored);
    rows_put(rows, TABLE_UPDATE, &task_table, &stored.row, NULL);
    keep_response(rows, acting, whole);
    acting->audit =
        store_audit_task(&wish->actor, act_names[wish->act], whole->stored, &stored, whole->now);
    store_audit_put(&acting->audit, &wish->actor, rows);
    return wish->saver ? wish->saver->save(wish->saver, rows) : rows_save(rows);
}

static enum store_status try_task_act(struct rows *rows, struct acting *acting)
{
    TASKS_WHOLE_AUTO struct tasks_whole whole = {0};
    arena_reset(rows->arena);
    *acting->acted = (struct tasks_acted){.end = TASKS_NOT_FOUND};
    enum store_status status = tasks_read(acting->source, acting->wish->id, &whole);
    return status == STORE_DONE && whole.stored ? act_on_task(rows, acting, &whole) : status;
}

enum store_status tasks_act(const struct tasks_source *source, const struct tasks_wish *wish,
                            struct tasks_acted *ret_acted)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct acting acting = {.source = source, .wish = wish, .acted = ret_acted};
    struct rows rows = tasks_rows(source, &arena);
    enum store_status status = STORE_CONFLICT;
    while (rows_try_again(&rows, &status))
        status = try_task_act(&rows, &acting);
    return status;
}

/* ---- many ---- */

#define LANES_MANY_MOST ((size_t)1024) /* beyond them lanes share a count */

/* How many of a lane are sent again so far. */
struct lane_count {
    struct slice lane;
    size_t n;
};

struct acting_on_many {
    const struct tasks_source *source;
    const struct tasks_many *many;
    size_t *n; /* by what came of them */
    size_t n_all;
    struct arena arena; /* names of lanes */
    struct lane_count lanes[LANES_MANY_MOST];
    size_t n_lanes;
};

/* Of one lane that comes after all others had a place: the last one's. */
static struct lane_count *count_of(struct acting_on_many *acting, struct slice lane)
{
    for (size_t i = 0; i < acting->n_lanes; i++)
        if (slice_eq(acting->lanes[i].lane, lane))
            return &acting->lanes[i];
    if (acting->n_lanes == LANES_MANY_MOST)
        return &acting->lanes[LANES_MANY_MOST - 1];
    struct lane_count *count = &acting->lanes[acting->n_lanes++];
    *count = (struct lane_count){.lane = arena_copy(&acting->arena, lane)};
    return count;
}

static enum store_status act_on_row(struct acting_on_many *acting, const struct store_task *stored)
{
    const struct tasks_many *many = acting->many;
    struct lane_count *lane = count_of(acting, stored->lane);
    struct tasks_wish wish = many->wish;
    struct tasks_acted acted = {0};
    enum store_status status = STORE_DONE;
    CRASH_POINT(between_acts);
    wish.id = stored->row.id;
    wish.version = stored->row.version;
    wish.after_us = many->rate > 0 ? (int64_t)(lane->n * CLOCK_US_PER_S / many->rate) : 0;
    if (many->dry_run)
        acted.end = decide_task_act(&wish, stored);
    else
        status = tasks_act(acting->source, &wish, &acted);
    if (status != STORE_DONE)
        return status;
    lane->n += acted.end == TASKS_ACTED;
    acting->n[acted.end]++;
    if (many->each)
        many->each(many->argument, ++acting->n_all);
    return STORE_DONE;
}

enum store_status tasks_act_on_many(const struct tasks_source *source,
                                    const struct tasks_many *many, size_t ret_n[TASKS_END_COUNT])
{
    struct acting_on_many *acting = mem_zalloc(1, sizeof *acting);
    struct tasks_wanted wanted = many->wanted;
    enum store_status status = acting ? STORE_DONE : STORE_NO_MEMORY;
    if (!acting)
        return status;
    memset(ret_n, 0, TASKS_END_COUNT * sizeof *ret_n);
    acting->source = source;
    acting->many = many;
    acting->n = ret_n;
    acting->arena = arena_make(ARENA_MAX);
    do {
        TASKS_PAGE_AUTO struct tasks_page page = {0};
        status = tasks_list(source, &wanted, &page);
        for (size_t i = 0; i < page.n && status == STORE_DONE; i++)
            if (!many->holding || page.rows[i].stored->task.holds)
                status = act_on_row(acting, page.rows[i].stored);
        wanted.after = page.next;
    } while (status == STORE_DONE && wanted.after != 0);
    arena_fini(&acting->arena);
    mem_free(acting);
    return status;
}

/* ---- pauses ---- */

/* A lane without a pause has no row, save that its breaker may be open. */
static enum store_status try_pause(struct rows *rows, const struct store_lane *wanted, bool resume,
                                   const struct store_actor *actor, bool *ret_changed)
{
    struct store_lane lane = *wanted, found = lane;
    arena_reset(rows->arena);
    enum store_status status = rows_find_one(rows, &lane_table, &found.row);
    bool is_paused = found.row.id != 0 && found.state == STORE_LANE_PAUSED;
    *ret_changed = status == STORE_DONE && is_paused == resume;
    if (!*ret_changed)
        return status;
    lane.row = found.row;
    lane.since = store_now(rows->store);
    struct store_task_audit audit = {.at = lane.since,
                                     .actor = actor->name,
                                     .act = resume ? SLICE("resume") : SLICE("pause"),
                                     .kind = lane.kind,
                                     .lane = lane.lane,
                                     .key = lane.ord,
                                     .from = resume ? SLICE("paused") : SLICE(""),
                                     .to = resume ? SLICE("") : SLICE("paused")};
    enum table_act act = resume ? TABLE_REMOVE : lane.row.id != 0 ? TABLE_UPDATE : TABLE_INSERT;
    rows_put(rows, act, &lane_table, &lane.row, NULL);
    store_audit_put(&audit, actor, rows);
    return rows_save(rows);
}

enum store_status tasks_pause(const struct tasks_source *source, const struct store_lane *lane,
                              bool resume, const struct store_actor *actor, bool *ret_changed)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct store_lane wanted = *lane;
    struct rows rows = tasks_rows(source, &arena);
    enum store_status status = STORE_CONFLICT;
    wanted.kind = source->kind;
    while (rows_try_again(&rows, &status))
        status = try_pause(&rows, &wanted, resume, actor, ret_changed);
    return status;
}
