/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A play has two fibers on one loop, joined by a loopback connection: the peer sends pieces, each
 * after the reader took the one before, and the reader reads messages and writes down what it saw:
 * a line "target body" a message, then how it ended. That is compared when the play is over.
 */
#ifndef PAWL_TESTS_UNIT_HTTP_PLAY_H
#define PAWL_TESTS_UNIT_HTTP_PLAY_H

#include "base/clock.h"
#include "base/mem.h"
#include "http/conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

#define LONG_US (60 * CLOCK_US_PER_S)
#define SHORT_US (50 * CLOCK_US_PER_MS)
#define PIECES_MAX 8

enum ending {
    END_CLOSE, /* FIN */
    END_RESET, /* RST */
    END_STAY,  /* open until the reader is done */
    END_DRIP,  /* a byte each millisecond until the reader is done */
};

/* Too large for a stack. */
struct play_head {
    struct http_request request;
    struct http_response answer;
};

struct play {
    const char *pieces[PIECES_MAX];
    size_t step; /* bytes sent at a time; 0: a piece */
    enum ending ending;
    bool response; /* answers to GET are read, else requests */
    bool lent;     /* bodies are read by http_conn_read_some */
    uint64_t max;  /* of a body; 0: 1000 */
    int64_t headers_us;
    int64_t body_us;
    int fds[2]; /* the reader's, the peer's */
    struct http_conn conn;
    struct play_head *head;
    struct buf seen;
    bool done;
};

static const char *const result_names[] = {
    [HTTP_READ_OK] = "OK",
    [HTTP_READ_CLOSED] = "CLOSED",
    [HTTP_READ_BROKEN] = "BROKEN",
    [HTTP_READ_TIMEOUT] = "TIMEOUT",
    [HTTP_READ_REFUSED] = "REFUSED",
    [HTTP_READ_TOO_LARGE] = "TOO_LARGE",
    [HTTP_READ_NO_MEMORY] = "NO_MEMORY",
};

static inline int64_t after(int64_t span_us)
{
    return clock_boot_us() + (span_us ? span_us : LONG_US);
}

/* ---- the stage ---- */

static inline void make_pair(int fds[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int on = 1;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    fds[1] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fds[1], (struct sockaddr *)&address, size), 0);
    fds[0] = accept(listener, NULL, NULL);
    assert_true(fds[0] >= 0);
    setsockopt(fds[1], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    close(listener);
}

static inline void run_fibers(void (*a)(void *), void (*b)(void *), void *argument)
{
    struct loop *loop = loop_new(4);
    assert_non_null(loop);
    assert_true(fiber_spawn(loop, "reader", a, argument));
    assert_true(fiber_spawn(loop, "peer", b, argument));
    loop_stop(loop);
    loop_run(loop);
    loop_free(loop);
}

/* ---- the peer ---- */

static inline void wait_until_taken(const struct play *play)
{
    int n = 1;
    while (!play->done && n > 0 && ioctl(play->fds[0], FIONREAD, &n) == 0)
        fiber_yield();
}

static inline void send_piece(const struct play *play, const char *piece)
{
    size_t n = strlen(piece);
    size_t step = play->step ? play->step : n;
    for (size_t at = 0; at < n && !play->done; at += step) {
        size_t some = n - at < step ? n - at : step;
        (void)!send(play->fds[1], piece + at, some, MSG_NOSIGNAL);
        wait_until_taken(play);
    }
}

static inline void end_play(const struct play *play)
{
    struct linger reset = {.l_onoff = 1};
    while (play->ending >= END_STAY && !play->done) {
        if (play->ending == END_DRIP)
            (void)!send(play->fds[1], "a", 1, MSG_NOSIGNAL);
        fiber_sleep_until(clock_boot_us() + CLOCK_US_PER_MS);
    }
    if (play->ending == END_RESET)
        setsockopt(play->fds[1], SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(play->fds[1]);
}

static inline void run_peer(void *argument)
{
    const struct play *play = argument;
    for (int i = 0; i < PIECES_MAX && play->pieces[i] != NULL; i++)
        send_piece(play, play->pieces[i]);
    end_play(play);
}

/* ---- the reader ---- */

static inline enum http_read read_lent(struct play *play, struct buf *body)
{
    struct slice data = {"", 1};
    enum http_read result = HTTP_READ_OK;
    while (result == HTTP_READ_OK && data.len > 0) {
        result = http_conn_read_some(&play->conn, after(play->body_us), &data);
        if (result == HTTP_READ_OK)
            buf_add_slice(body, data);
    }
    return result;
}

static inline enum http_read read_head(struct play *play)
{
    int64_t deadline_us = after(play->headers_us);
    if (play->response)
        return http_conn_read_response(&play->conn, SLICE("GET"), deadline_us, &play->head->answer);
    return http_conn_read_request(&play->conn, deadline_us, &play->head->request);
}

/* The head's slices are used after the body was read: they must still be valid then. */
static inline enum http_read read_message(struct play *play)
{
    BUF_AUTO struct buf body = buf_make(1 << 24);
    enum http_read result = read_head(play);
    if (result != HTTP_READ_OK)
        return result;
    uint64_t max = play->max ? play->max : 1000;
    result = play->lent
                 ? read_lent(play, &body)
                 : http_conn_read_body(&play->conn, max, UINT64_MAX, after(play->body_us), &body);
    buf_add_slice(&play->seen,
                  play->response ? play->head->answer.reason : play->head->request.target);
    buf_add_char(&play->seen, ' ');
    buf_add_slice(&play->seen, buf_slice(&body));
    buf_add_char(&play->seen, '\n');
    if (result == HTTP_READ_OK)
        http_conn_next(&play->conn);
    return result;
}

static inline void run_reader(void *argument)
{
    struct play *play = argument;
    enum http_read result = HTTP_READ_NO_MEMORY;
    if (http_conn_open(&play->conn, play->fds[0]))
        while ((result = read_message(play)) == HTTP_READ_OK)
            ;
    buf_add_str(&play->seen, result_names[result]);
    play->done = true;
    http_conn_close(&play->conn);
}

static inline void play_open(struct play *play)
{
    play->seen = buf_make(1 << 24);
    play->done = false;
    play->head = mem_zalloc(1, sizeof *play->head);
    assert_non_null(play->head);
    make_pair(play->fds);
}

/* What was seen, to be given to mem_free. */
static inline char *play_close(struct play *play)
{
    mem_free(play->head);
    char *seen = buf_take(&play->seen);
    assert_non_null(seen);
    return seen;
}

/* Plays and compares; `play` can be played again. */
static inline void expect(struct play *play, const char *seen)
{
    play_open(play);
    run_fibers(run_reader, run_peer, play);
    MEM_AUTO char *text = play_close(play);
    assert_string_equal(text, seen);
}

#endif
