/* SPDX-License-Identifier: Apache-2.0 */
#include "http/call/call.h"

#include "base/check.h"
#include "base/crash.h"
#include "base/json/json.h"
#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define INTERIM_MAX 16   /* 1xx responses before the final one */
#define EARLY_BETWEEN 64 /* of those that do not count, between looks at the clock */
#define WRITE_FIRST_MAX ((size_t)64 * 1024) /* of a body, in the first write with the headers */

/* ---- connecting ---- */

static enum http_call_result result_of_connect(int error, const char *tls_problem)
{
    return error == 0                     ? HTTP_CALL_DONE
           : error == ETIMEDOUT           ? HTTP_CALL_TIMEOUT
           : error == HTTP_POOL_FORBIDDEN ? HTTP_CALL_FORBIDDEN
           : tls_problem                  ? HTTP_CALL_TLS
           : error == ECONNREFUSED        ? HTTP_CALL_REFUSED
           : error == ECONNRESET          ? HTTP_CALL_BROKEN
                                          : HTTP_CALL_UNREACHABLE;
}

enum http_call_result http_call_connect(struct http_call *call, int64_t until_us)
{
    CHECK(call->state == HTTP_CALL_CLOSED && call->sent == 0);
    struct http_conn *conn = NULL;
    const char *problem = NULL;
    int error = -http_pool_take(call->pool, call->fresh, until_us, &conn, &problem);
    call->tls_problem = error != HTTP_POOL_FORBIDDEN ? problem : NULL;
    call->unreached = problem ? problem : error != 0 ? strerrordesc_np(error) : NULL;
    if (error == 0) {
        call->state = HTTP_CALL_OPEN;
        call->conn = conn;
        call->received = conn->received;
        call->connected_us = clock_boot_us();
        call->unsent = true;
    }
    return result_of_connect(error, call->tls_problem);
}

/* ---- receiving ---- */

void http_call_name_malformed(struct http_call *call)
{
    const struct http_conn *conn = call->conn;
    if (conn->refusal == HTTP_REFUSAL_NONE)
        return;
    BUF_AUTO struct buf text = buf_make(sizeof call->malformed - 1);
    call->refusal = conn->refusal;
    if (conn->chunks.refusal != HTTP_REFUSAL_NONE)
        http_chunks_refused(&conn->chunks, &text);
    else
        http_response_refused(buf_slice(&conn->in), conn->scan, &call->response, &text);
    if (buf_ok(&text))
        memcpy(call->malformed, text.at, text.len);
}

static enum http_call_result result_of_read(struct http_call *call, enum http_read read)
{
    if (read == HTTP_READ_REFUSED)
        http_call_name_malformed(call);
    static const enum http_call_result results[] = {
        [HTTP_READ_OK] = HTTP_CALL_DONE,
        [HTTP_READ_CLOSED] = HTTP_CALL_BROKEN,
        [HTTP_READ_BROKEN] = HTTP_CALL_BROKEN,
        [HTTP_READ_TIMEOUT] = HTTP_CALL_TIMEOUT,
        [HTTP_READ_REFUSED] = HTTP_CALL_MALFORMED,
        [HTTP_READ_TOO_LARGE] = HTTP_CALL_TOO_LARGE,
        [HTTP_READ_NO_MEMORY] = HTTP_CALL_NO_MEMORY,
    };
    return results[read];
}

/* A server that judges the client's certificate last may do so when the request is under way, which
 * then no application behind it has seen. */
static enum http_call_result result_of_headers(struct http_call *call, enum http_read read)
{
    const char *refusal = call->conn->tls ? tls_refusal(call->conn->tls) : NULL;
    if (!refusal)
        return result_of_read(call, read);
    call->unreached = call->tls_problem = refusal;
    call->sent = 0;
    return HTTP_CALL_TLS;
}

/* Reads up to the headers of the final response; early: no more than there is. Interim ones that
 * come while the peer still waits for the rest of the request do not count, but end in time. */
static enum http_call_result read_response_headers(struct http_call *call, bool is_early,
                                                   int64_t until_us)
{
    int early = 0;
    while (call->interims < INTERIM_MAX) {
        enum http_read read = http_conn_read_response(call->conn, call->method,
                                                      is_early ? 0 : until_us, &call->response);
        if (read != HTTP_READ_OK)
            return result_of_headers(call, read);
        int status = call->response.status;
        if (status >= 200 || (status == 101 && call->upgrades)) {
            call->state = HTTP_CALL_RESPONDED;
            return HTTP_CALL_DONE;
        }
        if (status == 101)
            call->interims = INTERIM_MAX; /* what follows is not HTTP: it is broken for good */
        else
            http_conn_next(call->conn);
        call->interims += !is_early;
        if (is_early && ++early % EARLY_BETWEEN == 0 && clock_boot_us() >= until_us)
            return HTTP_CALL_TIMEOUT;
    }
    return HTTP_CALL_BROKEN;
}

