/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/fanout.h"

#include "base/check.h"
#include "base/crash.h"
#include "base/mem.h"
#include "store/rows.h"
#include "store/tables/tasks.h"
#include <assert.h>

#define ARENA_MAX ((size_t)256 * 1024 * 1024)
#define PAGE 64
#define TASKS_MOST 100000 /* that tell one event */
#define AGAIN_US (INT64_C(86400) * CLOCK_US_PER_S)

static_assert(PAGE < TABLE_BRINGS_MAX, "a page of events is swept in one commit");

/* What one commit brings. */
struct commit {
    struct rows rows;
    struct audience audience;
    bool has_renamed; /* one of it had another name before */
    struct store_task tasks[TABLE_BRINGS_MAX];
    struct store_event events[PAGE];
    struct table_change changes[TABLE_BRINGS_MAX];
    size_t n_tasks;
    size_t n_events;
};

static struct commit *new_commit(const struct rows *rows)
{
    struct commit *commit = mem_zalloc(1, sizeof *commit);
    if (!commit)
        return NULL;
    commit->rows = *rows;
    commit->rows.changes = commit->changes;
    commit->rows.most = TABLE_BRINGS_MAX;
    return commit;
}

static enum store_status save_commit(struct commit *commit)
{
    commit->rows.begins = commit->n_tasks > 0;
    enum store_status status = rows_save(&commit->rows);
    commit->rows.n = commit->n_tasks = commit->n_events = 0;
    return status;
}

static struct store_task make_delivery_task(const struct audience_member *endpoint,
                                            const struct store_event *event, int64_t now)
{
    struct store_task task = {.kind = SLICE(WEBHOOK_KIND),
                              .lane = endpoint->name,
                              .key = event->id,
                              .ord = endpoint->ordered ? endpoint->name : SLICE(""),
                              .skips = endpoint->skips,
                              .event = event->row.id,
                              .envelope = endpoint->envelope,
                              .endpoint = endpoint->row,
                              .task = {.due_at = now,
                                       .deadline_at = CLOCK_NEVER,
                                       .profile = endpoint->retry,
                                       .created_at = now,
                                       .gone_at = CLOCK_NEVER}};
    store_task_derive(&task);
    return task;
}

static void add_task(struct commit *commit, const struct audience_member *endpoint,
                     const struct store_event *event, int64_t now)
{
    CHECK(commit->n_tasks < TABLE_BRINGS_MAX && event->row.id != 0);
    struct store_task *task = &commit->tasks[commit->n_tasks++];
    *task = make_delivery_task(endpoint, event, now);
    rows_put(&commit->rows, TABLE_INSERT, &task_table, &task->row, NULL);
}

static void add_mark(struct commit *commit, const struct store_event *event, int64_t now)
{
    CHECK(commit->n_events < PAGE && event->is_new);
    struct store_event *marked = &commit->events[commit->n_events++];
    *marked = *event;
    marked->is_new = false;
    marked->fanned_at = now;
    marked->gone_at = clock_after(now, commit->audience.keep_us);
    rows_put(&commit->rows, TABLE_UPDATE, &event_table, &marked->row, NULL);
}

static size_t count_wanting_endpoints(const struct audience *audience,
                                      const struct store_event *event)
{
    size_t n = 0;
    for (size_t i = 0; i < audience->n; i++)
        n += audience_wants(&audience->at[i], event);
    return n;
}

static bool has_renamed(const struct audience *audience)
{
    size_t i = 0;
    while (i < audience->n && !(audience->at[i].entry && audience->at[i].entry->others))
        i++;
    return i < audience->n;
}

/* ---- one event alone ---- */

/* Lanes that have the event's task already, whatever event that says it is of. */
struct taken {
    struct slice *lanes; /* room for each member of the audience */
    size_t n;
};

static bool has_task(const struct store_found *there, const struct taken *taken, struct slice lane)
{
    bool has = false;
    for (size_t i = 0; i < there->n && !has; i++)
        has = slice_eq(((const struct store_task *)there->rows[i])->lane, lane);
    for (size_t i = 0; i < taken->n && !has; i++)
        has = slice_eq(taken->lanes[i], lane);
    return has;
}

