/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ask.h"

#include "base/clock.h"
#include "base/thread.h"
#include "fiber/fiber.h"
#include "http/conn.h"
#include <sys/uio.h>

#define INTERIM_MAX 16 /* 1xx answers before the final one */
#define FIELDS_MAX ((size_t)64 * 1024)

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static enum exchange_end end_of(enum http_read read)
{
    return read == HTTP_READ_TIMEOUT ? EXCHANGE_TIMED_OUT : EXCHANGE_BROKE;
}

/* The upstream knows of a later token: whatever else it says is about an older state. */
static bool refuses_token(const struct http_response *response)
{
    const struct header *code = headers_find(&response->headers, SLICE("Error-Code"));
    return response->status >= 400 && response->status < 500 && code &&
           slice_eq(code->value, SLICE("CONFLICT.idempotency.token_stale"));
}

static enum exchange_end read_answer(struct ask *ask, struct http_conn *conn, int64_t deadline)
{
    struct http_response response;
    enum http_read read = HTTP_READ_OK;
    for (int interim = 0;; interim++) {
        read = http_conn_read_response(conn, SLICE("GET"), deadline, &response);
        if (read != HTTP_READ_OK)
            return end_of(read);
        if (response.status >= 200)
            break;
        if (response.status == 101 || interim == INTERIM_MAX)
            return EXCHANGE_BROKE;
        http_conn_next(conn);
    }
    ask->status = response.status;
    outcome_keep_fields(&response.headers, ask->keep_cookies, &ask->fields);
    if (refuses_token(&response))
        return EXCHANGE_TOKEN_STALE;
    read = http_conn_read_body(conn, ask->body_max, deadline, &ask->body);
    ask->whole = read == HTTP_READ_OK && buf_ok(&ask->fields);
    if (read == HTTP_READ_OK || read == HTTP_READ_TOO_LARGE)
        return EXCHANGE_ANSWERED;
    return end_of(read);
}

static enum exchange_end exchange(struct ask *ask)
{
    struct http_conn conn;
    int64_t now = clock_boot_us(), deadline = clock_after(now, ask->timeout_us);
    int64_t connect_by = least(deadline, clock_after(now, ask->connect_us));
    struct iovec part = {(void *)(uintptr_t)ask->head.at, ask->head.len};
    if (http_upstream_connect(&ask->upstream, &conn, least(connect_by, ask->attempt->send_by)) != 0)
        return EXCHANGE_NOT_SENT;
    enum exchange_end end = EXCHANGE_NOT_SENT;
    int failed = engine_may_send(ask->attempt) ? http_conn_send(&conn, &part, 1, deadline) : -1;
    if (failed == 0)
        end = read_answer(ask, &conn, deadline);
    else if (conn.sent > 0)
        end = EXCHANGE_BROKE;
    http_conn_close(&conn);
    return end;
}

static void run_fiber(void *argument)
{
    struct ask *ask = argument;
    ask->end = exchange(ask);
}

static void run_loop(void *argument)
{
    struct loop *loop = loop_new(1);
    if (loop && fiber_spawn(loop, "ask", run_fiber, argument)) {
        loop_stop(loop);
        loop_run(loop);
    }
    loop_free(loop);
}

void ask_run(struct ask *ask)
{
    struct thread thread;
    ask->end = EXCHANGE_NOT_SENT;
    ask->fields = buf_make(FIELDS_MAX);
    ask->body = buf_make(SIZE_MAX);
    if (thread_start(&thread, "ask", run_loop, ask))
        thread_join(&thread);
}