enum http_call_result http_call_receive(struct http_call *call, int64_t until_us)
{
    CHECK(call->state >= HTTP_CALL_SENT);
    return call->state == HTTP_CALL_RESPONDED ? HTTP_CALL_DONE
                                              : read_response_headers(call, false, until_us);
}

/* Who ends a body by closing the connection also closes it when it crashes. */
static bool is_cut(const struct http_call *call, struct slice body)
{
    if (call->response.framing != HTTP_FRAMING_CLOSE || http_conn_body_left(call->conn))
        return false;
    return json_is_body_of(&call->response.headers) && json_is_cut(body);
}

enum http_call_result http_call_read_body(struct http_call *call, uint64_t max, uint64_t part,
                                          int64_t until_us, struct buf *body)
{
    CHECK(call->state == HTTP_CALL_RESPONDED);
    enum http_call_result result =
        result_of_read(call, http_conn_read_body(call->conn, max, part, until_us, body));
    return result == HTTP_CALL_DONE && is_cut(call, buf_slice(body)) ? HTTP_CALL_BROKEN : result;
}

/* ---- sending ---- */

static struct iovec part_of(struct slice bytes)
{
    return (struct iovec){(void *)(uintptr_t)bytes.at, bytes.len};
}

/* Stops where the peer has responded, or closed. */
static int write_request_parts(struct http_call *call, struct iovec *parts, size_t n,
                               int64_t until_us)
{
    for (;;) {
        uint64_t before = call->conn->sent;
        int failed = http_conn_send(call->conn, parts, n, until_us);
        call->sent += call->conn->sent - before;
        if (failed != -EALREADY || read_response_headers(call, true, until_us) != HTTP_CALL_TIMEOUT)
            return failed;
        if (clock_boot_us() >= until_us)
            return -ETIMEDOUT;
    }
}

/* Writes on behind what has left, in the first write no more than a part of a large body. */
static int write_on(struct http_call *call, int64_t until_us)
{
    size_t of_headers = call->sent < call->headers.len ? call->sent : call->headers.len;
    struct slice body = slice_skip(call->body, call->sent - of_headers);
    if (call->sent == 0 && body.len > WRITE_FIRST_MAX)
        body.len = WRITE_FIRST_MAX;
    struct iovec parts[2] = {part_of(slice_skip(call->headers, of_headers)), part_of(body)};
    return write_request_parts(call, parts, body.len > 0 ? 2 : 1, until_us);
}

static int64_t first_by(const struct http_call *call)
{
    return call->first_by > 0 && call->sent == 0 ? call->first_by : CLOCK_NEVER;
}

/* A write that failed may have left a response behind: a peer that refuses a body early. */
static enum http_call_result stop_sending(struct http_call *call)
{
    if (call->sent == 0) { /* under TLS the peer may have said why */
        bool asks = call->conn->tls && call->state == HTTP_CALL_OPEN;
        return asks && read_response_headers(call, true, 0) == HTTP_CALL_TLS ? HTTP_CALL_TLS
                                                                             : HTTP_CALL_BROKEN;
    }
    if (call->state == HTTP_CALL_OPEN)
        call->state = HTTP_CALL_SENT;
    return HTTP_CALL_DONE;
}

bool http_call_write(struct http_call *call, struct iovec *parts, size_t n, int64_t until_us)
{
    CHECK(call->state >= HTTP_CALL_SENT);
    return call->state == HTTP_CALL_SENT && write_request_parts(call, parts, n, until_us) == 0;
}

enum http_call_result http_call_send(struct http_call *call, int64_t until_us)
{
    CHECK(call->state == HTTP_CALL_OPEN && call->headers.len > 0);
    while (call->sent < call->headers.len + call->body.len) {
        int64_t now = clock_boot_us(); /* the last act before the write */
        if (now >= first_by(call))
            return HTTP_CALL_LATE;
        if (call->sent == 0)
            call->sent_at = now;
        int failed = write_on(call, clock_first(first_by(call), until_us));
        if (failed == -ETIMEDOUT && clock_boot_us() >= until_us)
            return HTTP_CALL_TIMEOUT;
        if (failed != 0 && failed != -ETIMEDOUT)
            return stop_sending(call);
        if (call->sent < call->headers.len + call->body.len)
            CRASH_POINT(between_request_writes);
    }
    call->unsent = false;
    return stop_sending(call);
}

/* ---- all of it ---- */

enum http_call_result http_call_run(struct http_call *call, const struct http_call_limits *limits,
                                    struct buf *body)
{
    int64_t connect_by =
        clock_first(clock_first(limits->connect_by, limits->until), first_by(call));
    enum http_call_result result = http_call_connect(call, connect_by);
    if (result == HTTP_CALL_DONE)
        result = http_call_send(call, limits->until);
    if (result == HTTP_CALL_DONE)
        result = http_call_receive(call, limits->until);
    if (result == HTTP_CALL_DONE)
        result = http_call_read_body(call, limits->max_body, UINT64_MAX, limits->until, body);
    return result;
}

