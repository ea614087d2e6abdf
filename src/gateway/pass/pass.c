/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/pass/pass.h"

#include "base/check.h"
#include "base/mem.h"
#include "gateway/events.h"
#include "gateway/pass/tunnel.h"
#include "gateway/response.h"
#include "gateway/stream.h"

struct pass {
    struct client *client;
    const struct gateway_settings *settings;
    const struct http_request *request;
    bool tunnel; /* the client asks for a WebSocket */
    enum result result;
    bool safe;               /* GET, HEAD, OPTIONS in every reading */
    enum http_read body_end; /* OK, or how the client broke off in its body */
    struct http_call call;   /* to the upstream */
};

static bool refuse_pass(const struct pass *pass, enum error error)
{
    struct event event = {
        .error = error,
        .result = pass->result,
        .unreached = pass->call.unreached,
        .malformed = pass->call.malformed,
    };
    const char *why =
        error == ERROR_UPSTREAM_MALFORMED ? pass->call.malformed : pass->call.tls_problem;
    return response_refuse(pass->client, event, slice_of(why), true);
}

/* The client gets an error for a malformed or late body, which the upstream did not get whole; one
 * that stalled as a newcomer needed its slot is late. */
static bool refuse_body(const struct pass *pass)
{
    bool late =
        pass->body_end == HTTP_READ_TIMEOUT || http_session_makes_room(&pass->client->session);
    if (!late && pass->body_end != HTTP_READ_REFUSED)
        return false;
    struct event event = {
        .error = late ? ERROR_REQUEST_TIMEOUT : ERROR_REQUEST_MALFORMED,
        .result = pass->result == RESULT_PASSED ? RESULT_INVALID : pass->result,
    };
    const char *what = http_refusal_text(pass->client->session.conn.refusal);
    (void)response_refuse(pass->client, event,
                          slice_of(late ? "the body did not arrive in time" : what), false);
    return true;
}

static bool write_passed_headers(const struct pass *pass, struct buf *headers)
{
    const struct http_request *request = pass->request;
    struct headers_extra extra = {
        .client = pass->client,
        .has_length = request->framing == HTTP_FRAMING_LENGTH,
        .length = request->content_length,
        .chunked = request->framing == HTTP_FRAMING_CHUNKED,
        .websocket = pass->tunnel,
    };
    headers_write_request(headers, request->method, slice_of(NULL), request, &extra);
    return buf_ok(headers);
}

/* False: the client broke off in its body. An upstream that stops reading may have answered. */
static bool send_body(struct pass *pass)
{
    struct stream stream = {
        .from = &pass->client->session.conn,
        .call = &pass->call,
        .chunked = pass->request->framing == HTTP_FRAMING_CHUNKED,
        .stall_us = pass->settings->limits.body_us,
        .paced = pass->request->framing == HTTP_FRAMING_LENGTH,
        .write_timeout_us = pass->settings->limits.write_us,
    };
    struct http_session *session = &pass->client->session;
    http_session_await_body(session, true);
    pass->call.unsent = http_conn_body_left(&session->conn) && !stream_run(&stream);
    http_session_had_body(session);
    pass->body_end = stream.read;
    return pass->body_end == HTTP_READ_OK;
}

/* Where it switches protocols, that is the end of HTTP on both connections. */
static bool respond_passed(struct pass *pass)
{
    const struct http_response *upstreams = &pass->call.response;
    struct client *client = pass->client;
    CHECK(pass->call.state == HTTP_CALL_RESPONDED);
    struct response response RESPONSE_AUTO =
        response_make(client, upstreams->status, upstreams->reason, pass->result);
    response.as_is = true;
    headers_copy_response(&response.headers, &upstreams->headers, 0);
    if (upstreams->status != 101)
        return response_stream(&response, &pass->call, slice_of(NULL));
    if (!response_switch(&response))
        return false;
    client->session.cut_off =
        !tunnel_run(&client->session.conn, pass->call.conn, pass->settings->read_timeout_us);
    if (client->session.cut_off)
        http_conn_abort(pass->call.conn);
    return false;
}

static int64_t deadline_after(int64_t duration_us)
{
    return clock_after(clock_boot_us(), duration_us);
}

