/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/response.h"

#include "base/check.h"
#include "base/crash.h"
#include "base/text/uuid.h"
#include "core/outcome.h"
#include "gateway/stream.h"
#include <stdio.h>

#define PROBLEM_MAX ((size_t)16 * 1024)

struct response response_make(struct client *client, int status, struct slice reason,
                              enum result result)
{
    CHECK(client->plan);
    struct response response = {
        .client = client,
        .status = status,
        .result = result,
        .keep_alive = http_session_may_go_on(&client->session),
    };
    void *room = client->arena ? arena_alloc(client->arena, HEADERS_OUT_FIRST) : NULL;
    response.headers = buf_on(room, HEADERS_OUT_FIRST, HEADERS_OUT_MAX);
    headers_write_status(&response.headers, status, reason);
    return response;
}

void response_fini(struct response *response)
{
    buf_fini(&response->headers);
}

/* ---- the lines of pawl's own ---- */

/* What a browser needs to let its page read the response. */
static void write_cors(struct response *r)
{
    const struct http_request *request = r->client->session.request;
    const struct cors_policy *cors = &r->client->plan->settings.cors;
    if (!cors_is_on(cors))
        return;
    const struct header *origin = request ? headers_find(&request->headers, SLICE("Origin")) : NULL;
    cors_write_fields(cors, origin ? origin->value : slice_of(NULL), buf_slice(&r->headers),
                      &r->headers);
}

static void write_own_fields(struct response *r)
{
    const char *status = result_status(r->result);
    if (!r->as_is && !outcome_field(buf_slice(&r->headers), SLICE("Date")).at)
        headers_write_date(&r->headers);
    if (!r->as_is)
        write_cors(r);
    if (status)
        headers_write_field(&r->headers, "Idempotency-Status", slice_of(status));
    if (r->result == RESULT_REPLAYED || r->result == RESULT_ACKED)
        headers_write_field(&r->headers, "Idempotent-Replayed", SLICE("true"));
}

/* ---- writing ---- */

/* A HEAD that an override header makes another method is answered as a HEAD all the same: its
 * client reads no body, and would take one for the next response. */
static bool reads_body(const struct client *client)
{
    const struct http_request *request = client->session.request;
    return !request || !slice_eq(request->method, SLICE("HEAD"));
}

static bool write_out(struct response *r, struct slice body)
{
    request_count(r->client, r->result);
    CRASH_POINT(before_response_write);
    bool left = http_session_write(&r->client->session, &r->headers, body);
    CRASH_POINT(after_response_write);
    buf_fini(&r->headers);
    return left;
}

static void end_headers(struct response *r)
{
    headers_end_response(&r->headers, r->client->session.request, r->keep_alive);
}

bool response_write(struct response *r, struct slice body)
{
    bool has_body = headers_allow_body(r->status);
    write_own_fields(r);
    if (has_body)
        headers_write_number(&r->headers, "Content-Length", body.len);
    end_headers(r);
    return write_out(r, has_body ? body : slice_of(NULL)) && r->keep_alive;
}

/* HEAD and 304 announce the length of a body that does not come. */
static void write_announced_length(struct response *r, const struct http_response *upstreams)
{
    const struct header *length = headers_find(&upstreams->headers, SLICE("Content-Length"));
    bool reads = reads_body(r->client);
    if (length && (!reads || upstreams->status == 304))
        headers_write_field(&r->headers, "Content-Length", length->value);
    else if (reads && headers_allow_body(upstreams->status))
        headers_write_number(&r->headers, "Content-Length", 0);
}

bool response_stream(struct response *r, const struct http_call *call, struct slice begun)
{
    CHECK(call->state == HTTP_CALL_RESPONDED);
    struct http_session *session = &r->client->session;
    enum http_framing framing = call->response.framing;
    bool open_end = framing == HTTP_FRAMING_CHUNKED || framing == HTTP_FRAMING_CLOSE;
    struct stream stream = {
        .from = call->conn,
        .to = &session->conn,
        .chunked = open_end && session->request->minor_version == 1,
        .begun = begun,
        .stall_us = r->client->plan->settings.read_timeout_us,
        .write_timeout_us = r->client->plan->settings.limits.write_us,
    };
    write_own_fields(r);
    if (stream.chunked)
        headers_write_field(&r->headers, "Transfer-Encoding", SLICE("chunked"));
    else if (framing == HTTP_FRAMING_LENGTH)
        headers_write_number(&r->headers, "Content-Length", call->response.content_length);
    else if (framing == HTTP_FRAMING_NONE)
        write_announced_length(r, &call->response);
    else
        r->keep_alive = false;
    end_headers(r);
    if (!write_out(r, slice_of(NULL)))
        return false;
    bool whole = !reads_body(r->client) || stream_run(&stream);
    session->cut_off = !whole && open_end && !stream.chunked;
    return whole && r->keep_alive;
}

bool response_switch(struct response *r)
{
    CHECK(r->status == 101 && r->as_is);
    write_own_fields(r);
    headers_write_upgrade(&r->headers);
    buf_add(&r->headers, "\r\n", 2);
    return write_out(r, slice_of(NULL));
}

/* ---- pawl's own errors ---- */

/* The URI of this occurrence, for the problem and its log line (RFC 9457): made once a request. */
static const char *instance_of(struct client *client)
{
    char id[UUID_SIZE];
    if (client->instance[0])
        return client->instance;
    uuid_make(id);
    snprintf(client->instance, sizeof client->instance, "urn:uuid:%s", id);
    return client->instance;
}

/* In the API's own words, where it has some. */
static void write_body(const struct client *client, struct problem *problem,
                       const struct error_texts *texts, uint64_t retry_after, struct buf *body)
{
    const struct http_request *request = client->session.request;
    struct slice wrong, text = error_texts_find(texts, problem->error);
    struct error_facts facts = {problem, retry_after, slice_of(NULL)};
    if (request)
        facts.trace_id = request_trace_id(&request->headers);
    if (text.at && error_text_fill(text, &facts, body, &wrong) && buf_ok(body)) {
        problem->media_type = texts->media_type;
        return;
    }
    buf_clear(body);
    problem_write(problem, body);
}

bool response_write_problem(struct response *r, struct problem *problem,
                            const struct error_texts *texts, uint64_t retry_after)
{
    struct buf body BUF_AUTO = buf_make(PROBLEM_MAX);
    CHECK(problem->status == r->status && !r->as_is);
    problem->instance = instance_of(r->client);
    problem->base = r->client->plan->settings.public_url;
    write_body(r->client, problem, texts ? texts : r->client->plan->settings.errors, retry_after,
               &body);
    problem_write_fields(problem, &r->headers);
    if (retry_after > 0)
        headers_write_number(&r->headers, "Retry-After", retry_after);
    return response_write(r, buf_ok(&body) ? buf_slice(&body) : slice_of(NULL));
}

bool response_refuse(struct client *client, struct event event, struct slice detail,
                     bool keep_alive)
{
    struct problem problem = problem_of(event.error);
    bool again = event.error == ERROR_UPSTREAM_UNAVAILABLE || event.error == ERROR_LIMITED;
    if (event.status != 0)
        problem.status = event.status;
    event.status = problem.status;
    problem.detail = detail;
    if (result_status(event.result))
        problem_warn_unprotected(&problem);
    struct response response RESPONSE_AUTO =
        response_make(client, problem.status, slice_of(NULL), event.result);
    response.keep_alive = response.keep_alive && keep_alive;
    bool goes_on = response_write_problem(&response, &problem, NULL, again ? 1 : 0);
    request_log(client, &event);
    return goes_on;
}
