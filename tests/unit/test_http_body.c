/* SPDX-License-Identifier: Apache-2.0 */
#include "http_play.h"

#define LARGE ((size_t)5 * 1024 * 1024)

/* ---- bodies ---- */

static void length_body_is_taken_from_the_window_and_the_socket(void **state)
{
    (void)state;
    struct play play = {.pieces = {"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nab",
                                   "cd",
                                   "efPOST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n",
                                   "gGET /c HTTP/1.1\r\nHost: h\r\n\r\n"}};
    expect(&play, "/a abcdef\n/b g\n/c \nCLOSED");
    play.lent = true;
    expect(&play, "/a abcdef\n/b g\n/c \nCLOSED");
}

static void count_received(void *argument)
{
    struct play *play = argument;
    if (http_conn_open(&play->conn, play->fds[0]) && read_message(play) == HTTP_READ_OK)
        buf_add_u64(&play->seen, play->conn.received);
    play->done = true;
    http_conn_close(&play->conn);
}

static void what_follows_a_length_body_is_left_in_the_socket(void **state)
{
    (void)state;
    for (int lent = 0; lent < 2; lent++) {
        struct play play = {.pieces = {"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n",
                                       "abcGET /b HTTP/1.1\r\n"},
                            .lent = lent == 1};
        play_open(&play);
        run_fibers(count_received, run_peer, &play);
        MEM_AUTO char *seen = play_close(&play);
        assert_string_equal(seen, "/a abc\n51");
    }
}

static void chunked_body_is_the_same_wherever_it_is_split(void **state)
{
    (void)state;
    static const char head[] = "POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    static const char body[] = "5;x=y\r\nhello\r\nA\r\n, world...\r\n0\r\nT: v\r\n\r\n";
    for (size_t split = 0; split <= strlen(body); split++) {
        char first[sizeof body] = {0};
        memcpy(first, body, split);
        struct play play = {.pieces = {head, first, body + split}, .lent = split % 2 == 1};
        expect(&play, "/c hello, world...\nCLOSED");
    }
}

#define SMALL_CHUNKS 600

struct runs {
    struct play play; /* first: the two are cast into each other */
    size_t runs;
    size_t bytes;
};

static void count_runs(void *argument)
{
    struct runs *runs = argument;
    struct play *play = &runs->play;
    struct slice data = {"", 1};
    if (http_conn_open(&play->conn, play->fds[0]) && read_head(play) == HTTP_READ_OK) {
        while (http_conn_read_some(&play->conn, after(0), &data) == HTTP_READ_OK && data.len > 0) {
            runs->runs++;
            runs->bytes += data.len;
        }
    }
    play->done = true;
    http_conn_close(&play->conn);
}

/* found: A-M11 */
static void small_chunks_are_lent_many_at_once(void **state)
{
    (void)state;
    static const char head[] = "POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    static char body[SMALL_CHUNKS * 6 + 6];
    for (size_t i = 0; i < SMALL_CHUNKS; i++)
        memcpy(body + i * 6, "1\r\na\r\n", 6);
    memcpy(body + (size_t)SMALL_CHUNKS * 6, "0\r\n\r\n", 6);
    struct runs runs = {.play = {.pieces = {head, body}}};
    play_open(&runs.play);
    run_fibers(count_runs, run_peer, &runs);
    mem_free(play_close(&runs.play));
    assert_int_equal(runs.bytes, SMALL_CHUNKS);
    assert_true(runs.runs <= 3);
}

static void malformed_chunk_is_refused(void **state)
{
    (void)state;
    struct play play = {
        .pieces = {"POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n",
                   "2\r\nabc\r\n"}};
    expect(&play, "/c ab\nREFUSED");
    assert_int_equal(play.conn.refusal, HTTP_REFUSAL_CHUNK);
}

