/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One fiber plays both ends, as in test_http_pool.c: what the peer does is done when the next step
 * is taken. A moment that has passed already makes a step end at once, where it would wait.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "http/call/call.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

#define LONG_US (60 * CLOCK_US_PER_S)
#define BODY_LEN ((size_t)16 * 1024 * 1024) /* no socket holds so much */
#define NOTES_MAX ((size_t)4096)
#define INTERIM "HTTP/1.1 102 wait\r\n\r\n"
#define REQUEST SLICE("GET / HTTP/1.1\r\nHost: h\r\n\r\n")

static const char *const result_names[] = {
#define X(name, text) [HTTP_CALL_##name] = (text),
    HTTP_CALL_RESULTS(X)
#undef X
};

struct stage {
    struct http_upstream upstream;
    int listener;
    int peer; /* the upstream's end of the connection accepted last; -1: none */
    void (*run)(struct stage *stage);
    struct http_pool *pool;
    struct http_call *call;
    struct buf body;
    struct buf notes; /* a word a step, compared when the play is over */
};

static int64_t later(void)
{
    return clock_boot_us() + LONG_US;
}

/* ---- the call's end ---- */

static enum http_call_result note(struct stage *stage, enum http_call_result result)
{
    buf_printf(&stage->notes, "%s%s", stage->notes.len > 0 ? ", " : "", result_names[result]);
    return result;
}

static void say(struct stage *stage, const char *word)
{
    buf_printf(&stage->notes, ", %s", word);
}

static void begin(struct stage *stage, struct slice method, struct slice body)
{
    http_call_close(stage->call);
    memset(stage->call, 0, HTTP_CALL_ZEROED);
    stage->call->pool = stage->pool;
    stage->call->method = method;
    stage->call->headers = REQUEST;
    stage->call->body = body;
}

static void reach(struct stage *stage)
{
    if (note(stage, http_call_connect(stage->call, later())) != HTTP_CALL_DONE)
        return;
    int fd = accept(stage->listener, NULL, NULL);
    if (fd < 0) /* a kept one */
        return;
    close(stage->peer);
    stage->peer = fd;
}

static void ask(struct stage *stage)
{
    begin(stage, SLICE("GET"), slice_make(NULL, 0));
    reach(stage);
    note(stage, http_call_send(stage->call, later()));
}

static enum http_call_result receive(struct stage *stage)
{
    enum http_call_result result = note(stage, http_call_receive(stage->call, later()));
    if (result == HTTP_CALL_DONE)
        buf_printf(&stage->notes, " %d", stage->call->response.status);
    return result;
}

static enum http_call_result read_body(struct stage *stage, uint64_t max, int64_t until_us)
{
    return note(stage, http_call_read_body(stage->call, max, UINT64_MAX, until_us, &stage->body));
}

static void say_sent(struct stage *stage)
{
    say(stage, stage->call->sent > 0 ? "sent" : "nothing sent");
}

/* ---- the peer's ---- */

static void answer(struct stage *stage, const char *text)
{
    if (send(stage->peer, text, strlen(text), MSG_NOSIGNAL) != (ssize_t)strlen(text))
        say(stage, "not answered");
}

static void leave(struct stage *stage, bool reset)
{
    struct linger at_once = {.l_onoff = reset};
    struct pollfd news = {.fd = stage->call->conn->io.fd, .events = POLLIN | POLLRDHUP};
    setsockopt(stage->peer, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(stage->peer);
    stage->peer = -1;
    if (poll(&news, 1, 10000) != 1)
        say(stage, "nothing heard");
}

/* Takes what has come; how many bytes. */
static size_t take(struct stage *stage)
{
    static char bytes[1 << 20];
    size_t all = 0;
    for (ssize_t got = 1; got > 0; all += got > 0 ? (size_t)got : 0)
        got = recv(stage->peer, bytes, sizeof bytes, MSG_DONTWAIT);
    return all;
}

/* ---- the stage ---- */

static void run_stage(void *argument)
{
    struct stage *stage = argument;
    stage->run(stage);
    http_call_close(stage->call);
    http_pool_unref(stage->pool);
}

static void set_stage(struct stage *stage)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    stage->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(stage->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(stage->listener, 0), 0);
    assert_int_equal(getsockname(stage->listener, (struct sockaddr *)&address, &size), 0);
    stage->upstream.addresses.n = 1;
    memcpy(&stage->upstream.addresses.at[0], &address, size);
    stage->pool = http_pool_new(&stage->upstream, 2, LONG_US);
    stage->call = mem_zalloc(1, sizeof *stage->call);
    stage->body = buf_make(1 << 20);
    stage->notes = buf_make(NOTES_MAX);
    stage->peer = -1;
}

