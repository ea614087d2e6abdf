/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One fiber plays both ends: a connection to a listening socket succeeds before it is accepted.
 */
#include "base/clock.h"
#include "http/call/pool.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

#define LONG_US (60 * CLOCK_US_PER_S)
#define PEERS_MAX 4

struct stage {
    struct http_upstream upstream;
    int listener;
    void (*run)(struct stage *stage);
    struct http_pool *pool;
    struct http_conn *conns[PEERS_MAX];
    int peers[PEERS_MAX]; /* the upstream's end of each */
    struct http_response answer;
    bool held[PEERS_MAX]; /* what the run found out, compared when it is over */
    const char *problem;
    int failed;
};

static int64_t later(void)
{
    return clock_boot_us() + LONG_US;
}

static void take(struct stage *stage, int i, bool fresh)
{
    if (http_pool_take(stage->pool, fresh, later(), &stage->conns[i], &stage->problem) != 0)
        stage->failed++;
}

static void take_new(struct stage *stage, int i)
{
    take(stage, i, true);
    stage->peers[i] = accept(stage->listener, NULL, NULL);
    if (stage->peers[i] < 0)
        stage->failed++;
}

static void give(struct stage *stage, int i, bool reusable)
{
    http_pool_give(stage->pool, stage->conns[i], reusable);
}

