/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer that sends 1xx responses and takes nothing of the body. It is always ahead: whatever is
 * read (recv is replaced at link time), another one has come by the time the reader looks again.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "http/call/call.h"

#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#define LONG_US (60 * CLOCK_US_PER_S)
#define BODY_LEN ((size_t)16 * 1024 * 1024) /* no socket holds so much */
#define INTERIM "HTTP/1.1 102 wait\r\n\r\n"
#define FLOOD_MOST 5000

static struct flood {
    struct http_upstream upstream;
    int listener;
    int peer;
    int reader;
    int n; /* of its responses */
    struct http_call *call;
    enum http_call_result sent;
} flood;

ssize_t __real_recv(int fd, void *bytes, size_t n, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t n, int flags);

static void send_one(void)
{
    struct pollfd news = {.fd = flood.reader, .events = POLLIN};
    bool is_last = ++flood.n == FLOOD_MOST;
    const char *text = is_last ? "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" : INTERIM;
    assert_int_equal(send(flood.peer, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    assert_int_equal(poll(&news, 1, -1), 1);
}

ssize_t __wrap_recv(int fd, void *bytes, size_t n, int flags)
{
    ssize_t got = __real_recv(fd, bytes, n, flags);
    if (got > 0 && fd == flood.reader && flood.n < FLOOD_MOST)
        send_one();
    return got;
}

static void run_flood(void *argument)
{
    struct http_pool *pool = http_pool_new(&flood.upstream, 1, LONG_US);
    MEM_AUTO char *body = mem_zalloc(1, BODY_LEN);
    (void)argument;
    flood.call->pool = pool;
    flood.call->method = SLICE("POST");
    flood.call->headers = SLICE("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 16777216\r\n\r\n");
    flood.call->body = slice_make(body, BODY_LEN);
    assert_int_equal(http_call_connect(flood.call, clock_boot_us() + LONG_US), HTTP_CALL_DONE);
    flood.peer = accept(flood.listener, NULL, NULL);
    flood.reader = flood.call->conn->io.fd;
    send_one();
    flood.sent = http_call_send(flood.call, clock_boot_us());
    http_call_close(flood.call);
    http_pool_unref(pool);
}

static void it_holds_no_send_past_its_moment(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    (void)state;
    flood.listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(flood.listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(flood.listener, 1), 0);
    assert_int_equal(getsockname(flood.listener, (struct sockaddr *)&address, &size), 0);
    flood.upstream.addresses.n = 1;
    memcpy(&flood.upstream.addresses.at[0], &address, size);
    flood.call = mem_zalloc(1, sizeof *flood.call);
    struct loop *loop = loop_new(2);
    assert_true(fiber_spawn(loop, "flood", run_flood, NULL));
    loop_stop(loop);
    loop_run(loop);
    loop_free(loop);
    mem_free(flood.call);
    close(flood.peer);
    close(flood.listener);
    assert_int_equal(flood.sent, HTTP_CALL_TIMEOUT);
    assert_in_range(flood.n, 2, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_holds_no_send_past_its_moment)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
