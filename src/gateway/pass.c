/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/pass.h"

#include "base/mem.h"
#include "gateway/events.h"
#include "gateway/head.h"
#include "gateway/stream.h"
#include "gateway/tunnel.h"
#include <errno.h>
#include <sys/uio.h>

#define INTERIM_MAX 16 /* 1xx answers before the final one; they are dropped */

struct pass {
    struct client *client;
    const struct gateway_settings *settings;
    const struct http_request *request;
    struct http_conn *upstream;
    struct http_response response;
    bool tunnel;             /* the client asks for a WebSocket */
    bool safe;               /* GET, HEAD, OPTIONS in every reading */
    bool unsent;             /* the upstream answered before it had all of the request */
    bool reusable;           /* the upstream connection, afterwards */
    int unreached;           /* why there is none: an errno, or 0 */
    enum http_read body_end; /* OK, or how the client broke off in its body */
};

/* Idempotency-Status; NULL: none. */
static const char *mark_of(const struct pass *pass)
{
    bool bypassed = !pass->safe || headers_find(&pass->request->headers, SLICE("Idempotency-Key"));
    return bypassed ? "bypassed" : NULL;
}

static bool refuse(const struct pass *pass, enum error error)
{
    struct refusal refusal = {
        .request = pass->request,
        .error = error,
        .keep_alive = pass->request->keep_alive &&
                      http_session_may_go_on(&pass->client->session, pass->request),
        .mark = mark_of(pass),
        .unreached = pass->unreached,
    };
    client_refuse(pass->client, &refusal);
    return refusal.keep_alive;
}

/* The client is told of its malformed or late body, which the upstream did not get whole. */
static bool refuse_body(const struct pass *pass)
{
    bool late = pass->body_end == HTTP_READ_TIMEOUT;
    if (!late && pass->body_end != HTTP_READ_REFUSED)
        return false;
    struct refusal refusal = {
        .request = pass->request,
        .error = late ? ERROR_REQUEST_TIMEOUT : ERROR_REQUEST_MALFORMED,
        .detail = late ? SLICE("the body did not come in time")
                       : slice_of(http_refusal_text(pass->client->session.conn.refusal)),
        .mark = mark_of(pass),
    };
    client_refuse(pass->client, &refusal);
    return true;
}

static bool take(struct pass *pass, bool fresh)
{
    int64_t deadline = clock_after(clock_boot_us(), pass->settings->connect_timeout_us);
    pass->unreached = -http_pool_take(pass->client->plan->pool, fresh, deadline, &pass->upstream);
    if (pass->unreached != 0)
        upstream_unreached(pass->client->server, pass->unreached);
    return pass->unreached == 0;
}

static int send_head(struct pass *pass)
{
    const struct http_request *request = pass->request;
    struct buf head BUF_AUTO = buf_make(HEAD_OUT_MAX);
    struct head_extra extra = {
        .client = pass->client,
        .has_length = request->framing == HTTP_FRAMING_LENGTH,
        .length = request->content_length,
        .chunked = request->framing == HTTP_FRAMING_CHUNKED,
        .websocket = pass->tunnel,
    };
    head_write_request(&head, request->method, slice_of(NULL), request, &extra);
    if (!buf_ok(&head))
        return -ENOMEM;
    struct iovec part = {head.at, head.len};
    int64_t deadline = clock_after(clock_boot_us(), pass->settings->write_timeout_us);
    return http_conn_write(pass->upstream, &part, 1, deadline);
}

/* False: the client broke off in its body. An upstream that stops reading may have answered. */
static bool send_body(struct pass *pass)
{
    struct stream stream = {
        .from = &pass->client->session.conn,
        .to = pass->upstream,
        .chunked = pass->request->framing == HTTP_FRAMING_CHUNKED,
        .to_upstream = true,
        .stall_us = pass->settings->body_timeout_us,
        .paced = pass->request->framing == HTTP_FRAMING_LENGTH,
        .write_timeout_us = pass->settings->write_timeout_us,
    };
    pass->unsent = http_conn_body_left(&pass->client->session.conn) && !stream_run(&stream);
    pass->body_end = stream.read;
    return pass->body_end == HTTP_READ_OK;
}

