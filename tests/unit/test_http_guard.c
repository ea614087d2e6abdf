/* SPDX-License-Identifier: Apache-2.0 */
/* Names that are answered with what the file $PAWL_TEST_HOSTS says at that moment. */
#include "base/mem.h"
#include "http/call/origins.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define LONG_US (60 * CLOCK_US_PER_S)
#define TIME0 (INT64_C(1000000) * CLOCK_US_PER_S)

static char hosts[] = "/tmp/pawl-test-hosts-XXXXXX";

static void answer(const char *line)
{
    FILE *file = fopen(hosts, "we");
    assert_non_null(file);
    assert_true(fprintf(file, "%s\n", line) > 0 && fclose(file) == 0);
}

struct stage {
    struct http_guard_config guard;
    void (*run)(struct http_origins *origins);
};

static void run_stage(void *argument)
{
    const struct stage *stage = argument;
    struct http_guard *guard = http_guard_new(&stage->guard);
    const struct http_origins_config config = {.guard = guard, .max = 4, .fresh_us = LONG_US};
    struct http_origins *origins = http_origins_new(&config);
    assert_non_null(origins);
    http_guard_unref(guard);
    stage->run(origins);
    http_origins_free(origins);
}

static void play(void (*run)(struct http_origins *origins), const char *allowed)
{
    struct stage stage = {.run = run, .guard.allow_http = true};
    struct loop *loop = loop_new(2);
    if (allowed)
        assert_true(network_read(slice_of(allowed), &stage.guard.allow.at[0]));
    stage.guard.allow.n = allowed != NULL;
    assert_true(fiber_spawn(loop, "stage", run_stage, &stage));
    loop_stop(loop);
    loop_run(loop);
    loop_free(loop);
}

/* The caller's, where it is DONE. */
static enum http_call_result find(struct http_origins *origins, const char *text,
                                  struct http_pool **ret_pool, const char **ret_problem)
{
    struct url url;
    *ret_problem = NULL;
    assert_true(url_read(slice_of(text), &url, ret_problem));
    return http_origins_find(origins, &url, clock_boot_us() + LONG_US, ret_pool, ret_problem);
}

static void assert_refused(struct http_origins *origins, const char *text, const char *why)
{
    struct http_pool *pool = NULL;
    const char *problem;
    assert_int_equal(find(origins, text, &pool, &problem), HTTP_CALL_FORBIDDEN);
    assert_non_null(strstr(problem, why));
    assert_null(pool);
}

static void assert_allowed(struct http_origins *origins, const char *text)
{
    struct http_pool *pool = NULL;
    const char *problem;
    assert_int_equal(find(origins, text, &pool, &problem), HTTP_CALL_DONE);
    http_pool_unref(pool);
}

/* ---- */