/* `*ret_left`: the client broke off before the upstream had all of its request. */
static enum http_call_result exchange_once(struct pass *pass, bool *ret_left)
{
    struct http_call *call = &pass->call;
    enum http_call_result result =
        http_call_connect(call, deadline_after(pass->settings->connect_timeout_us));
    if (result == HTTP_CALL_DONE)
        result = http_call_send(call, deadline_after(pass->settings->limits.write_us));
    if (result != HTTP_CALL_DONE)
        return result;
    *ret_left =
        !call->unsent && !(http_session_send_continue(&pass->client->session) && send_body(pass));
    if (*ret_left)
        return result;
    result = http_call_receive(call, deadline_after(pass->settings->read_timeout_us));
    bool agreed = call->response.status != 101 || tunnel_agreed(&call->response);
    return result == HTTP_CALL_DONE && !agreed ? HTTP_CALL_BROKEN : result;
}

/* A safe request without a body may go out once more. */
static enum http_call_result exchange_passed(struct pass *pass, bool *ret_left)
{
    struct http_call *call = &pass->call;
    const struct server *server = pass->client->server;
    enum http_call_result result = exchange_once(pass, ret_left);
    bool repeats = pass->safe && pass->request->framing == HTTP_FRAMING_NONE;
    if (repeats && http_call_again(call, result)) {
        upstream_took(server, slice_of(NULL), call);
        result = exchange_once(pass, ret_left);
    }
    if (call->state != HTTP_CALL_CLOSED)
        upstream_took(server, slice_of(NULL), call);
    if (!*ret_left)
        upstream_ended(server, call, result);
    return result;
}

static bool refuse_call(struct pass *pass, enum http_call_result result)
{
    if (pass->call.state == HTTP_CALL_CLOSED)
        return refuse_pass(pass, ERROR_UPSTREAM_UNAVAILABLE);
    http_call_close(&pass->call);
    return refuse_pass(pass, result == HTTP_CALL_TIMEOUT     ? ERROR_UPSTREAM_TIMEOUT
                             : result == HTTP_CALL_MALFORMED ? ERROR_UPSTREAM_MALFORMED
                                                             : ERROR_UPSTREAM_BROKE);
}

static bool pass_on(struct pass *pass)
{
    struct buf headers BUF_AUTO = buf_make(HEADERS_OUT_MAX);
    if (!write_passed_headers(pass, &headers))
        return refuse_pass(pass, ERROR_UPSTREAM_UNAVAILABLE);
    pass->call.headers = buf_slice(&headers);
    bool left = false, keep = false;
    enum http_call_result result = exchange_passed(pass, &left);
    if (result != HTTP_CALL_DONE)
        return refuse_call(pass, result);
    struct event event = {.result = pass->result};
    if (!left) {
        event.status = pass->call.response.status;
        keep = respond_passed(pass);
        http_call_name_malformed(&pass->call);
        event.malformed = pass->call.malformed;
    }
    if (!left || !refuse_body(pass))
        request_log(pass->client, &event);
    http_call_close(&pass->call);
    return keep;
}

static enum result result_of_pass(const struct pass *pass)
{
    if (pass->safe && !headers_find(&pass->request->headers, SLICE("Idempotency-Key")))
        return RESULT_PASSED;
    return pass->client->rule.len > 0 ? RESULT_LET_BY : RESULT_BYPASSED;
}

bool pass_run(struct client *client, const struct http_request *request)
{
    CHECK(client->plan && client->session.request == request);
    struct pass *pass = mem_zalloc(1, sizeof *pass);
    if (!pass)
        return false;
    pass->client = client;
    pass->settings = &client->plan->settings;
    pass->request = request;
    pass->safe = rule_request_is_safe(&request->headers, request->method);
    pass->result = result_of_pass(pass);
    pass->tunnel = tunnel_asked_for(request);
    pass->call.pool = client->plan->pool;
    pass->call.method = request->method;
    pass->call.streams = request->framing == HTTP_FRAMING_CHUNKED || request->content_length > 0;
    pass->call.upgrades = pass->call.fresh = pass->tunnel;
    bool keep = pass_on(pass);
    mem_free(pass);
    return keep;
}
