/* SPDX-License-Identifier: Apache-2.0 */
/* Each test is a fiber that plays both ends, as in test_http_pool.c. */
#include "base/mem.h"
#include "http/call/origins.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#define LONG_US (60 * CLOCK_US_PER_S)

struct stage {
    struct http_origins_config config;
    void (*run)(struct stage *stage, struct http_origins *origins);
    const char *response; /* of the listener's one connection */
    int listener;
    struct buf request;
    struct buf body;
    enum exchange_end end;
};

static struct http_pool *find(struct http_origins *origins, const char *text)
{
    struct url url;
    const char *problem;
    struct http_pool *pool = NULL;
    assert_true(url_read(slice_of(text), &url, &problem));
    if (http_origins_find(origins, &url, clock_boot_us() + LONG_US, &pool, &problem) !=
        HTTP_CALL_DONE)
        return NULL;
    http_pool_unref(pool); /* the origins' own is left */
    return pool;
}

static void run_stage(void *argument)
{
    struct stage *stage = argument;
    struct http_origins *origins = http_origins_new(&stage->config);
    assert_non_null(origins);
    stage->run(stage, origins);
    http_origins_free(origins);
}

static void serve(void *argument)
{
    struct stage *stage = argument;
    struct http_conn conn;
    struct fiber_io listener;
    struct http_request *request = mem_zalloc(1, sizeof *request);
    assert_true(request && fiber_io_open(&listener, stage->listener));
    int fd = fiber_accept(&listener, NULL, clock_boot_us() + LONG_US);
    assert_true(fd >= 0 && http_conn_open(&conn, fd));
    assert_int_equal(http_conn_read_request(&conn, clock_boot_us() + LONG_US, request),
                     HTTP_READ_OK);
    buf_add(&stage->request, conn.in.at, conn.headers_len);
    struct iovec part = {(void *)(uintptr_t)stage->response, strlen(stage->response)};
    assert_int_equal(http_conn_write(&conn, &part, 1, clock_boot_us() + LONG_US), 0);
    http_conn_close(&conn);
    fiber_io_close(&listener);
    mem_free(request);
}

static void play(struct stage *stage)
{
    struct loop *loop = loop_new(2);
    stage->config.max = stage->config.max ? stage->config.max : 2;
    stage->config.fresh_us = LONG_US;
    stage->request = stage->body = buf_make(1000);
    assert_true(fiber_spawn(loop, "stage", run_stage, stage));
    if (stage->response)
        assert_true(fiber_spawn(loop, "server", serve, stage));
    loop_stop(loop);
    loop_run(loop);
    loop_free(loop);
    buf_fini(&stage->request);
    buf_fini(&stage->body);
}

/* ---- */

static void find_some(struct stage *stage, struct http_origins *origins)
{
    (void)stage;
    struct http_pool *one = find(origins, "http://127.0.0.1/x"),
                     *two = find(origins, "http://[::1]");
    assert_true(one && two && one != two);
    assert_ptr_equal(find(origins, "HTTP://127.0.0.1:80/y?z"), one);
    http_pool_ref(two);
    assert_non_null(find(origins, "http://127.0.0.1:81"));
    assert_ptr_equal(find(origins, "http://127.0.0.1"), one);
    assert_ptr_not_equal(find(origins, "http://[::1]"), two); /* it had made way */
    http_pool_unref(two);
}

static void test_urls_of_one_origin_share_a_pool_and_the_longest_unused_makes_way(void **state)
{
    (void)state;
    struct stage stage = {.run = find_some};
    play(&stage);
}

static void find_nobody(struct stage *stage, struct http_origins *origins)
{
    (void)stage;
    struct url url;
    struct http_pool *pool = NULL;
    const char *problem = NULL;
    assert_true(url_read(SLICE("http://nobody.invalid/"), &url, &problem));
    assert_int_equal(http_origins_find(origins, &url, clock_boot_us() + LONG_US, &pool, &problem),
                     HTTP_CALL_UNREACHABLE);
    assert_true(problem && strlen(problem) > 0);
}

static void test_a_name_without_addresses_is_unreachable(void **state)
{
    (void)state;
    struct stage stage = {.run = find_nobody};
    play(&stage);
}

static void post(struct stage *stage, struct http_origins *origins)
{
    struct http_call *call = mem_zalloc(1, sizeof *call);
    struct headers *headers = mem_zalloc(1, sizeof *headers);
    BUF_AUTO struct buf text = buf_make(1000);
    struct url url;
    const char *problem;
    int64_t until = clock_boot_us() + LONG_US;
    assert_true(call && headers && headers_add(headers, SLICE("A"), SLICE("b")));
    assert_true(url_read(SLICE("http://Example.org:8080/x"), &url, &problem));
    assert_int_equal(http_origins_find(origins, &url, until, &call->pool, &problem),
                     HTTP_CALL_DONE);
    struct http_origins_request request = {SLICE("POST"), &url, headers, SLICE("{}"), true};
    http_origins_write(&text, &request);
    call->method = request.method;
    call->headers = buf_slice(&text);
    call->body = request.body;
    struct http_call_limits limits = {until, until, 100};
    stage->end = http_call_end(call, http_call_run(call, &limits, &stage->body), false);
    assert_int_equal(call->response.status, 201);
    http_call_close(call);
    http_pool_unref(call->pool);
    assert_true(slice_eq(buf_slice(&stage->body), SLICE("done")));
    assert_true(slice_eq(buf_slice(&stage->request),
                         SLICE("POST /x HTTP/1.1\r\nHost: example.org:8080\r\nA: b\r\n"
                               "Content-Length: 2\r\n\r\n")));
    mem_free(headers);
    mem_free(call);
}

static void test_a_request_to_any_url_goes_through_a_unix_socket(void **state)
{
    (void)state;
    char folder[] = "/tmp/pawl-test-origins-XXXXXX";
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_non_null(mkdtemp(folder));
    snprintf(address.sun_path, sizeof address.sun_path, "%s/s", folder);
    struct stage stage = {.run = post,
                          .config.unix_socket = address.sun_path,
                          .response = "HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\ndone",
                          .listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0)};
    assert_int_equal(bind(stage.listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(stage.listener, 1), 0);
    play(&stage);
    assert_int_equal(stage.end, EXCHANGE_RESPONDED);
    unlink(address.sun_path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_urls_of_one_origin_share_a_pool_and_the_longest_unused_makes_way),
        cmocka_unit_test(test_a_name_without_addresses_is_unreachable),
        cmocka_unit_test(test_a_request_to_any_url_goes_through_a_unix_socket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
