/* SPDX-License-Identifier: Apache-2.0 */
#include "http_play.h"

#define LARGE ((size_t)5 * 1024 * 1024)

/* ---- heads ---- */

static void head_is_read_however_it_arrives(void **state)
{
    (void)state;
    struct play play = {.pieces = {"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"}};
    for (play.step = 0; play.step < 5; play.step++)
        expect(&play, "/a abc\nCLOSED");
}

static void dripped_head_ends_at_its_deadline(void **state)
{
    (void)state;
    struct play play = {
        .pieces = {"GET / HTTP/1.1\r\nX: "}, .ending = END_DRIP, .headers_us = SHORT_US};
    expect(&play, "TIMEOUT");
}

static void silent_peer_is_a_timeout_before_and_within_a_head(void **state)
{
    (void)state;
    struct play silent = {.ending = END_STAY, .headers_us = SHORT_US};
    struct play halfway = {.pieces = {"GET / HT"}, .ending = END_STAY, .headers_us = SHORT_US};
    expect(&silent, "TIMEOUT");
    expect(&halfway, "TIMEOUT");
}

static void peer_that_closes_within_a_head_broke_it(void **state)
{
    (void)state;
    struct play play = {.pieces = {"GET / HTTP/1.1\r\nHost: h\r\n\r"}};
    expect(&play, "BROKEN");
    play.ending = END_RESET;
    expect(&play, "BROKEN");
}

static void peer_that_closes_between_messages_closed(void **state)
{
    (void)state;
    struct play nothing = {.ending = END_CLOSE};
    struct play reset = {.ending = END_RESET};
    struct play one = {.pieces = {"GET /x HTTP/1.1\r\nHost: h\r\n\r\n"}};
    expect(&nothing, "CLOSED");
    expect(&reset, "CLOSED");
    expect(&one, "/x \nCLOSED");
}

static void malformed_head_is_refused_with_its_reason(void **state)
{
    (void)state;
    struct play play = {.pieces = {"GET / HTTP/1.1\n"}};
    expect(&play, "REFUSED");
    assert_int_equal(play.conn.refusal, HTTP_REFUSAL_LINE_END);
    play.pieces[0] = "GET / HTTP/2.0\r\n\r\n";
    expect(&play, "REFUSED");
    assert_int_equal(play.conn.refusal, HTTP_REFUSAL_VERSION);
}

/* ---- several messages ---- */

static void pipelined_requests_are_read_one_by_one(void **state)
{
    (void)state;
    struct play play = {.pieces = {"GET /1 HTTP/1.1\r\nHost: h\r\n\r\n"
                                   "POST /2 HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab"
                                   "POST /3 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n"
                                   "\r\n1\r\nx\r\n2\r\nyz\r\n0\r\nT: v\r\n\r\n"
                                   "POST /4 HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"
                                   "GET /5 HTTP/1.1\r\nHost: h\r\n\r\n"}};
    for (play.step = 0; play.step < 5; play.step++) {
        play.lent = false;
        expect(&play, "/1 \n/2 ab\n/3 xyz\n/4 \n/5 \nCLOSED");
        play.lent = true;
        expect(&play, "/1 \n/2 ab\n/3 xyz\n/4 \n/5 \nCLOSED");
    }
}

static void interim_answers_are_answers_without_a_body(void **state)
{
    (void)state;
    struct play play = {.pieces = {"HTTP/1.1 100 go\r\n\r\nHTTP/1.1 103 hint\r\n\r\n",
                                   "HTTP/1.1 200 ok\r\nContent-Length: 1\r\n\r\n!"},
                        .response = true};
    expect(&play, "go \nhint \nok !\nCLOSED");
}

/* ---- writing and closing ---- */

static void note_wait(struct play *play)
{
    enum http_read result = http_conn_wait(&play->conn, after(SHORT_US));
    buf_printf(&play->seen, "%s, buffer %s\n", result_names[result],
               play->conn.in.at == NULL ? "none" : "held");
}

/* Silence, one request, silence. */
static void watch_idle(void *argument)
{
    struct play *play = argument;
    if (http_conn_open(&play->conn, play->fds[0])) {
        note_wait(play);
        (void)!send(play->fds[1], "GET /x HTTP/1.1\r\nHost: h\r\n\r\n", 28, 0);
        note_wait(play);
        if (read_message(play) == HTTP_READ_OK)
            note_wait(play);
    }
    play->done = true;
    http_conn_close(&play->conn);
}

static void idle_connection_holds_no_buffer(void **state)
{
    (void)state;
    struct play play = {.ending = END_STAY};
    play_open(&play);
    run_fibers(watch_idle, run_peer, &play);
    MEM_AUTO char *seen = play_close(&play);
    assert_string_equal(seen, "TIMEOUT, buffer none\nOK, buffer held\n"
                              "/x \nTIMEOUT, buffer none\n");
}

struct exit_play {
    int fds[2];
    int64_t idle_us; /* how long it lingers with nothing to read */
    bool stays;      /* the peer never closes */
    struct http_request request;
    enum http_read read;
    int nodelay;
    bool server_done;
    char got[64];
    ptrdiff_t end; /* what the peer's last read gave */
};

