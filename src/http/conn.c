/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The input buffer between two calls (what is read in the middle of a body is in conn_body.c):
 *
 *   none read yet    [ bytes of the next headers ............. | room ]
 *                    0                                        len    cap
 *   headers read     [ headers, frozen | consumed | unconsumed . | room ]
 *                    0       headers_len        used          len    cap
 *
 * Slices of the headers point into the buffer, so from the moment headers were read until
 * http_conn_next the buffer neither moves nor grows: there is room for WINDOW_MIN bytes behind the
 * headers by then.
 */
#include "http/conn.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define WINDOW_MIN ((size_t)4 * 1024)
#define LINGER_PART ((size_t)16 * 1024) /* read at once of what is dropped */
#define INPUT_MAX (HTTP_HEADERS_SIZE_MAX + WINDOW_MIN)

/* ---- open and close ---- */

/* Pieces of one message must not wait for acknowledgements. Fails on what is not TCP. */
static void send_at_once(int fd)
{
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static struct http_conn conn_make(void)
{
    return (struct http_conn){.io = {.fd = -1}, .in = buf_make(INPUT_MAX)};
}

bool http_conn_open(struct http_conn *conn, int fd)
{
    *conn = conn_make();
    if (!fiber_io_open(&conn->io, fd)) {
        close(fd);
        conn->io.fd = -1;
        return false;
    }
    send_at_once(fd);
    return true;
}

int http_conn_connect(struct http_conn *conn, const struct sockaddr_storage *address,
                      int64_t deadline_us)
{
    *conn = conn_make();
    unsigned len = address->ss_family == AF_UNIX ? sizeof(struct sockaddr_un) : sizeof *address;
    int failed = fiber_connect(&conn->io, (const struct sockaddr *)address, len, deadline_us);
    if (failed != 0)
        return failed;
    send_at_once(conn->io.fd);
    return 0;
}

static void input_free(struct http_conn *conn)
{
    buf_fini(&conn->in);
    mem_block_free(MEM_BLOCK_INPUT, conn->block);
    conn->block = NULL;
}

int http_conn_secure(struct http_conn *conn, struct tls_client *client, int64_t deadline_us,
                     const char **ret_problem)
{
    int failed = tls_connect(client, &conn->io, deadline_us, &conn->tls, ret_problem);
    if (failed != 0)
        http_conn_close(conn);
    return failed;
}

bool http_conn_end(struct http_conn *conn)
{
    if (conn->tls)
        tls_end(conn->tls);
    return shutdown(conn->io.fd, SHUT_WR) == 0;
}

void http_conn_close(struct http_conn *conn)
{
    if (conn->tls)
        tls_end(conn->tls);
    tls_free(conn->tls);
    conn->tls = NULL;
    fiber_io_close(&conn->io);
    input_free(conn);
}

void http_conn_abort(struct http_conn *conn)
{
    struct linger at_once = {.l_onoff = 1};
    tls_free(conn->tls);
    conn->tls = NULL;
    if (conn->io.fd >= 0)
        (void)setsockopt(conn->io.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    http_conn_close(conn);
}

void http_conn_linger(struct http_conn *conn, int64_t idle_us, int64_t deadline_us)
{
    buf_clear(&conn->in);
    char *at = http_conn_end(conn) ? buf_room(&conn->in, LINGER_PART) : NULL;
    ptrdiff_t got = at ? 1 : 0;
    while (got > 0) {
        int64_t idle_until = clock_after(clock_boot_us(), idle_us);
        got = http_conn_receive(conn, at, LINGER_PART,
                                idle_until < deadline_us ? idle_until : deadline_us);
    }
    http_conn_close(conn);
}

bool http_conn_stays_silent(struct http_conn *conn)
{
    char byte;
    if (conn->io.hung_up)
        return false;
    if (conn->tls)
        return tls_stays_silent(conn->tls);
    ssize_t got = recv(conn->io.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got < 0 && errno == EAGAIN;
}

/* ---- reading header sections ---- */

/* A peer without TCP_NODELAY that writes a message in pieces sends the next one when the last was
 * acknowledged, which the kernel puts off by 40 ms for a receiver that may respond. Fails on
 * what is not TCP. */
static void acknowledge_at_once(int fd)
{
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
}

ptrdiff_t http_conn_receive(struct http_conn *conn, char *at, size_t n, int64_t deadline_us)
{
    if (!conn->io.readable) /* it will wait, in the middle of a message */
        acknowledge_at_once(conn->io.fd);
    ptrdiff_t got = !conn->tls ? fiber_read(&conn->io, at, n, deadline_us)
                               : tls_read(conn->tls, at, n, deadline_us);
    if (got > 0)
        conn->received += (uint64_t)got;
    return got;
}

/* Takes what has arrived. The buffer is given back when that was nothing. */
static ptrdiff_t receive_first(struct http_conn *conn)
{
    CHECK(!conn->in.at);
    conn->block = mem_block_new(MEM_BLOCK_INPUT);
    if (!conn->block)
        return -ENOMEM;
    conn->in = buf_on(conn->block, MEM_BLOCK_INPUT_SIZE, INPUT_MAX);
    ptrdiff_t got = http_conn_receive(conn, conn->in.at, conn->in.cap, 0);
    if (got > 0)
        buf_added(&conn->in, (size_t)got);
    else
        input_free(conn);
    return got;
}

enum http_read http_conn_wait(struct http_conn *conn, int64_t idle_deadline_us)
{
    CHECK(conn->headers_len == 0 && conn->io.fd >= 0);
    struct fiber_source source = {&conn->io, FIBER_READ};
    while (conn->in.len == 0) {
        enum fiber_wake wake = fiber_wait(&source, 1, idle_deadline_us);
        if (wake == FIBER_DEADLINE)
            return HTTP_READ_TIMEOUT;
        ptrdiff_t got = wake == FIBER_READY ? receive_first(conn) : -ETIMEDOUT;
        if (got == -ENOMEM)
            return HTTP_READ_NO_MEMORY;
        if (got <= 0 && got != -ETIMEDOUT)
            return HTTP_READ_CLOSED;
        /* Under TLS a peer can send without end what is no message. */
        if (got == -ETIMEDOUT && clock_boot_us() >= idle_deadline_us)
            return HTTP_READ_TIMEOUT;
    }
    return HTTP_READ_OK;
}

/* Reads more of headers that have begun. */
static enum http_read receive_headers(struct http_conn *conn, int64_t deadline_us)
{
    struct buf *in = &conn->in;
    if (in->len == 0)
        return http_conn_wait(conn, deadline_us);
    char *at = buf_room(in, 1);
    if (!at)
        return HTTP_READ_NO_MEMORY;
    ptrdiff_t got = http_conn_receive(conn, at, in->cap - in->len, deadline_us);
    if (got <= 0)
        return got == -ETIMEDOUT ? HTTP_READ_TIMEOUT : HTTP_READ_BROKEN;
    buf_added(in, (size_t)got);
    return HTTP_READ_OK;
}

/* Which headers are read, and where they go. */
struct wanted {
    struct http_request *request; /* or else response */
    struct http_response *response;
    struct slice method;
};

static enum http_parse parse_wanted(struct http_conn *conn, const struct wanted *wanted)
{
    struct slice bytes = buf_slice(&conn->in);
    if (wanted->request)
        return http_parse_request(bytes, &conn->scan, wanted->request);
    struct http_response *response = wanted->response;
    enum http_parse parsed = http_parse_response(bytes, &conn->scan, wanted->method, response);
    /* On a connection that has carried something it may be the end of that. */
    if (parsed != HTTP_PARSE_DONE || !response->line_first || conn->received == conn->in.len)
        return parsed;
    response->refusal = HTTP_REFUSAL_LINE_FIRST;
    return HTTP_PARSE_REFUSED;
}

/* Sees to room for the window. Growing moves the headers, so they are parsed once more. */
static enum http_read freeze_headers(struct http_conn *conn, const struct wanted *wanted,
                                     size_t headers_len)
{
    struct buf *in = &conn->in;
    size_t need = headers_len + WINDOW_MIN;
    CHECK(headers_len <= in->len && need <= in->max);
    if (in->cap < need) {
        if (!buf_room(in, need - in->len))
            return HTTP_READ_NO_MEMORY;
        CHECK(parse_wanted(conn, wanted) == HTTP_PARSE_DONE);
    }
    conn->headers_len = conn->used = headers_len;
    return HTTP_READ_OK;
}

static void begin_body(struct http_conn *conn, enum http_framing framing, uint64_t length,
                       bool is_response)
{
    conn->framing = framing;
    conn->left = length;
    conn->chunks = (struct http_chunks){.is_response = is_response};
    conn->body_done =
        framing == HTTP_FRAMING_NONE || (framing == HTTP_FRAMING_LENGTH && length == 0);
}

static enum http_read read_message_headers(struct http_conn *conn, const struct wanted *wanted,
                                           int64_t deadline_us)
{
    CHECK(conn->headers_len == 0);
    enum http_parse parsed = HTTP_PARSE_MORE;
    while ((parsed = parse_wanted(conn, wanted)) == HTTP_PARSE_MORE) {
        enum http_read result = receive_headers(conn, deadline_us);
        if (result != HTTP_READ_OK)
            return result;
    }
    const struct http_request *request = wanted->request;
    const struct http_response *response = wanted->response;
    if (parsed == HTTP_PARSE_REFUSED) {
        conn->refusal = request ? request->refusal : response->refusal;
        return HTTP_READ_REFUSED;
    }
    if (request)
        begin_body(conn, request->framing, request->content_length, false);
    else
        begin_body(conn, response->framing, response->content_length, true);
    conn->is_odd = conn->is_odd || (response && response->is_odd);
    return freeze_headers(conn, wanted, request ? request->headers_len : response->headers_len);
}

enum http_read http_conn_read_request(struct http_conn *conn, int64_t deadline_us,
                                      struct http_request *ret)
{
    return read_message_headers(conn, &(struct wanted){.request = ret}, deadline_us);
}

enum http_read http_conn_read_response(struct http_conn *conn, struct slice method,
                                       int64_t deadline_us, struct http_response *ret)
{
    return read_message_headers(conn, &(struct wanted){.response = ret, .method = method},
                                deadline_us);
}

/* ---- between messages, and writing ---- */

bool http_conn_body_left(const struct http_conn *conn)
{
    return conn->headers_len > 0 && !conn->body_done;
}

struct slice http_conn_take_rest(struct http_conn *conn)
{
    CHECK(conn->headers_len > 0 && !http_conn_body_left(conn));
    struct slice rest = slice_skip(buf_slice(&conn->in), conn->used);
    conn->used = conn->in.len;
    return rest;
}

void http_conn_next(struct http_conn *conn)
{
    CHECK(!http_conn_body_left(conn) && conn->used <= conn->in.len);
    buf_drop(&conn->in, conn->used);
    conn->headers_len = conn->used = conn->scan = 0;
    if (conn->in.len == 0)
        input_free(conn);
}

int http_conn_write(struct http_conn *conn, struct iovec *parts, size_t n_parts,
                    int64_t deadline_us)
{
    size_t sent = 0;
    int failed = !conn->tls ? fiber_write(&conn->io, parts, n_parts, deadline_us, &sent)
                            : tls_write(conn->tls, parts, n_parts, deadline_us, &sent);
    conn->sent += sent;
    return failed;
}

int http_conn_send(struct http_conn *conn, struct iovec *parts, size_t n_parts, int64_t deadline_us)
{
    for (;;) {
        int failed = http_conn_write(conn, parts, n_parts, 0);
        if (failed != -ETIMEDOUT)
            return failed;
        struct fiber_source source = {&conn->io, FIBER_READ | FIBER_WRITE};
        if (fiber_wait(&source, 1, deadline_us) == FIBER_DEADLINE)
            return -ETIMEDOUT;
        if (conn->io.readable)
            return -EALREADY;
    }
}
