/* SPDX-License-Identifier: Apache-2.0 */
#include "core/web/problem.h"
#include "base/check.h"
#include "base/json/json.h"

struct problem problem_of(enum error error)
{
    const struct error_row *row = error_row(error);
    return (struct problem){
        .error = error,
        .status = row->status,
        .title = row->title,
        .hint = row->hint,
        .retryable = row->retryable,
        .safe_new_key = row->safe_new_key,
        .lease_left_ms = -1,
    };
}

void problem_warn_unprotected(struct problem *problem)
{
    if (error_is_lost_answer(problem->error))
        problem->hint =
            "The request may have been done, and no record of it is kept here: a repeat "
            "may do it again. Find out first.";
}

void problem_name_once(struct problem *problem)
{
    bool missing = problem->error == ERROR_KEY_SOURCE_MISSING;
    CHECK(missing || problem->error == ERROR_KEY_MALFORMED);
    problem->title = missing ? "The once value is missing" : "The once value is malformed";
    problem->hint =
        missing
            ? "Send what this route makes its once value of; a JSON body needs its Content-Type."
            : "Send a well-formed once value.";
}

static void add_operation(struct buf *buf, const struct problem *problem)
{
    json_open(buf, "operation", '{');
    json_add_text(buf, "state", slice_of(problem->state));
    json_add_i64(buf, "attempt", problem->attempt);
    json_add_time(buf, "started_at", problem->started_at);
    if (problem->lease_left_ms < 0)
        json_add_null(buf, "lease_left_ms");
    else
        json_add_i64(buf, "lease_left_ms", problem->lease_left_ms);
    buf_add_char(buf, '}');
}

/* stripe-node takes a 409 without an `error` member for success (contract section 5). */
static void add_error_object(struct buf *buf, const char *code, struct slice message)
{
    json_open(buf, "error", '{');
    json_add_text(buf, "type", SLICE("idempotency_error"));
    json_add_text(buf, "code", slice_of(code));
    json_add_text(buf, "message", message);
    buf_add_char(buf, '}');
}

static void add_first(struct buf *buf, const struct problem *problem)
{
    json_open(buf, "first", '{');
    json_add_i64(buf, "status", problem->first_status);
    if (problem->first_location.len > 0)
        json_add_text(buf, "location", problem->first_location);
    if (problem->first_at > 0)
        json_add_time(buf, "at", problem->first_at);
    buf_add_char(buf, '}');
}

/* Where the code is explained. */
static void add_link(struct buf *buf, const struct problem *problem)
{
    buf_add_slice(buf, problem->base);
    buf_add_str(buf, POLICY_PATH "#");
    buf_add_str(buf, error_row(problem->error)->code);
}

static void add_type(struct buf *buf, const struct problem *problem)
{
    json_open(buf, "type", '"');
    add_link(buf, problem);
    buf_add_char(buf, '"');
}

void problem_write(const struct problem *problem, struct buf *buf)
{
    const struct error_row *row = error_row(problem->error);
    struct slice detail = problem->detail.len ? problem->detail : slice_of(problem->title);
    CHECK(problem->status >= 400 && problem->status <= 599);
    buf_add_char(buf, '{');
    add_type(buf, problem);
    json_add_text(buf, "title", slice_of(problem->title));
    json_add_i64(buf, "status", problem->status);
    json_add_text(buf, "detail", detail);
    if (problem->instance)
        json_add_text(buf, "instance", slice_of(problem->instance));
    json_add_text(buf, "error_code", slice_of(row->code));
    json_add_bool(buf, "retryable", problem->retryable);
    json_add_bool(buf, "safe_new_key", problem->safe_new_key);
    json_add_text(buf, "hint", slice_of(problem->hint));
    if (problem->key.at)
        json_add_text(buf, "idempotency_key", problem->key);
    if (problem->state)
        add_operation(buf, problem);
    if (problem->first_status)
        add_first(buf, problem);
    if (problem->window_ends_at)
        json_add_time(buf, "window_ends_at", problem->window_ends_at);
    add_error_object(buf, row->short_code, detail);
    buf_add_str(buf, "}\n");
}

void problem_write_fields(const struct problem *problem, struct buf *buf)
{
    const char *code = error_row(problem->error)->code;
    struct slice type = problem->media_type;
    buf_printf(buf, "Content-Type: %.*s\r\n",
               SLICE_ARG(type.len > 0 ? type : SLICE("application/problem+json")));
    buf_printf(buf, "Error-Code: %s\r\n", code);
    buf_add_str(buf, "Link: <");
    add_link(buf, problem);
    buf_add_str(buf, ">; rel=\"describedby\"\r\n");
    buf_add_str(buf, "Cache-Control: no-store\r\n");
    buf_add_str(buf, problem->retryable
                         ? "X-Should-Retry: true\r\n"
                         : "Stripe-Should-Retry: false\r\nX-Should-Retry: false\r\n");
    if (problem->error == ERROR_METHOD_NOT_ALLOWED)
        buf_add_str(buf, "Allow: GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE\r\n");
    if (problem->error == ERROR_CODING_UNSUPPORTED)
        buf_add_str(buf, "Accept-Encoding: gzip, deflate\r\n");
}