static enum http_read read_head(struct pass *pass)
{
    int64_t deadline = clock_after(clock_boot_us(), pass->settings->read_timeout_us);
    for (int interim = 0; interim < INTERIM_MAX; interim++) {
        enum http_read read = http_conn_read_response(pass->upstream, pass->request->method,
                                                      deadline, &pass->response);
        if (read != HTTP_READ_OK || pass->response.status >= 200)
            return read;
        if (pass->response.status == 101)
            return pass->tunnel && tunnel_agreed(&pass->response) ? read : HTTP_READ_BROKEN;
        http_conn_next(pass->upstream);
    }
    return HTTP_READ_BROKEN;
}

/* HEAD and 304 announce the length of a body that does not come. */
static void write_announced_length(const struct pass *pass, struct buf *head)
{
    const struct header *length = headers_find(&pass->response.headers, SLICE("Content-Length"));
    bool head_answer = slice_eq(pass->request->method, SLICE("HEAD"));
    if (length && (head_answer || pass->response.status == 304))
        head_write_field(head, "Content-Length", length->value);
    else if (!head_answer && head_has_body(pass->response.status))
        head_write_number(head, "Content-Length", 0);
}

static bool is_ignorable(const struct http_request *request)
{
    bool has_body = request->framing == HTTP_FRAMING_CHUNKED || request->content_length > 0;
    return has_body && http_body_may_be_ignored(request->method);
}

static bool answer(struct pass *pass)
{
    struct http_response *response = &pass->response;
    struct client *client = pass->client;
    struct buf head BUF_AUTO = buf_make(HEAD_OUT_MAX);
    struct stream stream = {
        .from = pass->upstream,
        .to = &client->session.conn,
        .stall_us = pass->settings->read_timeout_us,
        .write_timeout_us = pass->settings->write_timeout_us,
    };
    bool open_end =
        response->framing == HTTP_FRAMING_CHUNKED || response->framing == HTTP_FRAMING_CLOSE;
    stream.chunked = open_end && pass->request->minor_version == 1;
    bool keep = pass->request->keep_alive &&
                http_session_may_go_on(&client->session, pass->request) &&
                (!open_end || stream.chunked);

    head_write_status(&head, response->status, response->reason);
    head_copy_answer_fields(&head, &response->headers, 0);
    if (mark_of(pass))
        head_write_field(&head, "Idempotency-Status", slice_of(mark_of(pass)));
    if (stream.chunked)
        head_write_field(&head, "Transfer-Encoding", SLICE("chunked"));
    else if (response->framing == HTTP_FRAMING_LENGTH)
        head_write_number(&head, "Content-Length", response->content_length);
    else if (response->framing == HTTP_FRAMING_NONE)
        write_announced_length(pass, &head);
    head_end_answer(&head, pass->request, keep);

    struct iovec part = {head.at, head.len};
    int64_t deadline = clock_after(clock_boot_us(), pass->settings->write_timeout_us);
    pass_count(client, mark_of(pass));
    if (!buf_ok(&head) || http_conn_write(&client->session.conn, &part, 1, deadline) != 0)
        return false;
    bool whole = http_conn_body_left(pass->upstream) ? stream_run(&stream) : true;
    client->session.cut_off = !whole && open_end && !stream.chunked;
    pass->reusable = whole && response->keep_alive && !pass->unsent && !pass->tunnel &&
                     !is_ignorable(pass->request);
    return whole && keep;
}