static void find_each_range(struct http_origins *origins)
{
    static const struct {
        const char *answer, *why;
    } cases[] = {
        {"r 0.0.0.0", "this network"},
        {"r 10.1.2.3", "private"},
        {"r 100.64.0.1", "carrier"},
        {"r 127.0.0.1", "loopback"},
        {"r 169.254.169.254", "link-local"},
        {"r 172.16.0.1", "private"},
        {"r 192.0.0.8", "IETF"},
        {"r 192.0.2.1", "documentation"},
        {"r 192.88.99.1", "6to4"},
        {"r 192.168.1.1", "private"},
        {"r 198.18.0.1", "benchmarks"},
        {"r 224.0.0.1", "multicast"},
        {"r 240.0.0.1", "reserved"},
        {"r 255.255.255.255", "broadcast"},
        {"r ::", "unspecified"},
        {"r ::1", "loopback"},
        {"r ::ffff:10.0.0.1", "private"},
        {"r ::10.0.0.1", "IPv4-compatible"},
        {"r 64:ff9b::169.254.169.254", "link-local"},
        {"r 64:ff9b:1::1", "NAT64"},
        {"r 100::1", "discarded"},
        {"r 2001:db8::1", "documentation"},
        {"r 2002:7f00:1::", "loopback"},
        {"r fc00::1", "private"},
        {"r fe80::1", "link-local"},
        {"r fec0::1", "site-local"},
        {"r ff02::1", "multicast"},
        {"r 93.184.216.34 10.0.0.1", "private"},
        {"r 8.8.8.1 8.8.8.2 8.8.8.3 8.8.8.4 8.8.8.5 8.8.8.6 8.8.8.7 8.8.8.8 127.0.0.1", "loopback"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        answer(cases[i].answer);
        assert_refused(origins, "http://r/", cases[i].why);
    }
    answer("r 93.184.216.34 2606:2800:220:1::1");
    assert_allowed(origins, "http://r/");
}

static void test_a_name_with_one_address_that_is_not_public_is_refused(void **state)
{
    (void)state;
    play(find_each_range, NULL);
}

static void find_odd_urls(struct http_origins *origins)
{
    answer("public 93.184.216.34");
    assert_refused(origins, "http://127.0.0.1/", "loopback");
    assert_refused(origins, "http://[::1]/", "loopback");
    assert_refused(origins, "http://[::ffff:7f00:1]/", "loopback");
    assert_refused(origins, "http://0x7f.1/", "four decimal numbers");
    assert_refused(origins, "http://2130706433/", "four decimal numbers");
    assert_refused(origins, "http://0177.0.0.1/", "four decimal numbers");
    assert_refused(origins, "http://u:p@public/", "credentials");
    assert_allowed(origins, "http://public/");
}

static void test_a_url_is_judged_before_its_host_is_looked_up(void **state)
{
    (void)state;
    play(find_odd_urls, NULL);
}

static void find_allowed(struct http_origins *origins)
{
    answer("inside 127.0.0.1");
    assert_allowed(origins, "http://inside/");
    answer("other 127.0.0.2 127.0.0.1");
    assert_refused(origins, "http://other/", "loopback");
    answer("mapped ::ffff:127.0.0.1");
    assert_allowed(origins, "http://mapped/");
    answer("carried 64:ff9b::127.0.0.1");
    assert_refused(origins, "http://carried/", "loopback");
}

static void test_what_an_operator_allows_is_allowed_and_nothing_else(void **state)
{
    (void)state;
    play(find_allowed, "127.0.0.1");
}

/* Looks it up again, on a thread of its own: `wanted` is what it comes to. */
static void rebind(const struct http_pool *pool, const char *line, bool wanted, int64_t *now)
{
    answer(line);
    *now += 2 * LONG_US;
    clock_test_set(*now, *now);
    while ((http_pool_refusal(pool) != NULL) != wanted)
        usleep(1000);
}

static void find_rebound(struct http_origins *origins)
{
    int64_t now = TIME0;
    struct http_pool *pool = NULL;
    struct http_conn *conn = NULL;
    const char *problem = NULL;
    clock_test_set(now, now);
    answer("rebound 93.184.216.34");
    assert_int_equal(find(origins, "http://rebound/", &pool, &problem), HTTP_CALL_DONE);
    rebind(pool, "rebound 127.0.0.1", true, &now);
    assert_int_equal(http_pool_take(pool, true, now + LONG_US, &conn, &problem),
                     -HTTP_POOL_FORBIDDEN);
    assert_non_null(strstr(problem, "loopback"));
    assert_refused(origins, "http://rebound/", "loopback");
    http_pool_unref(pool);
    answer("rebound 93.184.216.34");
    assert_allowed(origins, "http://rebound/"); /* looked up anew at once */
    clock_test_set(0, 0);
}

static void test_a_name_that_is_answered_otherwise_later_is_judged_anew(void **state)
{
    (void)state;
    play(find_rebound, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_name_with_one_address_that_is_not_public_is_refused),
        cmocka_unit_test(test_a_url_is_judged_before_its_host_is_looked_up),
        cmocka_unit_test(test_what_an_operator_allows_is_allowed_and_nothing_else),
        cmocka_unit_test(test_a_name_that_is_answered_otherwise_later_is_judged_anew),
    };
    int fd = mkstemp(hosts);
    if (fd < 0 || setenv("PAWL_TEST_HOSTS", hosts, 1) != 0)
        return 1;
    close(fd);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(hosts);
    return failed;
}