/* One exchange on connection i, whose answer is followed by `behind` in the same segment. */
static void exchange(struct stage *stage, int i, const char *behind)
{
    struct http_conn *conn = stage->conns[i];
    BUF_AUTO struct buf text = buf_make(100);
    buf_printf(&text, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n%s", behind);
    if (send(stage->peers[i], text.at, text.len, 0) != (ssize_t)text.len)
        stage->failed++;
    if (http_conn_read_response(conn, SLICE("GET"), later(), &stage->answer) != HTTP_READ_OK)
        stage->failed++;
}

/* Until what the upstream did has reached this end. */
static void wait_for_news(const struct http_conn *conn)
{
    struct pollfd news = {.fd = conn->io.fd, .events = POLLIN};
    assert_int_equal(poll(&news, 1, 10000), 1);
}

/* Whether the upstream's end learns that this one was closed. */
static bool is_closed(int peer)
{
    char byte;
    struct pollfd news = {.fd = peer, .events = POLLIN};
    return poll(&news, 1, 10000) == 1 && recv(peer, &byte, 1, MSG_DONTWAIT) <= 0;
}

static bool is_open(int peer)
{
    char byte;
    return recv(peer, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static void run_stage(void *argument)
{
    struct stage *stage = argument;
    stage->run(stage);
}

static void play(struct stage *stage, size_t max_idle, int64_t idle_us)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    struct timeval give_up = {.tv_sec = 10};
    stage->listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(stage->listener, SOL_SOCKET, SO_RCVTIMEO, &give_up, sizeof give_up);
    assert_int_equal(bind(stage->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(stage->listener, PEERS_MAX), 0);
    assert_int_equal(getsockname(stage->listener, (struct sockaddr *)&address, &size), 0);
    stage->upstream.addresses.n = 1;
    memcpy(&stage->upstream.addresses.at[0], &address, size);
    stage->pool = http_pool_new(&stage->upstream, max_idle, idle_us);
    assert_non_null(stage->pool);
    struct loop *loop = loop_new(2);
    assert_true(fiber_spawn(loop, "stage", run_stage, stage));
    loop_stop(loop);
    loop_run(loop);
    loop_free(loop);
    for (int i = 0; i < PEERS_MAX; i++)
        if (stage->peers[i] > 0)
            close(stage->peers[i]);
    if (stage->listener >= 0)
        close(stage->listener);
    assert_int_equal(stage->failed, 0);
}

/* ---- */

static void keep_one(struct stage *stage)
{
    take_new(stage, 0);
    exchange(stage, 0, "");
    give(stage, 0, true);
    take(stage, 1, false);
    int on = 0;
    socklen_t size = sizeof on;
    getsockopt(stage->conns[1]->io.fd, IPPROTO_TCP, TCP_NODELAY, &on, &size);
    stage->held[0] = stage->conns[1] == stage->conns[0] && is_open(stage->peers[0]);
    stage->held[1] = on != 0;
    stage->held[2] = stage->conns[1]->headers_len == 0;
    give(stage, 1, true);
    take_new(stage, 2);
    stage->held[3] = stage->conns[2] != stage->conns[0];
    give(stage, 2, true);
    http_pool_unref(stage->pool);
}

static void kept_connection_is_lent_again_unless_a_fresh_one_is_asked_for(void **state)
{
    (void)state;
    struct stage stage = {.run = keep_one};
    play(&stage, 2, LONG_US);
    for (int i = 0; i < 4; i++)
        assert_true(stage.held[i]);
}

static void keep_three(struct stage *stage)
{
    for (int i = 0; i < 3; i++)
        take_new(stage, i);
    for (int i = 0; i < 3; i++)
        give(stage, i, true);
    stage->held[0] = is_closed(stage->peers[0]);
    struct http_conn *newest = stage->conns[2], *second = stage->conns[1];
    take(stage, 0, false);
    stage->held[1] = stage->conns[0] == newest;
    take(stage, 3, false);
    stage->held[2] = stage->conns[3] == second;
    give(stage, 0, true);
    give(stage, 3, true);
    http_pool_unref(stage->pool);
    stage->held[3] = is_closed(stage->peers[1]) && is_closed(stage->peers[2]);
}

static void newest_is_lent_first_and_the_oldest_makes_way(void **state)
{
    (void)state;
    struct stage stage = {.run = keep_three};
    play(&stage, 2, LONG_US);
    for (int i = 0; i < 4; i++)
        assert_true(stage.held[i]);
}

static void keep_closed(struct stage *stage)
{
    for (int i = 0; i < 3; i++)
        take_new(stage, i);
    for (int i = 0; i < 3; i++)
        give(stage, i, true);
    struct linger reset = {.l_onoff = 1};
    setsockopt(stage->peers[1], SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(stage->peers[1]);
    shutdown(stage->peers[2], SHUT_WR);
    if (send(stage->peers[0], "HTTP/1.1 408 late\r\n\r\n", 21, 0) != 21)
        stage->failed++;
    for (int i = 0; i < 3; i++)
        wait_for_news(stage->conns[i]);
    take(stage, 3, false);
    stage->peers[1] = 0;
    stage->peers[3] = accept(stage->listener, NULL, NULL);
    stage->held[0] = stage->peers[3] >= 0;
    exchange(stage, 3, "");
    stage->held[1] = stage->answer.status == 200;
    stage->held[2] = is_closed(stage->peers[0]) && is_closed(stage->peers[2]);
    give(stage, 3, true);
    http_pool_unref(stage->pool);
}

static void closed_reset_and_talking_connections_are_never_lent(void **state)
{
    (void)state;
    struct stage stage = {.run = keep_closed};
    play(&stage, 4, LONG_US);
    for (int i = 0; i < 3; i++)
        assert_true(stage.held[i]);
}

static void give_unfit(struct stage *stage)
{
    take_new(stage, 0);
    exchange(stage, 0, "HTTP/1.1 200 stray\r\n\r\n");
    give(stage, 0, true);
    stage->held[0] = is_closed(stage->peers[0]);
    take_new(stage, 1);
    exchange(stage, 1, "");
    give(stage, 1, false);
    stage->held[1] = is_closed(stage->peers[1]);
    take_new(stage, 2);
    if (send(stage->peers[2], "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n", 38, 0) != 38 ||
        http_conn_read_response(stage->conns[2], SLICE("GET"), later(), &stage->answer) !=
            HTTP_READ_OK)
        stage->failed++;
    give(stage, 2, true);
    stage->held[2] = is_closed(stage->peers[2]);
    http_pool_unref(stage->pool);
}

static void unread_stray_and_unwanted_connections_are_closed_when_given(void **state)
{
    (void)state;
    struct stage stage = {.run = give_unfit};
    play(&stage, 4, LONG_US);
    for (int i = 0; i < 3; i++)
        assert_true(stage.held[i]);
}

static void keep_expired(struct stage *stage)
{
    take_new(stage, 0);
    give(stage, 0, true);
    take(stage, 1, false);
    stage->peers[1] = accept(stage->listener, NULL, NULL);
    stage->held[0] = stage->peers[1] >= 0 && is_closed(stage->peers[0]);
    give(stage, 1, true);
    http_pool_unref(stage->pool);
}

static void connection_idle_too_long_is_closed_not_lent(void **state)
{
    (void)state;
    struct stage stage = {.run = keep_expired};
    play(&stage, 4, 0);
    assert_true(stage.held[0]);
}

static void connect_to_nobody(struct stage *stage)
{
    close(stage->listener);
    stage->listener = -1;
    struct http_conn *conn = NULL;
    stage->held[0] =
        http_pool_take(stage->pool, false, later(), &conn, &stage->problem) == -ECONNREFUSED;
    stage->held[1] = conn == NULL;
    http_pool_unref(stage->pool);
}

static void refused_connect_is_told_and_lends_nothing(void **state)
{
    (void)state;
    struct stage stage = {.run = connect_to_nobody};
    play(&stage, 4, LONG_US);
    assert_true(stage.held[0] && stage.held[1]);
}

/* An address where nobody listens, as long as the descriptor is open. */
static int nobodys(struct http_upstream *upstream)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool bound = bind(fd, (struct sockaddr *)&address, size) == 0 &&
                 getsockname(fd, (struct sockaddr *)&address, &size) == 0;
    upstream->addresses.n = 2;
    memcpy(&upstream->addresses.at[0], &address, size);
    return bound ? fd : -1;
}

static void connect_to_the_other(struct stage *stage)
{
    struct http_upstream both = {.addresses.at[1] = stage->upstream.addresses.at[0]};
    int silent = nobodys(&both);
    stage->held[0] = !http_pool_serves(stage->pool, &both, LONG_US);
    http_pool_unref(stage->pool);
    stage->pool = http_pool_new(&both, 4, LONG_US);
    stage->held[1] = http_pool_serves(stage->pool, &both, LONG_US);
    take_new(stage, 0);
    exchange(stage, 0, "");
    give(stage, 0, true);
    both.addresses.n = 1;
    stage->held[2] = !http_pool_serves(stage->pool, &both, LONG_US);
    http_pool_unref(stage->pool);
    close(silent);
}

static void where_the_first_address_refuses_the_other_one_is_asked(void **state)
{
    (void)state;
    struct stage stage = {.run = connect_to_the_other};
    play(&stage, 4, LONG_US);
    assert_true(stage.held[0] && stage.held[1] && stage.held[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_connection_is_lent_again_unless_a_fresh_one_is_asked_for),
        cmocka_unit_test(newest_is_lent_first_and_the_oldest_makes_way),
        cmocka_unit_test(closed_reset_and_talking_connections_are_never_lent),
        cmocka_unit_test(unread_stray_and_unwanted_connections_are_closed_when_given),
        cmocka_unit_test(connection_idle_too_long_is_closed_not_lent),
        cmocka_unit_test(refused_connect_is_told_and_lends_nothing),
        cmocka_unit_test(where_the_first_address_refuses_the_other_one_is_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