static void expect(void (*run)(struct stage *stage), const char *notes)
{
    struct stage stage = {.run = run};
    set_stage(&stage);
    struct loop *loop = loop_new(2);
    assert_true(fiber_spawn(loop, "stage", run_stage, &stage));
    loop_stop(loop);
    loop_run(loop);
    loop_free(loop);
    close(stage.peer);
    close(stage.listener);
    mem_free(stage.call);
    buf_fini(&stage.body);
    MEM_AUTO char *text = buf_take(&stage.notes);
    assert_string_equal(text, notes);
}

/* ---- connecting ---- */

static void reach_nobody(struct stage *stage)
{
    close(stage->listener);
    stage->listener = -1;
    begin(stage, SLICE("GET"), slice_make(NULL, 0));
    reach(stage);
    say_sent(stage);
    say(stage, strcmp(stage->call->unreached, strerrordesc_np(ECONNREFUSED)) == 0
                   ? "refused"
                   : "another error");
}

static void reach_nowhere(struct stage *stage)
{
    struct sockaddr_in *address = (struct sockaddr_in *)&stage->upstream.addresses.at[0];
    address->sin_addr.s_addr = htonl(INADDR_BROADCAST);
    http_pool_unref(stage->pool);
    stage->pool = http_pool_new(&stage->upstream, 2, LONG_US);
    begin(stage, SLICE("GET"), slice_make(NULL, 0));
    reach(stage);
    say_sent(stage);
}

/* Nobody accepts, and the queue is full. */
static void reach_in_no_time(struct stage *stage)
{
    int crowd[4];
    for (int i = 0; i < 4; i++) {
        crowd[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)!connect(crowd[i], (struct sockaddr *)&stage->upstream.addresses.at[0],
                       sizeof stage->upstream.addresses.at[0]);
    }
    begin(stage, SLICE("GET"), slice_make(NULL, 0));
    note(stage, http_call_connect(stage->call, clock_boot_us()));
    say_sent(stage);
    say(stage, stage->call->state == HTTP_CALL_CLOSED ? "closed" : "open");
    for (int i = 0; i < 4; i++)
        close(crowd[i]);
}

static void without_a_connection_nothing_is_sent_and_it_is_told_why(void **state)
{
    (void)state;
    expect(reach_nobody, "refused, nothing sent, refused");
    expect(reach_nowhere, "unreachable, nothing sent");
    expect(reach_in_no_time, "timeout, nothing sent, closed");
}

/* ---- sending ---- */

static void send_too_late(struct stage *stage)
{
    begin(stage, SLICE("GET"), slice_make(NULL, 0));
    stage->call->first_by = clock_boot_us();
    reach(stage);
    note(stage, http_call_send(stage->call, later()));
    say_sent(stage);
    say(stage, take(stage) > 0 ? "came" : "nothing came");
}

static void first_byte_leaves_before_its_moment_or_never(void **state)
{
    (void)state;
    expect(send_too_late, "done, late, nothing sent, nothing came");
}

static void send_to_the_dead(struct stage *stage)
{
    begin(stage, SLICE("GET"), slice_make(NULL, 0));
    reach(stage);
    leave(stage, true);
    note(stage, http_call_send(stage->call, later()));
    say_sent(stage);
}