/* The end of HTTP on both connections. */
static void answer_switch(struct pass *pass)
{
    struct client *client = pass->client;
    struct buf head BUF_AUTO = buf_make(HEAD_OUT_MAX);
    head_write_status(&head, pass->response.status, pass->response.reason);
    head_copy_answer_fields(&head, &pass->response.headers, 0);
    if (mark_of(pass))
        head_write_field(&head, "Idempotency-Status", slice_of(mark_of(pass)));
    head_write_upgrade(&head);
    buf_add(&head, "\r\n", 2);

    struct iovec part = {head.at, head.len};
    int64_t deadline = clock_after(clock_boot_us(), pass->settings->write_timeout_us);
    pass_count(client, mark_of(pass));
    if (!buf_ok(&head) || http_conn_write(&client->session.conn, &part, 1, deadline) != 0)
        return;
    client->session.cut_off =
        !tunnel_run(&client->session.conn, pass->upstream, pass->settings->read_timeout_us);
    if (client->session.cut_off)
        http_conn_abort(pass->upstream);
}

/* A kept connection that died unused: a safe request without a body may go out once more. */
static bool died_unused(const struct pass *pass, uint64_t received_before)
{
    return pass->safe && pass->request->framing == HTTP_FRAMING_NONE &&
           pass->upstream->received == received_before && received_before > 0;
}

enum attempt_end {
    ATTEMPT_ANSWERED,
    ATTEMPT_AGAIN,
    ATTEMPT_CLIENT_GONE,
    ATTEMPT_BROKE,
    ATTEMPT_TIMED_OUT
};

static enum attempt_end exchange_once(struct pass *pass)
{
    uint64_t received = pass->upstream->received;
    int sent = send_head(pass);
    if (sent == 0 && !http_session_ask_for_body(&pass->client->session, pass->request))
        return ATTEMPT_CLIENT_GONE;
    if (sent == 0 && !send_body(pass))
        return ATTEMPT_CLIENT_GONE;
    enum http_read read = read_head(pass);
    if (read == HTTP_READ_OK)
        return ATTEMPT_ANSWERED;
    if (read == HTTP_READ_TIMEOUT)
        return ATTEMPT_TIMED_OUT;
    return died_unused(pass, received) ? ATTEMPT_AGAIN : ATTEMPT_BROKE;
}

static void count_end(const struct pass *pass, enum attempt_end end)
{
    const struct server *server = pass->client->server;
    if (end == ATTEMPT_ANSWERED)
        upstream_responded(server, pass->response.status);
    else if (end == ATTEMPT_BROKE || end == ATTEMPT_TIMED_OUT)
        upstream_broke(server, pass->upstream, end == ATTEMPT_TIMED_OUT);
}

static bool pass_on(struct pass *pass, bool fresh)
{
    if (!take(pass, fresh))
        return refuse(pass, ERROR_UPSTREAM_UNAVAILABLE);
    bool keep = false;
    int64_t began = clock_boot_us();
    enum attempt_end end = exchange_once(pass);
    upstream_count(pass->client->server, slice_of(NULL), began);
    if (end == ATTEMPT_AGAIN && fresh)
        end = ATTEMPT_BROKE;
    count_end(pass, end);
    if (end == ATTEMPT_ANSWERED && pass->response.status == 101)
        answer_switch(pass);
    else if (end == ATTEMPT_ANSWERED)
        keep = answer(pass);
    if (end == ATTEMPT_ANSWERED || (end == ATTEMPT_CLIENT_GONE && !refuse_body(pass)))
        pass_log(pass->client, pass->request, end == ATTEMPT_ANSWERED ? pass->response.status : 0,
                 mark_of(pass));
    http_pool_give(pass->client->plan->pool, pass->upstream, pass->reusable);
    if (end == ATTEMPT_AGAIN)
        return pass_on(pass, true);
    if (end == ATTEMPT_BROKE)
        return refuse(pass, ERROR_UPSTREAM_BROKE);
    return end == ATTEMPT_TIMED_OUT ? refuse(pass, ERROR_UPSTREAM_TIMEOUT) : keep;
}

bool pass_run(struct client *client, const struct http_request *request)
{
    struct pass *pass = mem_zalloc(1, sizeof *pass);
    if (!pass)
        return false;
    pass->client = client;
    pass->settings = &client->plan->settings;
    pass->request = request;
    pass->safe = rule_request_is_safe(&request->headers, request->method);
    pass->tunnel = tunnel_asked_for(request);
    bool keep = pass_on(pass, pass->tunnel);
    mem_free(pass);
    return keep;
}
