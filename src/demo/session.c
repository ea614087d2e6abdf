/* SPDX-License-Identifier: Apache-2.0 */
#include "demo/session.h"

#include "base/clock.h"
#include "base/mem.h"
#include "demo/service.h"
#include "http/conn.h"
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define IDLE_US (300 * CLOCK_US_PER_S)
#define READ_US (30 * CLOCK_US_PER_S)
#define WRITE_US (30 * CLOCK_US_PER_S)
#define LINGER_US (2 * CLOCK_US_PER_S)
#define REQUEST_BODY_MAX ((size_t)64 * 1024)
#define HEAD_MAX ((size_t)8 * 1024)
#define ARENA_MAX ((size_t)8 * 1024 * 1024)

struct session {
    struct demo *demo;
    struct session *newer;
    struct session *older;
    struct parker *parker; /* NULL: its fiber has not run yet */
    int fd;                /* until conn has it */
    struct http_conn conn;
    struct http_request request;
};

static int64_t within(int64_t span_us)
{
    return clock_after(clock_boot_us(), span_us);
}

/* ---- answers ---- */

static void answer_fini(struct service_answer *answer)
{
    buf_fini(&answer->fields);
    buf_fini(&answer->body);
}
#define ANSWER_AUTO __attribute__((cleanup(answer_fini)))

/* How an answer is sent. */
struct manner {
    bool keep;   /* the connection lives on */
    bool silent; /* head only: it answers HEAD */
    bool half;   /* the head and half of the body */
};

static void write_head(struct buf *head, const struct service_answer *answer, bool keep)
{
    char date[30];
    http_date(clock_wall_us(), date);
    buf_printf(head, "HTTP/1.1 %d %s\r\nDate: %s\r\n", answer->status, http_reason(answer->status),
               date);
    buf_printf(head, "Content-Type: application/json\r\nContent-Length: %zu\r\n", answer->body.len);
    if (answer->allow != NULL)
        buf_printf(head, "Allow: %s\r\n", answer->allow);
    buf_add_slice(head, buf_slice(&answer->fields));
    buf_add_str(head, keep ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n");
}

static bool send_answer(struct session *session, const struct service_answer *answer,
                        struct manner manner)
{
    BUF_AUTO struct buf head = buf_make(HEAD_MAX);
    write_head(&head, answer, manner.keep);
    if (!buf_ok(&head) || !buf_ok(&answer->fields) || !buf_ok(&answer->body))
        return false;
    size_t n_body = manner.silent ? 0 : answer->body.len;
    struct iovec parts[] = {{head.at, head.len},
                            {answer->body.at, manner.half ? n_body / 2 : n_body}};
    return http_conn_write(&session->conn, parts, 2, within(WRITE_US)) == 0 && manner.keep;
}

/* Answers a request that could not be read, if there is somebody to answer. */
static void refuse(struct session *session, enum http_read result)
{
    ANSWER_AUTO struct service_answer answer = service_answer_make();
    enum http_refusal refusal = session->conn.refusal;
    switch (result) {
    case HTTP_READ_REFUSED:
        service_refuse(&answer, http_refusal_status(refusal), http_refusal_text(refusal));
        break;
    case HTTP_READ_TIMEOUT:
        service_refuse(&answer, 408, "the request took too long");
        break;
    case HTTP_READ_TOO_LARGE:
        service_refuse(&answer, 413, "the body is too large");
        break;
    case HTTP_READ_NO_MEMORY:
        service_refuse(&answer, 503, "no memory");
        break;
    default:
        return;
    }
    send_answer(session, &answer, (struct manner){0});
    http_conn_linger(&session->conn, LINGER_US, within(LINGER_US));
}

/* ---- one request ---- */

static enum http_read read_request(struct session *session, struct buf *body)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct http_conn *conn = &session->conn;
    int64_t deadline_us = within(READ_US);
    enum http_read result = http_conn_read_request(conn, deadline_us, &session->request);
    if (result != HTTP_READ_OK)
        return result;
    struct iovec part = {(void *)(uintptr_t)go_on, sizeof go_on - 1};
    if (session->request.expect_continue && http_conn_body_left(conn) &&
        http_conn_write(conn, &part, 1, deadline_us) != 0)
        return HTTP_READ_BROKEN;
    return http_conn_read_body(conn, REQUEST_BODY_MAX, deadline_us, body);
}

/* A gateway that asks what became of a lost answer sends its client's headers along: questions
 * are answered. False: the header asks for something that does not exist. */
