/* SPDX-License-Identifier: Apache-2.0 */
#include "store/tasks.h"

#include "base/check.h"

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* ---- tasks ---- */

/* X(kind, role, field, name). */
#define TASK_COLUMNS(X)                                                                            \
    X(TEXT, PLAIN, kind, kind)                                                                     \
    X(TEXT, PLAIN, lane, lane)                                                                     \
    X(TEXT, PLAIN, key, key)                                                                       \
    X(TEXT, PLAIN, ord, ord)                                                                       \
    X(INT, PLAIN, task.state, state)                                                               \
    X(INT, PLAIN, task.holds, holds)                                                               \
    X(INT, DUE, task.due_at, due_at)                                                               \
    X(INT, PLAIN, task.first_at, first_at)                                                         \
    X(INT, PLAIN, task.deadline_at, deadline_at)                                                   \
    X(INT, PLAIN, lasts_us, lasts_us)                                                              \
    X(INT, PLAIN, skips, skips)                                                                    \
    X(INT, PLAIN, task.profile, profile)                                                           \
    X(INT, PLAIN, task.attempts, attempts)                                                         \
    X(INT, PLAIN, task.tries, tries)                                                               \
    X(INT, PLAIN, task.replay, replay)                                                             \
    X(INT, PLAIN, task.lease_until, lease_until)                                                   \
    X(INT, PLAIN, task.owner, owner)                                                               \
    X(INT, PLAIN, task.in_doubt, in_doubt)                                                         \
    X(INT, PLAIN, task.status, status)                                                             \
    X(INT, PLAIN, task.reason, reason)                                                             \
    X(INT, PLAIN, task.created_at, created_at)                                                     \
    X(INT, PLAIN, task.ended_at, ended_at)                                                         \
    X(INT, GONE, task.gone_at, gone_at)                                                            \
    X(INT, PLAIN, event, event)                                                                    \
    X(INT, LINK, list_id, list_id)                                                                 \
    X(INT, PLAIN, step, step)                                                                      \
    X(TEXT, PLAIN, running, running_ord)                                                           \
    X(TEXT, PLAIN, open, open_ord)

static const struct table_column task_columns[] = {
#define X(kind, role, field, name) TABLE_COLUMN(struct store_task, kind, role, field, #name),
    TASK_COLUMNS(X)
#undef X
};

enum task_column {
#define X(kind, role, field, name) COLUMN_##name,
    TASK_COLUMNS(X)
#undef X
};

const struct table_index task_indexes[TASK_INDEX_COUNT] = {
    [TASK_BY_KEY] = {.name = "key",
                     .columns = {COLUMN_kind, COLUMN_lane, COLUMN_key},
                     .n_columns = 3,
                     .is_unique = true},
    [TASK_BY_LANE] = {.name = "lane",
                      .columns = {COLUMN_kind, COLUMN_lane, COLUMN_due_at},
                      .n_columns = 3,
                      .is_partial = true},
    [TASK_BY_ORDER] = {.name = "open",
                       .columns = {COLUMN_kind, COLUMN_open_ord},
                       .n_columns = 2,
                       .is_partial = true},
    [TASK_BY_RUNNING] = {.name = "running",
                         .columns = {COLUMN_kind, COLUMN_running_ord},
                         .n_columns = 2,
                         .is_unique = true,
                         .is_partial = true},
    [TASK_BY_LEASE] = {.name = "lease",
                       .columns = {COLUMN_kind, COLUMN_lease_until},
                       .n_columns = 2,
                       .is_partial = true},
    [TASK_BY_STATE] = {.name = "state", .columns = {COLUMN_kind, COLUMN_state}, .n_columns = 2},
    [TASK_BY_STEP] = {.name = "step",
                      .columns = {COLUMN_list_id, COLUMN_step},
                      .n_columns = 2,
                      .is_partial = true},
    [TASK_BY_EVENT] = {.name = "event",
                       .columns = {COLUMN_event},
                       .n_columns = 1,
                       .is_partial = true},
};

static bool is_task(const void *row)
{
    const struct task *task = &((const struct store_task *)row)->task;
    return (unsigned)task->state <= TASK_DROPPED && (unsigned)task->profile < RETRY_PROFILE_COUNT &&
           (unsigned)task->reason < TASK_REASON_COUNT;
}

const struct table task_table = {
    .name = "pawl_task",
    .columns = task_columns,
    .n_columns = COUNT_OF(task_columns),
    .indexes = task_indexes,
    .n_indexes = COUNT_OF(task_indexes),
    .row_size = sizeof(struct store_task),
    .is_sound = is_task,
};

