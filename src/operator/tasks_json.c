/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks for programs: one JSON object; what does not apply is null. */
#include "base/json/json.h"
#include "operator/tasks.h"

/* A moment that may be never. */
static void add_moment(struct buf *buf, const char *name, int64_t us)
{
    json_add_time(buf, name, us == CLOCK_NEVER ? 0 : us);
}

static void add_task_json(struct buf *buf, const struct tasks_row *row)
{
    const struct store_task *stored = row->stored;
    const struct task *task = &stored->task;
    json_add_i64(buf, "id", stored->row.id);
    json_add_text(buf, "kind", stored->kind);
    json_add_text(buf, "state", tasks_state_name(stored, row->head));
    json_add_text(buf, "lane", stored->lane);
    json_add_known_text(buf, "order", stored->ord);
    json_add_text(buf, "key", stored->key);
    json_add_known_text(buf, "method", row->method);
    json_add_known_text(buf, "url", row->url);
    json_add_i64(buf, "attempts", task->attempts);
    add_moment(buf, "due_at", task->due_at);
    json_add_known_i64(buf, "status", task->status);
    json_add_known_text(buf, "reason", task_reason_name(store_task_reason(stored)));
    json_add_time(buf, "created_at", task->created_at);
    json_add_time(buf, "ended_at", task->ended_at);
    json_add_known_i64(buf, "behind", row->head ? row->head->row.id : 0);
    json_add_time(buf, "held_since", tasks_held_since(row->head));
}

void tasks_add_json(struct buf *buf, const struct tasks_row *row)
{
    buf_add_char(buf, '{');
    add_task_json(buf, row);
    buf_add_char(buf, '}');
}

/* ---- all of one ---- */

static void add_list_json(struct buf *buf, const struct tasks_whole *whole)
{
    struct slice state = whole->list ? steps_state_name(whole->list->state) : SLICE("");
    json_add_known_i64(buf, "list", whole->stored->list_id);
    json_add_known_text(buf, "list_name", whole->list ? whole->list->name : SLICE(""));
    json_add_known_text(buf, "list_state", state);
    json_add_known_i64(buf, "step", whole->stored->step);
    json_add_known_text(buf, "undo", whole->request ? whole->request->undo : SLICE(""));
    json_add_known_text(buf, "undo_key", whole->request ? whole->request->undo_key : SLICE(""));
}

static void add_attempt_json(struct buf *buf, const struct store_attempt *attempt)
{
    json_next_item(buf);
    buf_add_char(buf, '{');
    json_add_i64(buf, "attempt", attempt->n);
    json_add_time(buf, "at", attempt->at);
    json_add_i64(buf, "wait_ms", attempt->wait_us / CLOCK_US_PER_MS);
    json_add_i64(buf, "took_ms", attempt->took_us / CLOCK_US_PER_MS);
    json_add_known_i64(buf, "status", attempt->status);
    json_add_known_text(buf, "reason", task_reason_name(attempt->reason));
    json_add_known_text(buf, "response", attempt->answer);
    buf_add_char(buf, '}');
}

static void add_request_json(struct buf *buf, const struct tasks_whole *whole)
{
    static const struct store_request none;
    const struct store_request *request = whole->request ? whole->request : &none;
    json_add_fields(buf, "headers", request->fields);
    json_add_known_text(buf, "body", whole->body);
    json_add_known_text(buf, "response", request->response);
}

void tasks_add_whole_json(struct buf *buf, const struct tasks_whole *whole)
{
    const struct task *task = &whole->stored->task;
    int64_t lasts_us = whole->stored->lasts_us;
    struct tasks_row row = {.stored = whole->stored, .head = whole->head};
    if (whole->request) {
        row.method = whole->request->method;
        row.url = whole->request->url;
    }
    buf_add_char(buf, '{');
    add_task_json(buf, &row);
    json_add_text(buf, "profile", retry_profile_name(task->profile));
    json_add_text(buf, "on_failure", whole->stored->skips ? SLICE("skip") : SLICE("park"));
    json_add_bool(buf, "holds_order", task->holds);
    json_add_bool(buf, "in_doubt", task->in_doubt);
    json_add_i64(buf, "tries", task->tries);
    json_add_time(buf, "first_at", task->first_at);
    add_moment(buf, "deadline_at", task->deadline_at);
    json_add_known_i64(buf, "deadline_ms",
                       lasts_us == CLOCK_NEVER ? 0 : lasts_us / CLOCK_US_PER_MS);
    add_list_json(buf, whole);
    add_request_json(buf, whole);
    json_open(buf, "history", '[');
    for (size_t i = 0; i < whole->n_attempts; i++)
        add_attempt_json(buf, (const struct store_attempt *)whole->attempts[i]);
    buf_add_str(buf, "]}");
}