static void reset_before_a_byte_left_is_told_as_such(void **state)
{
    (void)state;
    expect(send_to_the_dead, "done, broken, nothing sent");
}

/* Bytes that have come, and were not read. */
static int unread(const struct stage *stage)
{
    int n = 0;
    assert_int_equal(ioctl(stage->call->conn->io.fd, FIONREAD, &n), 0);
    return n;
}

static void answer_interims(struct stage *stage, int n)
{
    for (int i = 0; i < n; i++)
        answer(stage, INTERIM);
    while (unread(stage) < n * (int)strlen(INTERIM)) /* loopback may deliver them later */
        (void)poll(NULL, 0, 1);
}

static void send_much(struct stage *stage, char *body, int interims)
{
    size_t came = 0, wanted = REQUEST.len + BODY_LEN;
    begin(stage, SLICE("POST"), slice_make(body, BODY_LEN));
    stage->call->first_by = later();
    reach(stage);
    int64_t from = clock_boot_us();
    enum http_call_result result = note(stage, http_call_send(stage->call, clock_boot_us()));
    int64_t to = clock_boot_us();
    say(stage, stage->call->sent < wanted ? "in part" : "at once");
    answer_interims(stage, interims);
    while (result == HTTP_CALL_TIMEOUT && unread(stage) > 0) /* read while nothing can leave */
        result = http_call_send(stage->call, clock_boot_us());
    while (result == HTTP_CALL_TIMEOUT) {
        while (clock_boot_us() == to) /* what leaves later has another time */
            ;
        came += take(stage);
        stage->call->first_by = 1; /* no matter: the first byte has left */
        result = http_call_send(stage->call, clock_boot_us());
    }
    note(stage, result);
    while (came < wanted)
        came += take(stage);
    say(stage, came == wanted && stage->call->sent == wanted ? "all" : "something else");
    assert_in_range(stage->call->sent_at, from, to);
}

