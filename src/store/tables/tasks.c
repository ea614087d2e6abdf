/* SPDX-License-Identifier: Apache-2.0 */
#include "store/tables/tasks.h"

#include "base/arena.h"
#include "base/check.h"
#include "base/compress/compress.h"

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
/* X(kind, field, name): those that are late. */
#define TASK_LATE(X)                                                                               \
    X(INT, envelope, envelope)                                                                     \
    X(INT, endpoint, endpoint)                                                                     \
    X(INT, why, why)                                                                               \
    X(INT, task.busy_since, busy_since)

static const struct table_column task_columns[] = {
#define X(kind, role, field, name) TABLE_COLUMN(struct store_task, kind, role, field, #name),
    TASK_COLUMNS(X)
#undef X
#define X(kind, field, name) TABLE_LATE(struct store_task, kind, field, #name),
        TASK_LATE(X)
#undef X
};

enum task_column {
#define X(kind, role, field, name) COLUMN_##name,
    TASK_COLUMNS(X)
#undef X
#define X(kind, field, name) COLUMN_##name,
        TASK_LATE(X)
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

/* What core/task.c and store_task_derive make of a task. */
#define FINISHED TASK_DONE, TASK_DROPPED
#define UNFINISHED TASK_WAITING, TASK_SENDING

static const struct table_relation task_relations[] = {
    TABLE_GROWS(COLUMN_state, 0, TASK_STATE_COUNT - 1),
    TABLE_GROWS(COLUMN_profile, 0, RETRY_PROFILE_COUNT - 1),
    TABLE_GROWS(COLUMN_reason, 0, TASK_REASON_COUNT - 1),
    TABLE_WITHIN(COLUMN_due_at, 0, CLOCK_NEVER),
    TABLE_WITHIN(COLUMN_first_at, 0, CLOCK_NEVER),
    TABLE_WITHIN(COLUMN_deadline_at, 0, CLOCK_NEVER),
    TABLE_WITHIN(COLUMN_lasts_us, 0, CLOCK_NEVER),
    TABLE_WITHIN(COLUMN_attempts, 0, TASK_ATTEMPTS_MOST),
    TABLE_WITHIN(COLUMN_tries, 0, TASK_ATTEMPTS_MOST),
    TABLE_WITHIN(COLUMN_status, 0, TASK_STATUS_MOST),
    TABLE_WITHIN(COLUMN_created_at, 0, CLOCK_NEVER),
    TABLE_WITHIN(COLUMN_event, 0, CLOCK_NEVER),
    TABLE_WITHIN(COLUMN_envelope, 0, CLOCK_NEVER),
    TABLE_WITHIN(COLUMN_endpoint, 0, CLOCK_NEVER),
    TABLE_WITHIN(COLUMN_why, 0, CLOCK_NEVER),
    TABLE_WITHIN(COLUMN_busy_since, 0, CLOCK_NEVER),
    TABLE_WITHIN(COLUMN_list_id, 0, CLOCK_NEVER),
    TABLE_WITHIN(COLUMN_step, -(int64_t)STEPS_MOST, (int64_t)STEPS_MOST),
    TABLE_WHERE(COLUMN_holds, 1, 1, COLUMN_state, TASK_DEAD, TASK_DEAD),
    TABLE_WHERE(COLUMN_state, TASK_SENDING, TASK_DROPPED, COLUMN_due_at, CLOCK_NEVER, CLOCK_NEVER),
    TABLE_WHERE(COLUMN_state, TASK_SENDING, TASK_SENDING, COLUMN_attempts, 1, TASK_ATTEMPTS_MOST),
    TABLE_WHERE(COLUMN_state, TASK_SENDING, TASK_SENDING, COLUMN_tries, 1, TASK_ATTEMPTS_MOST),
    TABLE_WHERE(COLUMN_state, TASK_SENDING, TASK_SENDING, COLUMN_lease_until, 1, CLOCK_NEVER),
    TABLE_WHERE(COLUMN_state, TASK_WAITING, TASK_WAITING, COLUMN_lease_until, 0, 0),
    TABLE_WHERE(COLUMN_state, TASK_WAITING, TASK_WAITING, COLUMN_owner, 0, 0),
    TABLE_WHERE(COLUMN_state, FINISHED, COLUMN_lease_until, 0, 0),
    TABLE_WHERE(COLUMN_state, FINISHED, COLUMN_owner, 0, 0),
    TABLE_WHERE(COLUMN_state, UNFINISHED, COLUMN_ended_at, 0, 0),
    TABLE_WHERE(COLUMN_state, UNFINISHED, COLUMN_gone_at, CLOCK_NEVER, CLOCK_NEVER),
    TABLE_WHERE(COLUMN_state, FINISHED, COLUMN_ended_at, 1, CLOCK_NEVER),
    TABLE_WHERE(COLUMN_state, FINISHED, COLUMN_gone_at, 1, CLOCK_NEVER),
    TABLE_EMPTY(COLUMN_state, TASK_WAITING, TASK_WAITING, COLUMN_running_ord),
    TABLE_EMPTY(COLUMN_state, FINISHED, COLUMN_running_ord),
    TABLE_EMPTY(COLUMN_state, TASK_DONE, TASK_DONE, COLUMN_open_ord),
    TABLE_EMPTY(COLUMN_state, TASK_DROPPED, TASK_DROPPED, COLUMN_open_ord),
    TABLE_AS(COLUMN_state, TASK_SENDING, TASK_SENDING, COLUMN_running_ord, COLUMN_ord),
    TABLE_AS(COLUMN_state, UNFINISHED, COLUMN_open_ord, COLUMN_ord),
    TABLE_AS(COLUMN_holds, 1, 1, COLUMN_open_ord, COLUMN_ord),
};

static int64_t number_or_none(int64_t number)
{
    return number > 0 ? number : 0;
}

/* Its order waits for it where it did, or where it would have to be sent. */
static void hold_task(void *row)
{
    struct store_task *stored = row;
    bool was_open = stored->open.len > 0 || (unsigned)stored->task.state <= TASK_SENDING;
    task_hold(&stored->task, was_open && stored->ord.len > 0);
    stored->lasts_us = number_or_none(stored->lasts_us);
    stored->event = number_or_none(stored->event);
    stored->envelope = number_or_none(stored->envelope);
    stored->endpoint = number_or_none(stored->endpoint);
    stored->list_id = number_or_none(stored->list_id);
    if (stored->step < -(int64_t)STEPS_MOST || stored->step > (int64_t)STEPS_MOST)
        stored->step = 0;
    store_task_derive(stored);
}

const struct table task_table = {
    .name = "pawl_task",
    .columns = task_columns,
    .n_columns = COUNT_OF(task_columns),
    .indexes = task_indexes,
    .n_indexes = COUNT_OF(task_indexes),
    .row_size = sizeof(struct store_task),
    .relations = task_relations,
    .n_relations = COUNT_OF(task_relations),
    .hold = hold_task,
    .heal = "pawl_queue_retry",
};

/* Those that came with format 2 and were there when it was first used; and what others are to it.
 */
#define REASON_FIRST_LATE TASK_REASON_ODD_ROW
#define REASON_OF_LATE TASK_REASON_UNREADABLE

/* Of those that came late two are why a task waits, the others are why it is dead. */
static bool is_reason_of(enum task_state state, int64_t why)
{
    bool waits = why == TASK_REASON_CREDENTIALS || why == TASK_REASON_PORTAL;
    return state == (waits ? TASK_WAITING : TASK_DEAD);
}

static void derive_reason(struct store_task *stored)
{
    struct task *task = &stored->task;
    if (task->reason >= REASON_FIRST_LATE) {
        stored->why = task->reason;
        task->reason = REASON_OF_LATE;
    } else if (task->reason != REASON_OF_LATE || !is_reason_of(task->state, stored->why)) {
        stored->why = 0;
    }
}

enum task_reason store_task_reason(const struct store_task *stored)
{
    bool is_late = stored->task.reason == REASON_OF_LATE && stored->why >= REASON_FIRST_LATE &&
                   stored->why < TASK_REASON_COUNT;
    return is_late ? (enum task_reason)stored->why : stored->task.reason;
}

void store_task_derive(struct store_task *stored)
{
    struct task *task = &stored->task;
    bool waits = task->state == TASK_WAITING, sends = task->state == TASK_SENDING;
    CHECK(!task->holds || task->state == TASK_DEAD);
    stored->running = sends ? stored->ord : SLICE("");
    stored->open = waits || sends || task->holds ? stored->ord : SLICE("");
    task->due_at = waits ? task->due_at : CLOCK_NEVER;
    task->lease_until = sends ? task->lease_until : 0;
    task->owner = sends ? task->owner : 0;
    task->gone_at = task->ended_at != 0 && stored->list_id == 0 ? task->gone_at : CLOCK_NEVER;
    derive_reason(stored);
}

/* ---- what goes with them ---- */

#define REQUEST(kind, field) TABLE_COLUMN(struct store_request, kind, PLAIN, field, #field)

static const struct table_column request_columns[] = {
    REQUEST(TEXT, method),
    REQUEST(TEXT, url),
    REQUEST(BYTES, fields),
    REQUEST(BYTES, body),
    REQUEST(INT, packed),
    REQUEST(BYTES, undo),
    REQUEST(TEXT, undo_key),
    REQUEST(BYTES, response),
    TABLE_LATE(struct store_request, TEXT, answers, "answers"),
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

static const struct table_relation attempt_relations[] = {
    TABLE_GROWS(6, 0, TASK_REASON_COUNT - 1),
};

static void hold_attempt(void *row)
{
    ((struct store_attempt *)row)->reason = TASK_REASON_ODD_ROW;
}

const struct table attempt_table = {
    .name = "pawl_attempt",
    .columns = attempt_columns,
    .n_columns = COUNT_OF(attempt_columns),
    .indexes = &attempt_index,
    .n_indexes = 1,
    .parent = &task_table,
    .row_size = sizeof(struct store_attempt),
    .relations = attempt_relations,
    .n_relations = COUNT_OF(attempt_relations),
    .hold = hold_attempt,
};

/* ---- lanes, lists, counters ---- */

#define LANE(kind, role, field) TABLE_COLUMN(struct store_lane, kind, role, field, #field)

static const struct table_column lane_columns[] = {
    LANE(TEXT, KEY, kind),   LANE(TEXT, KEY, lane),   LANE(TEXT, KEY, ord),
    LANE(INT, PLAIN, state), LANE(INT, PLAIN, until), LANE(TEXT, PLAIN, why),
    LANE(INT, PLAIN, since),
};

static const struct table_relation lane_relations[] = {
    TABLE_GROWS(3, STORE_LANE_PAUSED, STORE_LANE_BROKEN),
    TABLE_WITHIN(4, 0, CLOCK_NEVER),
    TABLE_WITHIN(6, 0, CLOCK_NEVER),
};

static void hold_lane(void *row)
{
    struct store_lane *lane = row;
    lane->state = STORE_LANE_PAUSED;
    lane->until = CLOCK_NEVER;
    lane->since = number_or_none(lane->since);
}

const struct table lane_table = {
    .name = "pawl_lane",
    .columns = lane_columns,
    .n_columns = COUNT_OF(lane_columns),
    .row_size = sizeof(struct store_lane),
    .relations = lane_relations,
    .n_relations = COUNT_OF(lane_relations),
    .hold = hold_lane,
    .heal = "pawl_queue_resume",
};

#define LIST(kind, role, field) TABLE_COLUMN(struct store_task_list, kind, role, field, #field)

static const struct table_column list_columns[] = {
    LIST(TEXT, PLAIN, name),
    LIST(INT, PLAIN, state),
    LIST(INT, PLAIN, created_at),
    LIST(INT, GONE, gone_at),
    TABLE_LATE(struct store_task_list, TEXT, deduping, "deduping"),
};

static const struct table_relation list_relations[] = {
    TABLE_GROWS(1, STEPS_RUNNING, STEPS_KEPT),
    TABLE_WITHIN(2, 0, CLOCK_NEVER),
    TABLE_WITHIN(3, 1, CLOCK_NEVER),
    TABLE_WHERE(1, STEPS_RUNNING, STEPS_RUNNING, 3, CLOCK_NEVER, CLOCK_NEVER),
    TABLE_WHERE(1, STEPS_UNDOING, STEPS_UNDOING, 3, CLOCK_NEVER, CLOCK_NEVER),
    TABLE_WHERE(1, STEPS_PARKED, STEPS_PARKED, 3, CLOCK_NEVER, CLOCK_NEVER),
};

static void hold_list(void *row)
{
    struct store_task_list *list = row;
    list->state = STEPS_PARKED;
    list->created_at = number_or_none(list->created_at);
    list->gone_at = CLOCK_NEVER;
}

const struct table task_list_table = {
    .name = "pawl_list",
    .columns = list_columns,
    .n_columns = COUNT_OF(list_columns),
    .row_size = sizeof(struct store_task_list),
    .relations = list_relations,
    .n_relations = COUNT_OF(list_relations),
    .hold = hold_list,
    .heal = "pawl_queue_retry",
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

bool store_request_unpack(const struct store_request *request, size_t max, struct arena *arena,
                          struct slice *ret_body)
{
    COMPRESS_AUTO struct compress compress = {0};
    BUF_AUTO struct buf body = buf_make(SIZE_MAX);
    *ret_body = request->body;
    if (!request->packed)
        return true;
    if (!compress_unpack(&compress, request->body, max, &body))
        return false;
    *ret_body = arena_copy(arena, buf_slice(&body));
    return !arena->failed;
}
