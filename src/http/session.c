/* SPDX-License-Identifier: Apache-2.0 */
/* One connection: request after request, in order, until one side ends it. */
#include "http/server_priv.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include <sys/uio.h>

#define DROP_MAX ((uint64_t)64 * 1024)      /* of a body that was not read */
#define ARENA_MAX ((size_t)8 * 1024 * 1024) /* what is derived from one request */
/* A client that still sends after its response is listened to for as long as nginx does. */
#define LINGER_IDLE_US (INT64_C(5) * CLOCK_US_PER_S)
#define LINGER_US (INT64_C(30) * CLOCK_US_PER_S)
#define LINGER_DRAIN_US (INT64_C(1) * CLOCK_US_PER_S)
/* What is accepted in a drain may be silent for as long. */
#define FIRST_DRAIN_US (INT64_C(1) * CLOCK_US_PER_S)

static int64_t deadline_within(int64_t duration_us)
{
    return clock_after(clock_boot_us(), duration_us);
}

static struct http_complaint complaint_of_session(const struct http_session *session,
                                                  enum http_refused why)
{
#define X(name, status, text) {HTTP_##name, status, text, NULL},
    static const struct http_complaint rows[] = {HTTP_REFUSED(X)};
#undef X
    struct http_complaint complaint = rows[why];
    if (why == HTTP_MALFORMED) {
        complaint.status = http_refusal_status(session->conn.refusal);
        complaint.text = http_refusal_text(session->conn.refusal);
    }
    return complaint;
}

/* ---- for a service ---- */

bool http_session_is_draining(const struct http_session *session)
{
    return http_server_is_draining(session->door->server);
}

bool http_session_may_go_on(const struct http_session *session)
{
    const struct http_conn *conn = &session->conn;
    if (!session->request || !session->request->keep_alive)
        return false;
    if (http_session_is_draining(session) || session->leaving)
        return false;
    if (!http_conn_body_left(conn))
        return true;
    return conn->framing == HTTP_FRAMING_LENGTH && conn->left <= DROP_MAX &&
           !session->request->expect_continue;
}

bool http_session_send_continue(struct http_session *session)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (!session->request->expect_continue || !http_conn_body_left(&session->conn))
        return true;
    struct iovec part = {(void *)(uintptr_t)text, sizeof text - 1};
    int64_t deadline = deadline_within(session->door->limits.write_us);
    return http_conn_write(&session->conn, &part, 1, deadline) == 0;
}

void http_session_await_body(struct http_session *session, bool passes)
{
    if (http_conn_body_left(&session->conn))
        http_slots_move(session, passes ? HTTP_SESSION_PASSING : HTTP_SESSION_OWING);
}

/* One that has not come, and makes room, is waited for until its connection has ended. */
void http_session_had_body(struct http_session *session)
{
    bool waits = session->makes_room && http_conn_body_left(&session->conn);
    if (session->state != HTTP_SESSION_BUSY && !waits)
        http_slots_move(session, HTTP_SESSION_BUSY);
}

bool http_session_makes_room(const struct http_session *session)
{
    return session->makes_room;
}

bool http_session_read_body(struct http_session *session, struct buf *body,
                            struct http_complaint *ret_complaint)
{
    static const enum http_refused whys[] = {
        [HTTP_READ_CLOSED] = HTTP_BODY_LATE,     [HTTP_READ_BROKEN] = HTTP_BODY_LATE,
        [HTTP_READ_TIMEOUT] = HTTP_BODY_LATE,    [HTTP_READ_REFUSED] = HTTP_MALFORMED,
        [HTTP_READ_TOO_LARGE] = HTTP_BODY_LARGE, [HTTP_READ_NO_MEMORY] = HTTP_NO_MEMORY,
    };
    enum http_read read = HTTP_READ_BROKEN;
    int64_t deadline = deadline_within(session->door->limits.body_us);
    http_session_await_body(session, false);
    if (http_session_send_continue(session))
        read = http_conn_read_body(&session->conn, body->max, UINT64_MAX, deadline, body);
    http_session_had_body(session);
    if (read != HTTP_READ_OK)
        *ret_complaint =
            complaint_of_session(session, session->makes_room ? HTTP_FULL : whys[read]);
    return read == HTTP_READ_OK;
}