/* Under any of its names: the event may have been told to it under the one before. */
static bool is_told(const struct store_found *there, const struct taken *taken,
                    const struct audience_member *endpoint)
{
    bool is = has_task(there, taken, endpoint->name);
    for (const struct census_entry *at = endpoint->entry ? endpoint->entry->others : NULL;
         at && !is; at = at->next)
        is = has_task(there, taken, at->row.name);
    return is;
}

static enum store_status find_tasks(const struct rows *asking, int64_t event, size_t most,
                                    struct arena *arena, struct store_found *ret_found)
{
    struct rows rows = *asking;
    const struct store_task like = {.event = event};
    const struct table_query query = {.table = &task_table,
                                      .by = TABLE_BY_INDEX,
                                      .like = &like.row,
                                      .index = &task_indexes[TASK_BY_EVENT],
                                      .prefix = 1,
                                      .limit = most};
    rows.arena = arena;
    return rows_find(&rows, &query, ret_found);
}

/* A part of its tasks goes with a touch of the event, so that of several processes, which may know
 * its endpoints by different names, each sees what was told before. */
static void add_touch(struct commit *commit, struct store_event *event)
{
    rows_put(&commit->rows, TABLE_TOUCH, &event_table, &event->row, NULL);
}

/* The event's own change is the last. Where tasks conflict, whoever reads them by the event does
 * not find them. */
static enum store_status save_event_alone(struct commit *commit, struct taken *taken)
{
    size_t n = commit->rows.n;
    enum store_status status = save_commit(commit);
    for (size_t i = 0; i < n && status == STORE_CONFLICT; i++)
        if (commit->changes[i].table == &task_table && commit->changes[i].is_stale &&
            taken->n < commit->audience.n)
            taken->lanes[taken->n++] = ((struct store_task *)commit->changes[i].row)->lane;
    return status;
}

/* In as many commits as it takes; the mark is in the last one. Tasks that are there are left. */
static enum store_status try_alone(struct commit *commit, struct store_event *event, int64_t now,
                                   struct taken *taken)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct store_found there;
    enum store_status status = find_tasks(&commit->rows, event->row.id, TASKS_MOST, &arena, &there);
    for (size_t i = 0; i < commit->audience.n && status == STORE_DONE; i++) {
        const struct audience_member *endpoint = &commit->audience.at[i];
        if (!audience_wants(endpoint, event) || is_told(&there, taken, endpoint))
            continue;
        add_task(commit, endpoint, event, now);
        if (commit->rows.n < TABLE_BRINGS_MAX - 1)
            continue;
        add_touch(commit, event);
        status = save_event_alone(commit, taken);
        CRASH_POINT(inside_fan_out);
    }
    if (status != STORE_DONE)
        return status;
    add_mark(commit, event, now);
    return save_event_alone(commit, taken);
}

/* Again for as long as a task is found that was not known. */
static enum store_status fan_alone(struct commit *commit, const struct store_event *found,
                                   int64_t now)
{
    struct store_event event = *found;
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct taken taken = {.lanes =
                              arena_alloc(&arena, (commit->audience.n + 1) * sizeof *taken.lanes)};
    enum store_status status = taken.lanes ? STORE_DONE : STORE_NO_MEMORY;
    size_t known = 0;
    do {
        known = taken.n;
        if (status != STORE_NO_MEMORY)
            status = try_alone(commit, &event, now, &taken);
    } while (status == STORE_CONFLICT && taken.n > known);
    return status;
}

/* ---- a page of them ---- */

/* Whether a part of its tasks may have been made, for endpoints that have another name since. */
static bool may_be_begun(const struct commit *commit, const struct store_event *event)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct store_found there;
    return commit->has_renamed &&
           (find_tasks(&commit->rows, event->row.id, 1, &arena, &there) != STORE_DONE ||
            there.n > 0);
}