static bool choose_faults(const struct session *session, struct demo_faults *ret_faults)
{
    const struct http_request *request = &session->request;
    if (!slice_eq(request->method, SLICE("POST")))
        return true;
    const struct header *header = headers_find(&request->headers, SLICE("Demo-Fault"));
    if (header != NULL)
        return demo_faults_read(header->value, ret_faults);
    *ret_faults = session->demo->faults;
    return true;
}

/* False: the demo stops. */
static bool delay(const struct session *session, int64_t delay_ms)
{
    int64_t deadline_us = within(delay_ms * CLOCK_US_PER_MS);
    while (!session->demo->stopping)
        if (fiber_wait(NULL, 0, deadline_us) == FIBER_DEADLINE)
            return true;
    return false;
}

struct sync_job {
    const struct ledger *ledger;
    bool done;
};

static void run_sync(void *argument)
{
    struct sync_job *job = argument;
    job->done = ledger_sync(job->ledger);
}

static bool sync_ledger(const struct demo *demo)
{
    struct sync_job job = {.ledger = demo->ledger};
    return fiber_offload(demo->workers, run_sync, &job) && job.done;
}

/* Acts on the request. False: nothing is to be answered. */
static bool act(struct session *session, struct slice body, const struct demo_faults *faults,
                struct service_answer *answer)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct demo *demo = session->demo;
    if ((faults->delay_ms > 0 && !delay(session, faults->delay_ms)) || faults->lose_before)
        return false;
    if (faults->status != 0) {
        service_refuse(answer, faults->status, "a fault was asked for");
        return true;
    }
    service_handle(demo->ledger, &session->request, body, &arena, answer);
    if (answer->effect && !sync_ledger(demo))
        service_refuse(answer, 500, "the entry may be lost: the disk did not take it");
    return !faults->lose;
}

/* True: the connection lives on. */
static bool answer_request(struct session *session, struct slice body)
{
    ANSWER_AUTO struct service_answer answer = service_answer_make();
    struct demo_faults faults = {0};
    if (!choose_faults(session, &faults))
        service_refuse(&answer, 400,
                       "Demo-Fault: delay=MS, status=400..599, lose, lose-before, "
                       "half");
    else if (!act(session, body, &faults, &answer))
        return false;
    struct manner manner = {
        .keep = session->request.keep_alive && !faults.half && !session->demo->stopping,
        .silent = slice_eq(session->request.method, SLICE("HEAD")),
        .half = faults.half,
    };
    return send_answer(session, &answer, manner);
}

static bool serve_one(struct session *session)
{
    BUF_AUTO struct buf body = buf_make(REQUEST_BODY_MAX);
    if (session->demo->stopping || http_conn_wait(&session->conn, within(IDLE_US)) != HTTP_READ_OK)
        return false;
    enum http_read result = read_request(session, &body);
    if (result != HTTP_READ_OK) {
        refuse(session, result);
        return false;
    }
    if (!answer_request(session, buf_slice(&body)))
        return false;
    http_conn_next(&session->conn);
    return true;
}

/* ---- life ---- */

static void enlist(struct session *session)
{
    struct demo *demo = session->demo;
    session->older = demo->sessions;
    if (demo->sessions != NULL)
        demo->sessions->newer = session;
    demo->sessions = session;
}

static void delist(struct session *session)
{
    *(session->newer != NULL ? &session->newer->older : &session->demo->sessions) = session->older;
    if (session->older != NULL)
        session->older->newer = session->newer;
}

static void run_session(void *argument)
{
    struct session *session = argument;
    session->parker = fiber_parker();
    if (http_conn_open(&session->conn, session->fd)) {
        while (serve_one(session))
            ;
        http_conn_close(&session->conn);
    }
    delist(session);
    mem_free(session);
}

bool session_start(struct demo *demo, struct loop *loop, int fd)
{
    struct session *session = mem_zalloc(1, sizeof *session);
    if (session == NULL || !fiber_spawn(loop, "session", run_session, session)) {
        mem_free(session);
        close(fd);
        return false;
    }
    session->demo = demo;
    session->fd = fd;
    enlist(session);
    return true;
}

void sessions_stop(struct demo *demo)
{
    demo->stopping = true;
    for (struct session *at = demo->sessions; at != NULL; at = at->older) {
        if (at->parker == NULL || at->conn.io.fd < 0)
            continue;
        shutdown(at->conn.io.fd, SHUT_RD);
        at->parker->wake(at->parker);
    }
}
