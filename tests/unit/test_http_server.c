/* SPDX-License-Identifier: Apache-2.0 */
/* A server on a free port of loopback, asked by plain blocking sockets. */
#include "base/check.h"
#include "base/clock.h"
#include "base/thread.h"
#include "http/headers_out.h"
#include "http/server.h"

#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_S 20
#define HEAD_MAX ((size_t)1024)
#define BODY_MAX ((size_t)100)
#define TEXT_MAX 4096
#define CROWD 200 /* more than a loop accepts before it looks at all else */
#define GET(target) "GET " target " HTTP/1.1\r\nHost: x\r\n\r\n"

/* ---- the service: says the body of the request, or the path ---- */

struct stage {
    struct http_limits limits;
    size_t opened;
    atomic_int parked; /* requests for /park, which stay until a drain, and for /block */
    atomic_bool blocks;
};

static void note_open(struct http_session *session, const struct sockaddr_storage *peer)
{
    struct stage *stage = session->data;
    CHECK(address_is_loopback(peer));
    stage->opened++;
}

static bool answer(struct http_session *session, int status, struct slice body)
{
    bool keep = http_session_may_go_on(session);
    BUF_AUTO struct buf head = buf_make(HEAD_MAX);
    headers_write_status(&head, status, slice_of(NULL));
    headers_write_number(&head, "Content-Length", body.len);
    headers_end_response(&head, session->request, keep);
    return http_session_write(session, &head, body) && keep;
}

static void park_until_drained(struct http_session *session)
{
    struct stage *stage = session->data;
    struct parker parker = {.waker = fiber_parker()};
    session->waiting = &parker;
    atomic_fetch_add(&stage->parked, 1);
    while (!parker.interrupted)
        fiber_wait(NULL, 0, CLOCK_NEVER);
    session->waiting = NULL;
}

/* Nothing else is done on its loop: what comes waits in the kernel. */
static void block_thread(struct stage *stage)
{
    atomic_fetch_add(&stage->parked, 1);
    while (atomic_load(&stage->blocks))
        usleep(1000);
}

static bool serve(struct http_session *session, struct arena *arena)
{
    struct slice path = session->request->path;
    BUF_AUTO struct buf body = buf_make(BODY_MAX);
    struct http_complaint complaint;
    (void)arena;
    if (slice_eq(path, SLICE("/park")))
        park_until_drained(session);
    if (slice_eq(path, SLICE("/block")))
        block_thread(session->data);
    if (slice_eq(path, SLICE("/unread")))
        return answer(session, 200, SLICE("unread"));
    if (!http_session_read_body(session, &body, &complaint)) {
        answer(session, complaint.status, slice_of(complaint.text));
        return false;
    }
    return answer(session, 200, body.len > 0 ? buf_slice(&body) : path);
}

static void refuse(struct http_session *session, const struct http_complaint *complaint)
{
    answer(session, complaint->status, slice_of(complaint->text));
}

static const struct http_service service = {
    .session_size = sizeof(struct http_session),
    .open = note_open,
    .serve = serve,
    .refuse = refuse,
};

/* ---- both ends ---- */

static struct stage stage_make(void)
{
    int64_t long_us = 60 * CLOCK_US_PER_S;
    return (struct stage){.limits = {0, long_us, long_us, long_us, long_us}};
}

static struct http_server_config config_for(struct stage *stage, size_t places)
{
    struct http_server_config config = {
        .service = &service,
        .name = "server",
        .limits = stage->limits,
        .loops = 1,
        .max_connections = places,
        .data = stage,
    };
    struct sockaddr_in *address = (struct sockaddr_in *)&config.address;
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return config;
}

static struct http_server *start(struct stage *stage, size_t places)
{
    struct http_server_config config = config_for(stage, places);
    int error = 0;
    struct http_server *server = http_server_start(&config, &error);
    assert_non_null(server);
    return server;
}

static void stop(struct http_server *server)
{
    http_server_cut(server);
    assert_true(http_server_wait(server, CLOCK_NEVER));
    assert_int_equal(http_server_connections(server), 0);
    http_server_free(server);
}

static int dial(const struct http_server *server)
{
    const struct sockaddr_storage *address = http_server_address(server);
    struct timeval patience = {.tv_sec = PATIENCE_S};
    int fd = socket(address->ss_family, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)address, sizeof *address), 0);
    return fd;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Whether what comes until the text `last` was read, or the end, has `part` in it. */
static bool hears(int fd, const char *last, const char *part)
{
    char text[TEXT_MAX] = "";
    size_t n = 0;
    ssize_t got = 1;
    while (got > 0 && n < sizeof text - 1 && !(last && strstr(text, last))) {
        got = recv(fd, text + n, 1, 0);
        n += got > 0 ? 1 : 0;
        text[n] = '\0';
    }
    assert_true(got >= 0 || errno == ECONNRESET);
    return (!last || strstr(text, last)) && strstr(text, part);
}

static void is_closed(int fd)
{
    char byte;
    ssize_t got = recv(fd, &byte, 1, 0);
    assert_true(got == 0 || (got < 0 && errno == ECONNRESET));
    close(fd);
}