/* As many as fit into one commit, from the first one on. 0: not even that one. */
static size_t gather_events(struct commit *commit, const struct store_found *found, size_t first)
{
    const struct audience *audience = &commit->audience;
    size_t at = first;
    for (; at < found->n; at++) {
        const struct store_event *event = (const struct store_event *)found->rows[at];
        if (commit->rows.n + count_wanting_endpoints(audience, event) + 1 > TABLE_BRINGS_MAX ||
            may_be_begun(commit, event))
            break;
        for (size_t i = 0; i < audience->n; i++)
            if (audience_wants(&audience->at[i], event))
                add_task(commit, &audience->at[i], event, found->now);
        add_mark(commit, event, found->now);
    }
    return at - first;
}

static enum store_status fan_page(struct commit *commit, const struct store_found *found,
                                  size_t *ret_n)
{
    enum store_status status = STORE_DONE;
    for (*ret_n = 0; *ret_n < found->n && status == STORE_DONE;) {
        size_t n = gather_events(commit, found, *ret_n);
        if (n > 0)
            status = save_commit(commit);
        if (n == 0 || status == STORE_CONFLICT) {
            n = 1;
            status = fan_alone(commit, (const struct store_event *)found->rows[*ret_n], found->now);
        }
        if (status == STORE_DONE)
            *ret_n += n;
    }
    return status;
}

enum store_status fanout_step(const struct fanout *fanout, size_t *ret_n, bool *ret_more)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct rows rows = {.store = fanout->store, .parker = fanout->parker, .arena = &arena};
    const struct store_event like = {.is_new = true};
    const struct table_query query = {.table = &event_table,
                                      .by = TABLE_BY_INDEX,
                                      .like = &like.row,
                                      .index = &event_indexes[EVENT_BY_NEW],
                                      .prefix = 1,
                                      .is_sound_only = true,
                                      .limit = PAGE};
    struct store_found found;
    enum store_status status = rows_find(&rows, &query, &found);
    *ret_n = 0;
    *ret_more = false;
    if (status != STORE_DONE || found.n == 0)
        return status;
    struct commit *commit = new_commit(&rows);
    if (!commit)
        return STORE_NO_MEMORY;
    status = fanout->gather(fanout->argument, &arena, &commit->audience);
    commit->has_renamed = has_renamed(&commit->audience);
    bool is_for_anybody = status == STORE_DONE && commit->audience.n > 0;
    if (is_for_anybody)
        status = fan_page(commit, &found, ret_n);
    mem_free(commit);
    *ret_more = is_for_anybody && (status == STORE_CONFLICT || found.n == PAGE);
    return status == STORE_CONFLICT ? STORE_DONE : status;
}

/* ---- what is over ---- */

static enum store_status sweep_one(struct rows *rows, struct store_event *event)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct store_found there;
    enum store_status status = find_tasks(rows, event->row.id, 1, &arena, &there);
    if (status != STORE_DONE)
        return status;
    event->gone_at = clock_after(rows->now, AGAIN_US);
    rows_put(rows, there.n > 0 ? TABLE_UPDATE : TABLE_REMOVE, &event_table, &event->row, NULL);
    return STORE_DONE;
}

enum store_status fanout_sweep(const struct fanout *fanout, bool *ret_more)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct table_change changes[PAGE];
    struct rows rows = {.store = fanout->store,
                        .parker = fanout->parker,
                        .arena = &arena,
                        .changes = changes,
                        .most = PAGE};
    const struct store_event like = {0};
    const struct table_query query = {.table = &event_table,
                                      .by = TABLE_BY_INDEX,
                                      .like = &like.row,
                                      .index = &event_indexes[EVENT_BY_GONE],
                                      .is_sound_only = true,
                                      .limit = PAGE};
    struct store_found found;
    enum store_status status = rows_find(&rows, &query, &found);
    for (size_t i = 0; i < found.n && status == STORE_DONE; i++)
        status = sweep_one(&rows, (struct store_event *)found.rows[i]);
    if (status == STORE_DONE)
        status = rows_save(&rows);
    *ret_more = status == STORE_DONE && found.n == PAGE;
    return status == STORE_CONFLICT ? STORE_DONE : status;
}