bool http_session_write(struct http_session *session, const struct buf *headers, struct slice body)
{
    const struct http_request *request = session->request;
    bool silent = body.len == 0 || (request && slice_eq(request->method, SLICE("HEAD")));
    struct iovec parts[2] = {{headers->at, headers->len}, {(void *)(uintptr_t)body.at, body.len}};
    int64_t deadline = deadline_within(session->door->limits.write_us);
    return buf_ok(headers) && http_conn_write(&session->conn, parts, silent ? 1 : 2, deadline) == 0;
}

/* ---- one request ---- */

void http_session_refuse(struct http_session *session, enum http_refused why,
                         const struct http_request *malformed)
{
    struct http_complaint complaint = complaint_of_session(session, why);
    complaint.malformed = malformed;
    session->door->server->config.service->refuse(session, &complaint);
}

/* What a client still sends of a body that was refused. */
static bool drop_body(struct http_session *session)
{
    if (!http_conn_body_left(&session->conn))
        return true;
    int64_t deadline = deadline_within(session->door->limits.body_us);
    enum http_read read = HTTP_READ_OK;
    http_session_await_body(session, false);
    while (read == HTTP_READ_OK && http_conn_body_left(&session->conn)) {
        struct slice data;
        read = http_conn_read_some(&session->conn, deadline, &data);
    }
    http_session_had_body(session);
    return read == HTTP_READ_OK;
}

static bool read_session_headers(struct http_session *session, struct http_request *request)
{
    struct http_conn *conn = &session->conn;
    int64_t deadline = deadline_within(session->door->limits.headers_us);
    enum http_read read = http_conn_read_request(conn, deadline, request);
    http_slots_move(session, read == HTTP_READ_OK ? HTTP_SESSION_BUSY : HTTP_SESSION_ENDING);
    session->began_us = clock_boot_us();
    session->sent_before = conn->sent;
    if (read == HTTP_READ_REFUSED)
        http_session_refuse(session, HTTP_MALFORMED, request);
    else if (read == HTTP_READ_TIMEOUT)
        http_session_refuse(session, HTTP_LATE, NULL);
    else if (read != HTTP_READ_OK && session->makes_room)
        http_session_refuse(session, HTTP_FULL, NULL);
    return read == HTTP_READ_OK;
}

/* In a drain only what has come is served, and what is about to come on a connection that was just
 * accepted: unread, it would be reset. */
static bool await_request(struct http_session *session)
{
    bool is_first = session->conn.sent == 0;
    int64_t idle_us = !http_session_is_draining(session) ? session->door->limits.idle_us
                      : is_first                         ? FIRST_DRAIN_US
                                                         : 0;
    return !session->leaving &&
           http_conn_wait(&session->conn, deadline_within(idle_us)) == HTTP_READ_OK;
}

/* True: the connection is as if it had just been accepted. */
static bool serve_one(struct http_session *session)
{
    const struct http_service *service = session->door->server->config.service;
    if (!await_request(session))
        return false;
    struct arena arena ARENA_AUTO = arena_make(ARENA_MAX);
    struct http_request *request = arena_alloc(&arena, sizeof *request);
    http_slots_move(session, request ? HTTP_SESSION_READING : HTTP_SESSION_ENDING);
    if (!request || !read_session_headers(session, request))
        return false;
    session->request = request;
    bool goes_on = service->serve(session, &arena) && drop_body(session);
    session->request = NULL;
    if (!goes_on)
        return false;
    http_conn_next(&session->conn);
    http_slots_move(session, HTTP_SESSION_IDLE);
    return true;
}

/* ---- its life ---- */

/* It has its response: when a newcomer needs its slot, or the server drains, it goes at once.
 */
static void linger_session(struct http_session *session)
{
    if (session->leaving) {
        http_conn_linger(&session->conn, 0, 0);
        return;
    }
    int64_t most = http_session_is_draining(session) ? LINGER_DRAIN_US : LINGER_US;
    http_slots_move(session, HTTP_SESSION_LINGERING);
    http_conn_linger(&session->conn, LINGER_IDLE_US, deadline_within(most));
    http_slots_move(session, HTTP_SESSION_ENDING);
}

void http_session_run(void *argument)
{
    struct http_session *session = argument;
    const struct http_conn *conn = &session->conn;
    while (serve_one(session))
        ;
    if (session->state != HTTP_SESSION_ENDING)
        http_slots_move(session, HTTP_SESSION_ENDING);
    if (session->cut_off)
        http_conn_abort(&session->conn);
    else if (conn->headers_len > 0 || conn->refusal != HTTP_REFUSAL_NONE)
        linger_session(session);
    http_session_end(session);
}