static void await_connections(const struct http_server *server, size_t n)
{
    int64_t deadline = clock_boot_us() + PATIENCE_S * CLOCK_US_PER_S;
    while (http_server_connections(server) != n && clock_boot_us() < deadline)
        usleep(1000);
    assert_int_equal(http_server_connections(server), n);
}

static void await_parked(const struct stage *stage, int n)
{
    int64_t deadline = clock_boot_us() + PATIENCE_S * CLOCK_US_PER_S;
    while (atomic_load(&stage->parked) != n && clock_boot_us() < deadline)
        usleep(1000);
    assert_int_equal(atomic_load(&stage->parked), n);
}

/* ---- tests ---- */

static void requests_of_a_connection_are_answered_in_order(void **state)
{
    struct stage stage = stage_make();
    struct http_server *server = start(&stage, 4);
    (void)state;
    int fd = dial(server);
    say(fd, GET("/one") "HEAD /head HTTP/1.1\r\nHost: x\r\n\r\n" GET("/two"));
    assert_true(hears(fd, "/one", "200 OK\r\nContent-Length: 4\r\n\r\n/one"));
    assert_true(hears(fd, "/two", "Content-Length: 5\r\n\r\nHTTP/1.1 200 OK"));
    close(fd);
    stop(server);
    assert_int_equal(stage.opened, 1);
}