/* Refuses a body and leaves. */
static void run_refusing_server(void *argument)
{
    struct exit_play *play = argument;
    struct http_conn conn;
    BUF_AUTO struct buf body = buf_make(10);
    struct iovec answer = {(void *)(uintptr_t) "no", 2};
    socklen_t size = sizeof play->nodelay;
    if (!http_conn_open(&conn, play->fds[0]))
        return;
    getsockopt(conn.io.fd, IPPROTO_TCP, TCP_NODELAY, &play->nodelay, &size);
    play->read = http_conn_read_request(&conn, after(0), &play->request);
    if (play->read == HTTP_READ_OK)
        play->read = http_conn_read_body(&conn, 10, UINT64_MAX, after(0), &body);
    http_conn_write(&conn, &answer, 1, after(0));
    http_conn_linger(&conn, play->idle_us, after(play->idle_us == CLOCK_NEVER ? SHORT_US : 0));
    play->server_done = conn.io.fd == -1 && conn.in.at == NULL;
}

static void run_stubborn_client(void *argument)
{
    struct exit_play *play = argument;
    static char body[300000];
    static const char head[] = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 300000\r\n\r\n";
    struct fiber_io io;
    struct iovec parts[] = {{(void *)(uintptr_t)head, sizeof head - 1}, {body, sizeof body}};
    if (!fiber_io_open(&io, play->fds[1]))
        return;
    play->end = fiber_write(&io, parts, 2, after(0), NULL);
    if (play->end == 0)
        play->end = fiber_read(&io, play->got, sizeof play->got - 1, after(0));
    if (play->end > 0)
        play->end = fiber_read(&io, play->got + play->end, 8, after(0));
    while (play->stays && !play->server_done)
        fiber_sleep_until(clock_boot_us() + CLOCK_US_PER_MS);
    fiber_io_close(&io);
}

static void lingering_lets_a_refusal_reach_a_client_that_still_sends(void **state)
{
    (void)state;
    struct exit_play play = {.idle_us = CLOCK_US_PER_S};
    make_pair(play.fds);
    run_fibers(run_refusing_server, run_stubborn_client, &play);
    assert_int_equal(play.read, HTTP_READ_TOO_LARGE);
    assert_string_equal(play.got, "no");
    assert_int_equal(play.end, 0);
    assert_true(play.server_done);
    assert_true(play.nodelay);
}

static void lingering_ends_at_its_deadline_and_with_a_peer_that_sends_nothing(void **state)
{
    (void)state;
    struct exit_play stays = {.idle_us = CLOCK_NEVER, .stays = true};
    make_pair(stays.fds);
    run_fibers(run_refusing_server, run_stubborn_client, &stays);
    assert_true(stays.server_done);
    struct exit_play mute = {.idle_us = SHORT_US, .stays = true};
    make_pair(mute.fds);
    run_fibers(run_refusing_server, run_stubborn_client, &mute);
    assert_true(mute.server_done);
}

struct write_play {
    int fds[2];
    char *bytes;
    int result[2];
    uint64_t sent;
};

static void run_writer(void *argument)
{
    struct write_play *play = argument;
    struct http_conn conn;
    if (!http_conn_open(&conn, play->fds[0]))
        return;
    for (int i = 0; i < 2; i++) {
        struct iovec parts[4];
        for (int p = 0; p < 4; p++)
            parts[p] = (struct iovec){play->bytes, LARGE};
        play->result[i] = http_conn_write(&conn, parts, 4, after(SHORT_US));
        play->sent = conn.sent;
        if (i == 0)
            close(play->fds[1]);
    }
    http_conn_close(&conn);
}

static void run_nobody(void *argument)
{
    (void)argument;
}

static void write_ends_at_its_deadline_and_tells_what_left(void **state)
{
    (void)state;
    struct write_play play = {.bytes = mem_zalloc(1, LARGE)};
    assert_non_null(play.bytes);
    make_pair(play.fds);
    run_fibers(run_writer, run_nobody, &play);
    assert_int_equal(play.result[0], -ETIMEDOUT);
    assert_true(play.sent > 0 && play.sent < 4 * LARGE);
    assert_true(play.result[1] == -EPIPE || play.result[1] == -ECONNRESET);
    mem_free(play.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(head_is_read_however_it_arrives),
        cmocka_unit_test(dripped_head_ends_at_its_deadline),
        cmocka_unit_test(silent_peer_is_a_timeout_before_and_within_a_head),
        cmocka_unit_test(peer_that_closes_within_a_head_broke_it),
        cmocka_unit_test(peer_that_closes_between_messages_closed),
        cmocka_unit_test(malformed_head_is_refused_with_its_reason),
        cmocka_unit_test(pipelined_requests_are_read_one_by_one),
        cmocka_unit_test(interim_answers_are_answers_without_a_body),
        cmocka_unit_test(idle_connection_holds_no_buffer),
        cmocka_unit_test(lingering_lets_a_refusal_reach_a_client_that_still_sends),
        cmocka_unit_test(lingering_ends_at_its_deadline_and_with_a_peer_that_sends_nothing),
        cmocka_unit_test(write_ends_at_its_deadline_and_tells_what_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
