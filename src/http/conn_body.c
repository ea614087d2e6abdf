/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies. What already lies in the window is consumed first. Then chunked bodies and those that are
 * lent go through the window, refilled only when it is used up; bodies of a known length, and those
 * the peer ends by closing, are received straight into the caller's buffer. A body of a known
 * length is never read past its end, so what follows it stays in the kernel.
 */
#include "http/conn.h"

#include "base/check.h"
#include "base/crash.h"
#include <errno.h>

/* How far a body's buffer grows ahead of what arrived: a peer that announces much and sends nothing
 * costs this much. */
#define AHEAD_MAX ((size_t)64 * 1024)

static uint64_t smaller_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* An end of stream ends one kind of body; a reset ends none. */
static enum http_read on_no_bytes(struct http_conn *conn, ptrdiff_t got)
{
    if (got == -ETIMEDOUT)
        return HTTP_READ_TIMEOUT;
    if (got < 0 || conn->framing != HTTP_FRAMING_CLOSE)
        return HTTP_READ_BROKEN;
    conn->body_done = true;
    return HTTP_READ_OK;
}

/* Reads behind the headers; nothing unconsumed is left there. */
static enum http_read refill_buffer(struct http_conn *conn, int64_t deadline_us)
{
    struct buf *in = &conn->in;
    CHECK(conn->used == in->len && conn->headers_len < in->cap);
    buf_cut(in, conn->headers_len);
    conn->used = conn->headers_len;
    size_t room = in->cap - in->len;
    if (conn->framing == HTTP_FRAMING_LENGTH)
        room = (size_t)smaller_of(room, conn->left);
    ptrdiff_t got = http_conn_receive(conn, in->at + in->len, room, deadline_us);
    if (got <= 0)
        return on_no_bytes(conn, got);
    buf_added(in, (size_t)got);
    return HTTP_READ_OK;
}

static enum http_read take_chunked(struct http_conn *conn, struct slice window,
                                   struct slice *ret_data)
{
    size_t used = 0;
    enum http_parse parsed = http_chunks_decode(&conn->chunks, window, &used, ret_data);
    if (parsed == HTTP_PARSE_REFUSED) {
        conn->refusal = conn->chunks.refusal;
        return HTTP_READ_REFUSED;
    }
    conn->used += used;
    conn->body_done = parsed == HTTP_PARSE_DONE;
    return HTTP_READ_OK;
}

static void take_plain(struct http_conn *conn, struct slice window, struct slice *ret_data)
{
    if (conn->framing == HTTP_FRAMING_LENGTH) {
        window.len = (size_t)smaller_of(window.len, conn->left);
        conn->left -= window.len;
        conn->body_done = conn->left == 0;
    }
    conn->used += window.len;
    *ret_data = window;
}

/* Reads when the window is used up. */
static enum http_read fill_window(struct http_conn *conn, int64_t deadline_us)
{
    return conn->used == conn->in.len ? refill_buffer(conn, deadline_us) : HTTP_READ_OK;
}

/* One run of data from the window, perhaps empty. */
static enum http_read take_window(struct http_conn *conn, struct slice *ret_data)
{
    struct slice window = slice_skip(buf_slice(&conn->in), conn->used);
    if (conn->framing == HTTP_FRAMING_CHUNKED)
        return take_chunked(conn, window, ret_data);
    take_plain(conn, window, ret_data);
    return HTTP_READ_OK;
}

static enum http_read take_run(struct http_conn *conn, int64_t deadline_us, struct slice *ret_data)
{
    *ret_data = slice_make(NULL, 0);
    enum http_read result = fill_window(conn, deadline_us);
    return result != HTTP_READ_OK || conn->body_done ? result : take_window(conn, ret_data);
}

/* Small chunks that lie in the window are lent as one run, moved together where they lie: a
 * caller that passes them on writes once for all of them. A malformed one is met again by the next
 * call. */
static void join_chunks(struct http_conn *conn, struct slice *data)
{
    char *end = conn->in.at + (data->at - conn->in.at) + data->len;
    while (conn->framing == HTTP_FRAMING_CHUNKED && !conn->body_done && conn->used < conn->in.len) {
        struct slice more = {NULL, 0};
        if (take_window(conn, &more) != HTTP_READ_OK)
            return;
        if (more.len > 0)
            memmove(end, more.at, more.len);
        end += more.len;
        data->len += more.len;
    }
}

