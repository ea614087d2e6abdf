/* SPDX-License-Identifier: Apache-2.0 */
/* One connection: request after request, each read whole and answered whole. */
#include "admin/session.h"

#include "base/json.h"
#include "base/mem.h"
#include <stdarg.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

#define IDLE_US (30 * CLOCK_US_PER_S) /* two scrapes of a minute open two connections */
#define HEAD_US (5 * CLOCK_US_PER_S)
#define BODY_US (30 * CLOCK_US_PER_S)
#define WRITE_US (30 * CLOCK_US_PER_S)
#define LINGER_US (1 * CLOCK_US_PER_S)
#define FIELDS_MAX ((size_t)1024)
#define HEAD_MAX ((size_t)4 * 1024)
#define DETAIL_MAX 1024

static int64_t within(int64_t span_us)
{
    return clock_after(clock_boot_us(), span_us);
}

/* ---- replies ---- */

static struct reply reply_make(void)
{
    return (struct reply){.status = 200,
                          .type = "text/plain; charset=utf-8",
                          .fields = buf_make(FIELDS_MAX),
                          .body = buf_make(ADMIN_REPLY_MAX)};
}

static void reply_fini(struct reply *reply)
{
    buf_fini(&reply->fields);
    buf_fini(&reply->body);
}
#define REPLY_AUTO __attribute__((cleanup(reply_fini)))

void reply_problem(struct reply *reply, int status, const char *detail, ...)
{
    char text[DETAIL_MAX];
    va_list arguments;
    va_start(arguments, detail);
    vsnprintf(text, sizeof text, detail, arguments);
    va_end(arguments);
    reply->status = status;
    reply->type = "application/problem+json";
    buf_clear(&reply->body);
    buf_add_char(&reply->body, '{');
    json_add_text(&reply->body, "type", SLICE("about:blank"));
    json_add_text(&reply->body, "title", slice_of(http_reason(status)));
    json_add_i64(&reply->body, "status", status);
    json_add_text(&reply->body, "detail", slice_of(text));
    buf_add_str(&reply->body, "}\n");
}

void reply_retry_after(struct reply *reply, int64_t seconds)
{
    buf_printf(&reply->fields, "Retry-After: %lld\r\n", (long long)(seconds > 0 ? seconds : 1));
}

static void write_head(struct buf *head, const struct reply *reply, bool keep)
{
    char date[30];
    http_date(clock_wall_us(), date);
    buf_printf(head, "HTTP/1.1 %d %s\r\nDate: %s\r\n", reply->status, http_reason(reply->status),
               date);
    buf_printf(head, "Content-Type: %s\r\nContent-Length: %zu\r\n", reply->type, reply->body.len);
    buf_add_str(head, "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n");
    buf_add_slice(head, buf_slice(&reply->fields));
    buf_add_str(head, keep ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n");
}

/* True: the connection may be used again. */
static bool send_reply(struct session *session, struct reply *reply)
{
    BUF_AUTO struct buf head = buf_make(HEAD_MAX);
    struct http_conn *conn = &session->conn;
    if (!buf_ok(&reply->body) || !buf_ok(&reply->fields))
        reply_problem(reply, 500, "the response is too large, or memory ran out");
    bool keep = session->request.keep_alive && !reply->close && !session->admin->stopping &&
                !http_conn_body_left(conn);
    write_head(&head, reply, keep);
    bool bare = slice_eq(session->request.method, SLICE("HEAD"));
    struct iovec parts[] = {{head.at, head.len}, {reply->body.at, reply->body.len}};
    bool left = buf_ok(&head) && http_conn_write(conn, parts, bare ? 1 : 2, within(WRITE_US)) == 0;
    return left && keep;
}

/* ---- one request ---- */

bool session_read_body(struct session *session, struct buf *body, struct reply *reply)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct http_conn *conn = &session->conn;
    struct iovec part = {(void *)(uintptr_t)go_on, sizeof go_on - 1};
    reply->close = true;
    if (session->request.expect_continue && http_conn_body_left(conn) &&
        http_conn_write(conn, &part, 1, within(WRITE_US)) != 0)
        return false;
    switch (http_conn_read_body(conn, ADMIN_BODY_MAX, within(BODY_US), body)) {
    case HTTP_READ_OK:
        reply->close = false;
        return true;
    case HTTP_READ_TOO_LARGE:
        reply_problem(reply, 413, "the body is larger than %d bytes", (int)ADMIN_BODY_MAX);
        return false;
    case HTTP_READ_REFUSED:
        reply_problem(reply, http_refusal_status(conn->refusal), "%s",
                      http_refusal_text(conn->refusal));
        return false;
    default:
        reply_problem(reply, 408, "the body did not arrive in time");
        return false;
    }
}

static bool refuse(struct session *session, int status, const char *why)
{
    REPLY_AUTO struct reply reply = reply_make();
    reply.close = true;
    reply_problem(&reply, status, "%s", why);
    return send_reply(session, &reply);
}

static bool serve_one(struct session *session)
{
    struct http_conn *conn = &session->conn;
    if (session->admin->stopping || http_conn_wait(conn, within(IDLE_US)) != HTTP_READ_OK)
        return false;
    switch (http_conn_read_request(conn, within(HEAD_US), &session->request)) {
    case HTTP_READ_OK:
        break;
    case HTTP_READ_REFUSED:
        return refuse(session, http_refusal_status(conn->refusal),
                      http_refusal_text(conn->refusal));
    case HTTP_READ_TIMEOUT:
        session->request = (struct http_request){0};
        return refuse(session, 408, "the request headers did not arrive in time");
    default:
        return false;
    }
    REPLY_AUTO struct reply reply = reply_make();
    route(session, &reply);
    if (!send_reply(session, &reply))
        return false;
    http_conn_next(conn);
    return true;
}

static void session_end(struct session *session)
{
    struct admin *admin = session->admin;
    *(session->prev ? &session->prev->next : &admin->sessions) = session->next;
    if (session->next)
        session->next->prev = session->prev;
    admin->n_sessions--;
    mem_free(session);
}

void session_run(void *argument)
{
    struct session *session = argument;
    int fd = session->fd;
    if (http_conn_open(&session->conn, fd)) {
        session->fd = -1;
        while (serve_one(session))
            ;
        if (!session->admin->stopping && session->conn.received > 0)
            http_conn_linger(&session->conn, LINGER_US, within(LINGER_US));
        http_conn_close(&session->conn);
    }
    session_end(session);
}