static void a_body_that_nobody_read_is_no_request(void **state)
{
    struct stage stage = stage_make();
    struct http_server *server = start(&stage, 4);
    (void)state;
    int fd = dial(server);
    say(fd,
        "POST /unread HTTP/1.1\r\nHost: x\r\nContent-Length: 14\r\n\r\nGET /smuggled " GET("/x"));
    assert_true(hears(fd, "/x", "\r\n\r\n/x"));
    say(fd, "POST /unread HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_true(hears(fd, "unread", "Connection: close"));
    is_closed(fd);
    stop(server);
}

static void a_body_is_asked_for_and_bounded(void **state)
{
    struct stage stage = stage_make();
    struct http_server *server = start(&stage, 4);
    (void)state;
    int fd = dial(server);
    say(fd, "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert_true(hears(fd, "\r\n\r\n", "100 Continue"));
    say(fd, "ok");
    assert_true(hears(fd, "ok", "200 OK\r\nContent-Length: 2\r\n\r\nok"));
    say(fd, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\n\r\n");
    assert_true(hears(fd, NULL, "413"));
    close(fd);
    stop(server);
}

static void what_is_no_request_is_refused(void **state)
{
    struct stage stage = stage_make();
    struct http_server *server = start(&stage, 4);
    (void)state;
    int fd = dial(server);
    say(fd, "get / HTTP/1.1\r\n\r\n");
    assert_true(hears(fd, NULL, "HTTP/1.1 400"));
    close(fd);
    stop(server);
}

static void who_is_slow_with_a_head_is_told(void **state)
{
    struct stage stage = stage_make();
    stage.limits.headers_us = CLOCK_US_PER_MS;
    struct http_server *server = start(&stage, 4);
    (void)state;
    int fd = dial(server);
    say(fd, "GET / HTTP/1.1\r\n");
    assert_true(hears(fd, NULL, "HTTP/1.1 408"));
    close(fd);
    stop(server);
}

static void who_is_silent_is_closed(void **state)
{
    struct stage stage = stage_make();
    stage.limits.idle_us = CLOCK_US_PER_MS;
    struct http_server *server = start(&stage, 4);
    (void)state;
    is_closed(dial(server));
    stop(server);
}

static int dial_and_ask(const struct http_server *server)
{
    int fd = dial(server);
    say(fd, GET("/asked"));
    assert_true(hears(fd, "/asked", "200 OK"));
    return fd;
}

static void the_longest_idle_connection_makes_room(void **state)
{
    struct stage stage = stage_make();
    struct http_server *server = start(&stage, 2);
    (void)state;
    int first = dial_and_ask(server), second = dial_and_ask(server);
    int third = dial_and_ask(server);
    is_closed(first);
    say(second, GET("/second"));
    assert_true(hears(second, "/second", "200 OK"));
    int fourth = dial_and_ask(server);
    is_closed(third);
    close(fourth);
    close(second);
    stop(server);
}

static void half_a_head_keeps_nobody_out_and_is_told_so(void **state)
{
    struct stage stage = stage_make();
    struct http_server *server = start(&stage, 1);
    (void)state;
    int half = dial_and_ask(server);
    say(half, "GET / HTTP/1.1\r\n");
    close(dial_and_ask(server));
    assert_true(hears(half, NULL, "HTTP/1.1 503"));
    close(half);
    stop(server);
}

static void nobody_makes_room_who_is_served(void **state)
{
    struct stage stage = stage_make();
    struct http_server *server = start(&stage, 1);
    (void)state;
    int busy = dial(server);
    say(busy, GET("/park"));
    await_parked(&stage, 1);
    int other = dial(server);
    assert_true(hears(other, NULL, "HTTP/1.1 503"));
    close(other);
    http_server_drain(server);
    assert_true(hears(busy, NULL, "Connection: close\r\n\r\n/park"));
    close(busy);
    stop(server);
}

static void where_the_busy_are_cut_the_oldest_goes(void **state)
{
    struct stage stage = stage_make();
    struct http_server_config config = config_for(&stage, 1);
    int error = 0;
    (void)state;
    config.cut_busy = true;
    struct http_server *server = http_server_start(&config, &error);
    assert_non_null(server);
    int busy = dial(server);
    say(busy, GET("/park"));
    await_parked(&stage, 1);
    close(dial_and_ask(server));
    is_closed(busy);
    stop(server);
}

static void an_address_has_its_limit(void **state)
{
    struct stage stage = stage_make();
    stage.limits.max_per_address = 1;
    struct http_server *server = start(&stage, 4);
    (void)state;
    int one = dial(server);
    await_connections(server, 1);
    int other = dial(server);
    assert_true(hears(other, NULL, "HTTP/1.1 429"));
    close(other);
    close(one);
    await_connections(server, 0);
    close(dial_and_ask(server));
    stop(server);
}

static void a_drain_closes_the_idle_and_lets_the_others_end(void **state)
{
    struct stage stage = stage_make();
    struct http_server *server = start(&stage, 4);
    (void)state;
    int idle = dial(server), half = dial(server), busy = dial(server);
    say(busy, GET("/park"));
    say(half, "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert_true(hears(half, "\r\n\r\n", "100 Continue"));
    await_parked(&stage, 1);
    await_connections(server, 3);
    http_server_drain(server);
    is_closed(idle);
    assert_true(hears(busy, NULL, "Connection: close\r\n\r\n/park"));
    assert_false(http_server_wait(server, clock_boot_us()));
    say(half, "ok");
    assert_true(hears(half, NULL, "Connection: close\r\n\r\nok"));
    close(busy);
    close(half);
    assert_true(http_server_wait(server, CLOCK_NEVER));
    http_server_free(server);
}

/* Connections whose requests have come, though neither was looked at yet. */
static void drain_with_unread(int n)
{
    struct stage stage = stage_make();
    struct http_server *server = start(&stage, CROWD + 1);
    int clients[CROWD], busy = dial(server);
    atomic_store(&stage.blocks, true);
    say(busy, GET("/block"));
    await_parked(&stage, 1);
    for (int i = 0; i < n; i++) {
        clients[i] = dial(server);
        say(clients[i], GET("/late"));
    }
    http_server_drain(server);
    atomic_store(&stage.blocks, false);
    for (int i = 0; i < n; i++) {
        assert_true(hears(clients[i], NULL, "Connection: close\r\n\r\n/late"));
        close(clients[i]);
    }
    close(busy);
    assert_true(http_server_wait(server, CLOCK_NEVER));
    http_server_free(server);
}

static void what_came_before_a_drain_is_answered(void **state)
{
    (void)state;
    drain_with_unread(10);
}

static void what_came_before_a_drain_is_answered_however_many_they_are(void **state)
{
    (void)state;
    drain_with_unread(CROWD);
}

static void an_address_in_use_is_refused_whoever_shares_its_port(void **state)
{
    struct stage stages[2] = {stage_make(), stage_make()};
    struct http_server *server = start(&stages[0], 4);
    struct http_server_config config = config_for(stages, 4);
    int error = 0;
    (void)state;
    config.address = *http_server_address(server);
    for (config.loops = 1; config.loops <= 2; config.loops++) {
        assert_null(http_server_start(&config, &error));
        assert_int_equal(error, -EADDRINUSE);
    }
    stop(server);
    config.loops = 2;
    config.data_size = sizeof stages[0];
    server = http_server_start(&config, &error);
    assert_non_null(server);
    config.loops = 1;
    assert_null(http_server_start(&config, &error));
    assert_int_equal(error, -EADDRINUSE);
    assert_non_null(http_server_loop(server, 1));
    for (size_t i = 0; i < 8; i++) {
        close(dial_and_ask(server));
    }
    stop(server);
    assert_int_equal(stages[0].opened + stages[1].opened, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_of_a_connection_are_answered_in_order),
        cmocka_unit_test(a_body_that_nobody_read_is_no_request),
        cmocka_unit_test(a_body_is_asked_for_and_bounded),
        cmocka_unit_test(what_is_no_request_is_refused),
        cmocka_unit_test(who_is_slow_with_a_head_is_told),
        cmocka_unit_test(who_is_silent_is_closed),
        cmocka_unit_test(the_longest_idle_connection_makes_room),
        cmocka_unit_test(half_a_head_keeps_nobody_out_and_is_told_so),
        cmocka_unit_test(nobody_makes_room_who_is_served),
        cmocka_unit_test(where_the_busy_are_cut_the_oldest_goes),
        cmocka_unit_test(an_address_has_its_limit),
        cmocka_unit_test(a_drain_closes_the_idle_and_lets_the_others_end),
        cmocka_unit_test(what_came_before_a_drain_is_answered),
        cmocka_unit_test(what_came_before_a_drain_is_answered_however_many_they_are),
        cmocka_unit_test(an_address_in_use_is_refused_whoever_shares_its_port),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