static void dripped_body_ends_at_its_deadline(void **state)
{
    (void)state;
    struct play play = {.pieces = {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n"},
                        .ending = END_STAY,
                        .body_us = SHORT_US};
    expect(&play, "/ \nTIMEOUT");

    struct play dripped = {.pieces = {"HTTP/1.1 200 OK\r\n\r\n"},
                           .ending = END_DRIP,
                           .response = true,
                           .max = 1 << 20,
                           .body_us = SHORT_US};
    play_open(&dripped);
    run_fibers(run_reader, run_peer, &dripped);
    MEM_AUTO char *seen = play_close(&dripped);
    assert_memory_equal(seen, "OK a", 4);
    assert_string_equal(seen + strlen(seen) - 7, "TIMEOUT");
}

static void announced_length_over_max_is_refused_before_a_byte_is_read(void **state)
{
    (void)state;
    struct play play = {.pieces = {"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n"},
                        .ending = END_STAY,
                        .max = 3};
    expect(&play, "/a \nTOO_LARGE");
    struct play exact = {.pieces = {play.pieces[0], "abcd"}, .max = 4};
    expect(&exact, "/a abcd\nCLOSED");
}

static void chunks_over_max_are_refused_once_announced(void **state)
{
    (void)state;
    struct play play = {
        .pieces = {"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n",
                   "2\r\nab\r\n", "2\r\n"},
        .ending = END_STAY,
        .max = 3};
    expect(&play, "/a ab\nTOO_LARGE");
    play.pieces[2] = "1\r\nc\r\n0\r\n\r\n";
    play.ending = END_CLOSE;
    expect(&play, "/a abc\nCLOSED");
}

static void answer_without_length_over_max_is_refused(void **state)
{
    (void)state;
    struct play play = {
        .pieces = {"HTTP/1.1 200 a\r\n\r\n", "abc", "d"}, .response = true, .max = 3};
    expect(&play, "a abc\nTOO_LARGE");
    play.pieces[2] = NULL;
    expect(&play, "a abc\nCLOSED");
}

static void peer_that_closes_within_a_body_broke_it(void **state)
{
    (void)state;
    struct play play = {.pieces = {"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nabc"}};
    expect(&play, "/a abc\nBROKEN");
    play.lent = true;
    expect(&play, "/a abc\nBROKEN");
    play.pieces[0] = "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
                     "1\r\na\r\n0\r\n";
    expect(&play, "/a a\nBROKEN");
    play.lent = false;
    expect(&play, "/a a\nBROKEN");
}

static void fin_ends_an_answer_without_length_and_rst_breaks_it(void **state)
{
    (void)state;
    struct play play = {.pieces = {"HTTP/1.1 200 a\r\n\r\nab", "cd"}, .response = true};
    expect(&play, "a abcd\nCLOSED");
    play.lent = true;
    expect(&play, "a abcd\nCLOSED");
    play.ending = END_RESET;
    expect(&play, "a abcd\nBROKEN");
    play.lent = false;
    expect(&play, "a abcd\nBROKEN");
}

/* Sizes around every growth of the buffer: the window must exist and the head must not move. */
static void head_of_any_size_leaves_a_window_behind_it(void **state)
{
    (void)state;
    static const size_t around[] = {4091, 8191, 12286, 16382, 28664, 32760};
    static char head[HTTP_HEADERS_SIZE_MAX + 1];
    for (size_t i = 0; i < 7 * sizeof around / sizeof *around; i++) {
        size_t size = around[i / 7] + i % 7 + 2;
        int begun = snprintf(head, sizeof head,
                             "POST /end HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nX: ");
        memset(head + begun, 'x', sizeof head - (size_t)begun);
        snprintf(head + size - 4, 5, "\r\n\r\n");
        struct play play = {.pieces = {head, "3\r\nabc\r\n0\r\n\r\n"}, .step = 5000};
        expect(&play, "/end abc\nCLOSED");
    }
}

/* ---- large bodies ---- */

struct large {
    struct play play;
    const char *head;
    const char *tail;
    char *bytes;
    size_t part; /* read in parts; 0: at once */
    bool whole;  /* what was read is what was sent */
    int written;
};

static void send_large(void *argument)
{
    struct large *large = argument;
    struct http_conn peer;
    if (!http_conn_open(&peer, large->play.fds[1]))
        return;
    struct iovec parts[] = {{(void *)(uintptr_t)large->head, strlen(large->head)},
                            {large->bytes, LARGE},
                            {(void *)(uintptr_t)large->tail, strlen(large->tail)}};
    large->written = http_conn_write(&peer, parts, 3, after(0));
    http_conn_close(&peer);
}

/* Each part gives what was asked for, or the end of the body. */
static enum http_read read_parts(struct http_conn *conn, size_t part, struct buf *body)
{
    enum http_read result = HTTP_READ_OK;
    while (result == HTTP_READ_OK && http_conn_body_left(conn)) {
        size_t before = body->len;
        result = http_conn_read_body(conn, LARGE - before, part, after(0), body);
        if (body->len - before < part && http_conn_body_left(conn))
            return HTTP_READ_BROKEN;
    }
    return result;
}

static void read_large(void *argument)
{
    struct large *large = argument;
    struct play *play = &large->play;
    BUF_AUTO struct buf body = buf_make(LARGE);
    if (!http_conn_open(&play->conn, play->fds[0]))
        return;
    enum http_read result = read_head(play);
    if (result == HTTP_READ_OK && large->part > 0)
        result = read_parts(&play->conn, large->part, &body);
    else if (result == HTTP_READ_OK)
        result = play->lent ? read_lent(play, &body)
                            : http_conn_read_body(&play->conn, LARGE, UINT64_MAX, after(0), &body);
    large->whole =
        result == HTTP_READ_OK && slice_eq(buf_slice(&body), slice_make(large->bytes, LARGE));
    http_conn_close(&play->conn);
}

static void large_bodies_arrive_whole(void **state)
{
    (void)state;
    static const char *const ends[][2] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 5242880\r\n\r\n", ""},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n500000\r\n", "\r\n0\r\n\r\n"},
        {"HTTP/1.1 200 OK\r\n\r\n", ""},
    };
    char *bytes = mem_alloc(LARGE);
    assert_non_null(bytes);
    for (size_t i = 0; i < LARGE; i++)
        bytes[i] = (char)(i * 2654435761U >> 13);
    for (size_t i = 0; i < 12; i++) {
        static const size_t parts[] = {0, 0, 1000, 100 * 1024};
        struct large large = {.play = {.response = true, .lent = i % 4 == 1},
                              .head = ends[i / 4][0],
                              .tail = ends[i / 4][1],
                              .part = parts[i % 4],
                              .bytes = bytes};
        play_open(&large.play);
        run_fibers(read_large, send_large, &large);
        mem_free(play_close(&large.play));
        assert_int_equal(large.written, 0);
        assert_true(large.whole);
    }
    mem_free(bytes);
}

