/* SPDX-License-Identifier: Apache-2.0 */
#include "core/problem.h"
#include "base/check.h"
#include "base/json.h"
#include "base/timestamp.h"

struct problem problem_of(enum error error)
{
    const struct error_row *row = error_row(error);
    return (struct problem){
        .error = error,
        .status = row->status,
        .retryable = row->retryable,
        .safe_new_key = row->safe_new_key,
        .lease_left_ms = -1,
    };
}

static void add_moment(struct buf *buf, const char *name, int64_t wall_us)
{
    json_add_name(buf, name);
    buf_add_char(buf, '"');
    bool printed = timestamp_print(buf, wall_us);
    CHECK(printed);
    buf_add_char(buf, '"');
}

static void add_operation(struct buf *buf, const struct problem *problem)
{
    json_add_name(buf, "operation");
    buf_add_char(buf, '{');
    json_add_text(buf, "state", slice_of(problem->state));
    json_add_i64(buf, "attempt", problem->attempt);
    add_moment(buf, "started_at", problem->started_at);
    json_add_name(buf, "lease_left_ms");
    if (problem->lease_left_ms < 0)
        buf_add_str(buf, "null");
    else
        buf_add_i64(buf, problem->lease_left_ms);
    buf_add_char(buf, '}');
}

/* stripe-node takes a 409 without an `error` member for success (contract section 5). */
static void add_error_object(struct buf *buf, const char *code, struct slice message)
{
    json_add_name(buf, "error");
    buf_add_char(buf, '{');
    json_add_text(buf, "type", SLICE("idempotency_error"));
    json_add_text(buf, "code", slice_of(code));
    json_add_text(buf, "message", message);
    buf_add_char(buf, '}');
}

static void add_type(struct buf *buf, const char *code)
{
    json_add_name(buf, "type");
    buf_printf(buf, "\"/.well-known/idempotency#%s\"", code);
}

void problem_write(const struct problem *problem, struct buf *buf)
{
    const struct error_row *row = error_row(problem->error);
    struct slice detail = problem->detail.len ? problem->detail : slice_of(row->title);
    CHECK(problem->status >= 400 && problem->status <= 599);
    buf_add_char(buf, '{');
    add_type(buf, row->code);
    json_add_text(buf, "title", slice_of(row->title));
    json_add_i64(buf, "status", problem->status);
    json_add_text(buf, "detail", detail);
    json_add_text(buf, "error_code", slice_of(row->code));
    json_add_bool(buf, "retryable", problem->retryable);
    json_add_bool(buf, "safe_new_key", problem->safe_new_key);
    json_add_text(buf, "hint", slice_of(row->hint));
    if (problem->key.at)
        json_add_text(buf, "idempotency_key", problem->key);
    if (problem->state)
        add_operation(buf, problem);
    if (problem->first_status)
        buf_printf(buf, ",\"first\":{\"status\":%d}", problem->first_status);
    add_error_object(buf, row->short_code, detail);
    buf_add_str(buf, "}\n");
}

void problem_write_fields(const struct problem *problem, struct buf *buf)
{
    const char *code = error_row(problem->error)->code;
    buf_add_str(buf, "Content-Type: application/problem+json\r\n");
    buf_printf(buf, "Error-Code: %s\r\n", code);
    buf_printf(buf, "Link: </.well-known/idempotency#%s>; rel=\"describedby\"\r\n", code);
    buf_add_str(buf, "Cache-Control: no-store\r\n");
    if (!problem->retryable)
        buf_add_str(buf, "Stripe-Should-Retry: false\r\n");
}