enum http_read http_conn_read_some(struct http_conn *conn, int64_t deadline_us,
                                   struct slice *ret_data)
{
    CHECK(conn->headers_len > 0);
    struct slice data = slice_make(NULL, 0);
    while (data.len == 0 && !conn->body_done) {
        enum http_read result = take_run(conn, deadline_us, &data);
        if (result != HTTP_READ_OK)
            return result;
    }
    if (data.len > 0)
        join_chunks(conn, &data);
    *ret_data = data;
    return HTTP_READ_OK;
}

/* ---- whole bodies ---- */

/* How far the current message was read. */
struct position {
    size_t used;
    uint64_t left;
    struct http_chunks chunks;
    bool body_done;
};

static struct position position_of(const struct http_conn *conn)
{
    return (struct position){conn->used, conn->left, conn->chunks, conn->body_done};
}

static void go_back(struct http_conn *conn, const struct position *position)
{
    conn->used = position->used;
    conn->left = position->left;
    conn->chunks = position->chunks;
    conn->body_done = position->body_done;
}

/* Moves one run from the window, or leaves it there whole: a caller that streams on what was too
 * large must not miss a byte. A chunk is judged by its announced size, not by what came of it: what
 * is read of a size so far is never above the size. */
static enum http_read copy_run(struct http_conn *conn, uint64_t room, int64_t deadline_us,
                               struct buf *body)
{
    struct slice data = slice_make(NULL, 0);
    enum http_read result = fill_window(conn, deadline_us);
    if (result != HTTP_READ_OK || conn->body_done)
        return result;
    struct position before = position_of(conn);
    result = take_window(conn, &data);
    if (result != HTTP_READ_OK)
        return result;
    uint64_t announced = conn->framing == HTTP_FRAMING_CHUNKED ? conn->chunks.left : 0;
    if (data.len > room || announced > room - data.len) {
        go_back(conn, &before);
        return HTTP_READ_TOO_LARGE;
    }
    buf_add_slice(body, data);
    return buf_ok(body) ? HTTP_READ_OK : HTTP_READ_NO_MEMORY;
}

/* Reads straight into the caller's buffer, at most `want` (> 0) bytes. */
static enum http_read receive_run(struct http_conn *conn, uint64_t want, int64_t deadline_us,
                                  struct buf *body)
{
    if (conn->framing == HTTP_FRAMING_LENGTH)
        want = smaller_of(want, conn->left);
    size_t ahead = body->len > AHEAD_MAX ? body->len : AHEAD_MAX;
    char *at = buf_room(body, (size_t)smaller_of(want, ahead));
    if (!at)
        return HTTP_READ_NO_MEMORY;
    size_t n = (size_t)smaller_of(want, body->cap - body->len);
    ptrdiff_t got = http_conn_receive(conn, at, n, deadline_us);
    if (got <= 0)
        return on_no_bytes(conn, got);
    buf_added(body, (size_t)got);
    if (conn->framing == HTTP_FRAMING_LENGTH) {
        conn->left -= (uint64_t)got;
        conn->body_done = conn->left == 0;
    }
    return HTTP_READ_OK;
}

/* Room for nothing more: a byte that still comes lands in the window and is judged there. */
static bool goes_straight(const struct http_conn *conn, uint64_t room)
{
    return conn->framing != HTTP_FRAMING_CHUNKED && conn->used == conn->in.len && room > 0;
}

enum http_read http_conn_read_body(struct http_conn *conn, uint64_t max, uint64_t part,
                                   int64_t deadline_us, struct buf *body)
{
    CHECK(conn->headers_len > 0 && buf_ok(body) && part > 0);
    size_t start = body->len;
    max = smaller_of(max, body->max - start);
    if (conn->framing == HTTP_FRAMING_LENGTH && conn->left > max)
        return HTTP_READ_TOO_LARGE;
    while (!conn->body_done && body->len - start < part) {
        uint64_t read = body->len - start;
        uint64_t room = max - read;
        enum http_read result =
            goes_straight(conn, room)
                ? receive_run(conn, smaller_of(room, part - read), deadline_us, body)
                : copy_run(conn, room, deadline_us, body);
        if (result != HTTP_READ_OK)
            return result;
        if (!conn->body_done)
            CRASH_POINT(inside_body);
    }
    return HTTP_READ_OK;
}