#ifdef PAWL_HOOKS
/* ---- memory ---- */

struct starved {
    struct play play;
    long nth;
    bool fired;
    enum http_read result;
};

static void run_starved(void *argument)
{
    struct starved *starved = argument;
    struct play *play = &starved->play;
    BUF_AUTO struct buf body = buf_make(1 << 20);
    if (!http_conn_open(&play->conn, play->fds[0]))
        return;
    mem_fail_nth(starved->nth);
    starved->result = read_head(play);
    if (starved->result == HTTP_READ_OK)
        starved->result = http_conn_read_body(&play->conn, 1 << 20, UINT64_MAX, after(0), &body);
    starved->fired = mem_fail_fired();
    mem_fail_nth(0);
    play->done = true;
    http_conn_close(&play->conn);
}

/* The head is just large enough to make the buffer grow twice. */
static void any_allocation_that_fails_is_answered_by_no_memory(void **state)
{
    (void)state;
    static const char start[] = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 8999\r\nX: ";
    static char head[8192 + 4096], body[9000];
    memset(head, 'x', sizeof head - 1);
    memset(body, 'b', sizeof body - 1);
    memcpy(head, start, sizeof start - 1);
    memcpy(head + sizeof head - 5, "\r\n\r\n", 4);
    long failures = 0;
    for (struct starved starved = {.fired = true}; starved.fired; failures += starved.fired) {
        starved = (struct starved){.play = {.pieces = {head, body}}, .nth = failures + 1};
        play_open(&starved.play);
        run_fibers(run_starved, run_peer, &starved);
        mem_free(play_close(&starved.play));
        assert_int_equal(starved.result, starved.fired ? HTTP_READ_NO_MEMORY : HTTP_READ_OK);
    }
    assert_true(failures >= 3);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(length_body_is_taken_from_the_window_and_the_socket),
        cmocka_unit_test(what_follows_a_length_body_is_left_in_the_socket),
        cmocka_unit_test(chunked_body_is_the_same_wherever_it_is_split),
        cmocka_unit_test(small_chunks_are_lent_many_at_once),
        cmocka_unit_test(malformed_chunk_is_refused),
        cmocka_unit_test(dripped_body_ends_at_its_deadline),
        cmocka_unit_test(announced_length_over_max_is_refused_before_a_byte_is_read),
        cmocka_unit_test(chunks_over_max_are_refused_once_announced),
        cmocka_unit_test(answer_without_length_over_max_is_refused),
        cmocka_unit_test(peer_that_closes_within_a_body_broke_it),
        cmocka_unit_test(fin_ends_an_answer_without_length_and_rst_breaks_it),
        cmocka_unit_test(head_of_any_size_leaves_a_window_behind_it),
        cmocka_unit_test(large_bodies_arrive_whole),
#ifdef PAWL_HOOKS
        cmocka_unit_test(any_allocation_that_fails_is_answered_by_no_memory),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