enum exchange_end http_call_end(const struct http_call *call, enum http_call_result result,
                                bool stale)
{
    if (call->sent == 0)
        return EXCHANGE_NOT_SENT;
    if (stale)
        return EXCHANGE_TOKEN_STALE;
    if (result == HTTP_CALL_TIMEOUT)
        return EXCHANGE_TIMED_OUT;
    return result == HTTP_CALL_DONE || result == HTTP_CALL_TOO_LARGE ? EXCHANGE_RESPONDED
           : result == HTTP_CALL_MALFORMED                           ? EXCHANGE_MALFORMED
                                                                     : EXCHANGE_BROKE;
}

static int cause_of_refusal(enum http_refusal refusal)
{
    static const int causes[] = {
        [HTTP_REFUSAL_VERSION] = RECORD_CAUSE_BAD_STATUS_LINE,
        [HTTP_REFUSAL_STATUS_LINE] = RECORD_CAUSE_BAD_STATUS_LINE,
        [HTTP_REFUSAL_LINE_FIRST] = RECORD_CAUSE_BAD_LINE_END,
        [HTTP_REFUSAL_LINE_END] = RECORD_CAUSE_BAD_LINE_END,
        [HTTP_REFUSAL_LINE_ENDS_MIXED] = RECORD_CAUSE_BAD_LINE_END,
        [HTTP_REFUSAL_FIELD_NAME] = RECORD_CAUSE_BAD_FIELD_NAME,
        [HTTP_REFUSAL_FIELD_VALUE] = RECORD_CAUSE_BAD_FIELD_VALUE,
        [HTTP_REFUSAL_OBS_FOLD] = RECORD_CAUSE_BAD_FOLDED_LINE,
        [HTTP_REFUSAL_TOO_MANY_FIELDS] = RECORD_CAUSE_BAD_SIZE,
        [HTTP_REFUSAL_HEADERS_TOO_LARGE] = RECORD_CAUSE_BAD_SIZE,
        [HTTP_REFUSAL_CONTENT_LENGTH] = RECORD_CAUSE_BAD_LENGTH,
        [HTTP_REFUSAL_TRANSFER_ENCODING] = RECORD_CAUSE_BAD_CODING,
        [HTTP_REFUSAL_CHUNK] = RECORD_CAUSE_BAD_CHUNK,
        [HTTP_REFUSAL_TRAILER] = RECORD_CAUSE_BAD_TRAILER,
    };
    bool known = (size_t)refusal < sizeof causes / sizeof *causes && causes[refusal] != 0;
    return known ? causes[refusal] : RECORD_CAUSE_MALFORMED;
}

int http_call_cause(const struct http_call *call, enum exchange_end end)
{
    switch (end) {
    case EXCHANGE_RESPONDED:
        return call->response.status;
    case EXCHANGE_NOT_SENT:
    case EXCHANGE_PORTAL:
        return RECORD_CAUSE_NONE;
    case EXCHANGE_MALFORMED:
        return cause_of_refusal(call->refusal);
    case EXCHANGE_TIMED_OUT:
        return RECORD_CAUSE_TIMEOUT;
    case EXCHANGE_TOKEN_STALE:
        return RECORD_CAUSE_REFUSED;
    case EXCHANGE_BROKE:
        break;
    }
    return RECORD_CAUSE_RESET;
}

/* ---- the end ---- */

/* Whether the next message on the connection can be nothing but the response to the next request.
 */
static bool is_reusable(const struct http_call *call)
{
    bool has_body = call->streams || call->body.len > 0;
    return call->state == HTTP_CALL_RESPONDED && call->response.keep_alive && !call->unsent &&
           !call->upgrades && !http_conn_body_left(call->conn) && !call->conn->is_odd &&
           !call->conn->chunks.is_odd && !(has_body && http_body_may_be_ignored(call->method));
}

void http_call_cut(struct http_call *call)
{
    call->first_by = 1;
    if (call->state != HTTP_CALL_CLOSED)
        (void)shutdown(call->conn->io.fd, SHUT_RDWR);
}

void http_call_close(struct http_call *call)
{
    if (call->state == HTTP_CALL_CLOSED)
        return;
    http_pool_give(call->pool, call->conn, is_reusable(call));
    headers_clear(&call->response.headers); /* they lay in the connection's buffer */
    call->conn = NULL;
    call->state = HTTP_CALL_CLOSED;
}

bool http_call_again(struct http_call *call, enum http_call_result result)
{
    if (result != HTTP_CALL_BROKEN || call->state == HTTP_CALL_CLOSED || call->received == 0 ||
        call->conn->received > call->received)
        return false;
    http_call_close(call);
    call->fresh = true;
    call->sent = 0;
    call->interims = 0;
    return true;
}