void store_task_settle(struct store_task *stored)
{
    struct task *task = &stored->task;
    bool waits = task->state == TASK_WAITING, sends = task->state == TASK_SENDING;
    CHECK(!task->holds || task->state == TASK_DEAD);
    stored->running = sends ? stored->ord : SLICE("");
    stored->open = waits || sends || task->holds ? stored->ord : SLICE("");
    task->due_at = waits ? task->due_at : CLOCK_NEVER;
    task->lease_until = sends ? task->lease_until : 0;
    task->owner = sends ? task->owner : 0;
    task->gone_at = task->ended_at != 0 ? task->gone_at : CLOCK_NEVER;
}

/* ---- what goes with them ---- */

#define REQUEST(kind, field) TABLE_COLUMN(struct store_request, kind, PLAIN, field, #field)

static const struct table_column request_columns[] = {
    REQUEST(TEXT, method), REQUEST(TEXT, url),   REQUEST(BYTES, fields),  REQUEST(BYTES, body),
    REQUEST(INT, packed),  REQUEST(BYTES, undo), REQUEST(TEXT, undo_key), REQUEST(BYTES, response),
};

const struct table request_table = {
    .name = "pawl_request",
    .columns = request_columns,
    .n_columns = COUNT_OF(request_columns),
    .parent = &task_table,
    .row_size = sizeof(struct store_request),
};

#define ATTEMPT(kind, role, field, name) TABLE_COLUMN(struct store_attempt, kind, role, field, name)

static const struct table_column attempt_columns[] = {
    ATTEMPT(INT, PARENT, task, "task_id"),   ATTEMPT(INT, PLAIN, n, "n"),
    ATTEMPT(INT, PLAIN, at, "at"),           ATTEMPT(INT, PLAIN, wait_us, "wait_us"),
    ATTEMPT(INT, PLAIN, took_us, "took_us"), ATTEMPT(INT, PLAIN, status, "status"),
    ATTEMPT(INT, PLAIN, reason, "reason"),   ATTEMPT(BYTES, PLAIN, answer, "answer"),
};

const struct table_index attempt_index = {
    .name = "n", .columns = {0, 1}, .n_columns = 2, .is_unique = true};

static bool is_attempt(const void *row)
{
    return (unsigned)((const struct store_attempt *)row)->reason < TASK_REASON_COUNT;
}

const struct table attempt_table = {
    .name = "pawl_attempt",
    .columns = attempt_columns,
    .n_columns = COUNT_OF(attempt_columns),
    .indexes = &attempt_index,
    .n_indexes = 1,
    .parent = &task_table,
    .row_size = sizeof(struct store_attempt),
    .is_sound = is_attempt,
};

/* ---- lanes, lists, counters ---- */

#define LANE(kind, role, field) TABLE_COLUMN(struct store_lane, kind, role, field, #field)

static const struct table_column lane_columns[] = {
    LANE(TEXT, KEY, kind),   LANE(TEXT, KEY, lane),   LANE(TEXT, KEY, ord),
    LANE(INT, PLAIN, state), LANE(INT, PLAIN, until), LANE(TEXT, PLAIN, why),
    LANE(INT, PLAIN, since),
};

static bool is_lane(const void *row)
{
    enum store_lane_state state = ((const struct store_lane *)row)->state;
    return state >= STORE_LANE_PAUSED && state <= STORE_LANE_BROKEN;
}

const struct table lane_table = {
    .name = "pawl_lane",
    .columns = lane_columns,
    .n_columns = COUNT_OF(lane_columns),
    .row_size = sizeof(struct store_lane),
    .is_sound = is_lane,
};

#define LIST(kind, role, field) TABLE_COLUMN(struct store_task_list, kind, role, field, #field)

static const struct table_column list_columns[] = {
    LIST(TEXT, PLAIN, name),
    LIST(INT, PLAIN, state),
    LIST(INT, PLAIN, created_at),
    LIST(INT, GONE, gone_at),
};

static bool is_list(const void *row)
{
    enum steps_state state = ((const struct store_task_list *)row)->state;
    return state >= STEPS_RUNNING && state <= STEPS_PARKED;
}

const struct table task_list_table = {
    .name = "pawl_list",
    .columns = list_columns,
    .n_columns = COUNT_OF(list_columns),
    .row_size = sizeof(struct store_task_list),
    .is_sound = is_list,
};

#define COUNTER(kind, role, field) TABLE_COLUMN(struct store_counter, kind, role, field, #field)

static const struct table_column counter_columns[] = {
    COUNTER(TEXT, KEY, name),
    COUNTER(TEXT, KEY, labels),
    COUNTER(INT, KEY, slot),
    COUNTER(INT, SUM, value),
};

const struct table counter_table = {
    .name = "pawl_counter",
    .columns = counter_columns,
    .n_columns = COUNT_OF(counter_columns),
    .row_size = sizeof(struct store_counter),
};