static void send_slowly(struct stage *stage)
{
    char *body MEM_AUTO = mem_zalloc(1, BODY_LEN);
    send_much(stage, body, 0);
    answer(stage, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    receive(stage);
    send_much(stage, body, 40);
    answer(stage, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    receive(stage);
}

static void a_send_that_ran_out_of_time_goes_on_where_it_stopped_through_interim_responses(
    void **state)
{
    (void)state;
    expect(send_slowly, "done, timeout, in part, done, all, done 200, "
                        "done, timeout, in part, done, all, done 200");
}

/* A 101 that nobody asked for, and nonsense: told once, and again to who receives. */
static void be_broken_early(struct stage *stage)
{
    static const char *const texts[] = {"HTTP/1.1 101 x\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
                                        "SSH-2.0-x\r\n\r\n"};
    char *body MEM_AUTO = mem_zalloc(1, BODY_LEN);
    for (int i = 0; i < 2; i++) {
        begin(stage, SLICE("POST"), slice_make(body, BODY_LEN));
        reach(stage);
        answer(stage, texts[i]);
        note(stage, http_call_send(stage->call, later()));
        receive(stage);
        receive(stage);
    }
}

static void a_peer_that_breaks_off_early_stays_broken(void **state)
{
    (void)state;
    expect(be_broken_early, "done, done, broken, broken, done, done, malformed, malformed");
}

static void be_refused_early(struct stage *stage)
{
    char *body MEM_AUTO = mem_zalloc(1, BODY_LEN);
    begin(stage, SLICE("POST"), slice_make(body, BODY_LEN));
    reach(stage);
    answer(stage, "HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n");
    note(stage, http_call_send(stage->call, later()));
    say(stage, stage->call->unsent ? "not all" : "all");
    receive(stage);
    ask(stage); /* on a new connection: reach would else not accept one */
    answer(stage, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    receive(stage);
}

static void a_peer_that_answers_early_is_heard_and_its_connection_used_up(void **state)
{
    (void)state;
    expect(be_refused_early, "done, done, not all, done 413, done, done, done 200");
}

static void stream_a_body(struct stage *stage)
{
    static char text[] = "5\r\nabcde\r\n0\r\n\r\n";
    char *body MEM_AUTO = mem_zalloc(1, BODY_LEN);
    struct iovec small = {text, sizeof text - 1}, large = {body, BODY_LEN};
    begin(stage, SLICE("POST"), slice_make(NULL, 0));
    stage->call->streams = true;
    reach(stage);
    note(stage, http_call_send(stage->call, later()));
    say(stage, http_call_write(stage->call, &small, 1, later()) ? "written" : "refused");
    answer(stage, "HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n");
    say(stage, http_call_write(stage->call, &large, 1, later()) ? "written" : "refused");
    say(stage, http_call_write(stage->call, &small, 1, later()) ? "written" : "refused");
    receive(stage);
    size_t came = take(stage);
    say(stage, came > 0 && came <= stage->call->sent ? "counted" : "not counted");
}

static void a_streamed_body_ends_where_the_peer_answers(void **state)
{
    (void)state;
    expect(stream_a_body, "done, done, written, refused, refused, done 413, counted");
}

/* ---- receiving ---- */

static void be_left(struct stage *stage)
{
    ask(stage);
    take(stage);
    leave(stage, false);
    receive(stage);
    say_sent(stage);
    ask(stage);
    answer(stage, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
    receive(stage);
    leave(stage, true);
    read_body(stage, 100, later());
}

static void reset_after_a_byte_left_is_told_as_such(void **state)
{
    (void)state;
    expect(be_left, "done, done, broken, sent, done, done, done 200, broken");
}

static void wait_twice(struct stage *stage)
{
    ask(stage);
    note(stage, http_call_receive(stage->call, clock_boot_us()));
    answer(stage, "HTTP/1.1 200 OK\r\nContent-Le");
    note(stage, http_call_receive(stage->call, clock_boot_us() + CLOCK_US_PER_MS));
    answer(stage, "ngth: 8\r\n\r\nhalf");
    receive(stage);
    read_body(stage, 100, clock_boot_us() + CLOCK_US_PER_MS);
    answer(stage, "rest");
    read_body(stage, 100, later());
    buf_printf(&stage->notes, " %.*s", SLICE_ARG(buf_slice(&stage->body)));
}

static void a_wait_that_ran_out_of_time_goes_on_where_it_stopped(void **state)
{
    (void)state;
    expect(wait_twice, "done, done, timeout, timeout, done 200, timeout, done halfrest");
}

static void hear_nonsense(struct stage *stage)
{
    ask(stage);
    answer(stage, "SSH-2.0-OpenSSH\r\n\r\n");
    receive(stage);
    ask(stage);
    answer(stage, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n");
    receive(stage);
    read_body(stage, 100, later());
}

static void what_is_not_http_is_malformed(void **state)
{
    (void)state;
    expect(hear_nonsense, "done, done, malformed, done, done, done 200, malformed");
}

static void hear_too_much(struct stage *stage)
{
    ask(stage);
    answer(stage, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nlonger");
    receive(stage);
    read_body(stage, 5, later());
    struct slice rest = {NULL, 0};
    if (http_conn_read_some(stage->call->conn, later(), &rest) == HTTP_READ_OK)
        buf_printf(&stage->notes, " %.*s", SLICE_ARG(rest));
}

static void too_large_a_body_may_still_be_streamed(void **state)
{
    (void)state;
    expect(hear_too_much, "done, done, done 200, too large longer");
}

static void hear_interims(struct stage *stage)
{
    ask(stage);
    answer(stage, "HTTP/1.1 103 a\r\n\r\nHTTP/1.1 100 b\r\n\r\nHTTP/1.1 204 c\r\n\r\n");
    receive(stage);
    ask(stage);
    for (int i = 0; i < 16; i++)
        answer(stage, INTERIM);
    receive(stage);
    ask(stage);
    answer(stage, "HTTP/1.1 101 x\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n");
    receive(stage);
}

static void interim_responses_are_dropped_but_not_for_ever_nor_an_upgrade(void **state)
{
    (void)state;
    expect(hear_interims, "done, done, done 204, done, done, broken, done, done, broken");
}

static void hear_upgrade(struct stage *stage)
{
    begin(stage, SLICE("GET"), slice_make(NULL, 0));
    stage->call->upgrades = true;
    reach(stage);
    note(stage, http_call_send(stage->call, later()));
    answer(stage, "HTTP/1.1 101 x\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n");
    receive(stage);
}

static void an_upgrade_is_an_answer_to_who_asked_for_it(void **state)
{
    (void)state;
    expect(hear_upgrade, "done, done, done 101");
}

/* ---- kept connections ---- */

static void ask_and_hear(struct stage *stage, struct slice method, struct slice body)
{
    int before = stage->peer;
    begin(stage, method, body);
    reach(stage);
    say(stage, stage->peer == before ? "kept" : "new");
    note(stage, http_call_send(stage->call, later()));
    answer(stage, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    receive(stage);
    say(stage, "");
}

/* The peer's descriptor is not closed before a new one is accepted, so they differ. */
static void use_again(struct stage *stage)
{
    struct slice none = {NULL, 0};
    ask_and_hear(stage, SLICE("POST"), SLICE("x"));
    ask_and_hear(stage, SLICE("DELETE"), SLICE("x")); /* a body that may be ignored */
    ask_and_hear(stage, SLICE("GET"), none);
}

static void connection_is_kept_unless_something_may_be_left_on_it(void **state)
{
    (void)state;
    expect(use_again, "done, new, done, done 200, , done, kept, done, done 200, , "
                      "done, new, done, done 200, ");
}

/* The peer closes when the request is under way: nobody can tell whether it was read. */
static void die_unused(struct stage *stage)
{
    struct slice none = {NULL, 0};
    ask_and_hear(stage, SLICE("GET"), none);
    begin(stage, SLICE("GET"), none);
    reach(stage);
    note(stage, http_call_send(stage->call, later()));
    leave(stage, false);
    if (http_call_again(stage->call, receive(stage))) {
        say(stage, "again");
        reach(stage);
    }
    note(stage, http_call_send(stage->call, later()));
    leave(stage, false);
    if (http_call_again(stage->call, receive(stage)))
        say(stage, "and again");
}

static void kept_connection_that_died_unused_is_told_from_a_new_one_that_broke(void **state)
{
    (void)state;
    expect(die_unused,
           "done, new, done, done 200, , done, done, broken, again, done, done, broken");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_connection_nothing_is_sent_and_it_is_told_why),
        cmocka_unit_test(first_byte_leaves_before_its_moment_or_never),
        cmocka_unit_test(reset_before_a_byte_left_is_told_as_such),
        cmocka_unit_test(
            a_send_that_ran_out_of_time_goes_on_where_it_stopped_through_interim_responses),
        cmocka_unit_test(a_streamed_body_ends_where_the_peer_answers),
        cmocka_unit_test(a_peer_that_breaks_off_early_stays_broken),
        cmocka_unit_test(a_peer_that_answers_early_is_heard_and_its_connection_used_up),
        cmocka_unit_test(reset_after_a_byte_left_is_told_as_such),
        cmocka_unit_test(a_wait_that_ran_out_of_time_goes_on_where_it_stopped),
        cmocka_unit_test(what_is_not_http_is_malformed),
        cmocka_unit_test(too_large_a_body_may_still_be_streamed),
        cmocka_unit_test(interim_responses_are_dropped_but_not_for_ever_nor_an_upgrade),
        cmocka_unit_test(an_upgrade_is_an_answer_to_who_asked_for_it),
        cmocka_unit_test(connection_is_kept_unless_something_may_be_left_on_it),
        cmocka_unit_test(kept_connection_that_died_unused_is_told_from_a_new_one_that_broke),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
