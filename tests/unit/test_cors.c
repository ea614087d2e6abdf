/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/web/cors.h"

#define EXPOSE                                                                                     \
    "Access-Control-Expose-Headers: Idempotency-Status, Idempotent-Replayed, Error-Code, "         \
    "Retry-After\r\n"

static void assert_fields(const struct cors_policy *cors, const char *origin, const char *fields,
                          const char *wanted)
{
    BUF_AUTO struct buf buf = buf_make(4096);
    cors_write_fields(cors, slice_of(origin), slice_of(fields), &buf);
    buf_add_char(&buf, '\0');
    assert_true(buf_ok(&buf));
    assert_string_equal(buf.at, wanted);
}

static void without_a_policy_nothing_is_added(void **state)
{
    (void)state;
    struct cors_policy off = {0};
    assert_fields(&off, "https://shop.example", "", "");
}

static void a_listed_origin_is_echoed_and_another_is_not(void **state)
{
    (void)state;
    struct cors_policy cors = {.n = 2,
                               .origins = {SLICE("https://a.example"), SLICE("http://b:81")}};
    assert_fields(&cors, "http://b:81", "",
                  "Vary: Origin\r\nAccess-Control-Allow-Origin: http://b:81\r\n" EXPOSE);
    assert_fields(&cors, "http://b:8", "", "Vary: Origin\r\n");
    assert_fields(&cors, "https://a.example.evil.test", "", "Vary: Origin\r\n");
    assert_fields(&cors, "null", "", "Vary: Origin\r\n");
    assert_fields(&cors, NULL, "", "Vary: Origin\r\n");
}

static void credentials_are_allowed_to_a_listed_origin_alone(void **state)
{
    (void)state;
    struct cors_policy cors = {
        .credentials = true, .n = 1, .origins = {SLICE("https://a.example")}};
    assert_fields(&cors, "https://a.example", "",
                  "Vary: Origin\r\nAccess-Control-Allow-Origin: https://a.example\r\n"
                  "Access-Control-Allow-Credentials: true\r\n" EXPOSE);
    assert_fields(&cors, "https://b.example", "", "Vary: Origin\r\n");
}

static void any_origin_is_a_star(void **state)
{
    (void)state;
    struct cors_policy cors = {.any = true};
    assert_fields(&cors, "https://a.example", "",
                  "Vary: Origin\r\nAccess-Control-Allow-Origin: *\r\n" EXPOSE);
    assert_fields(&cors, NULL, "", "Vary: Origin\r\nAccess-Control-Allow-Origin: *\r\n" EXPOSE);
}

static void vary_is_not_said_twice(void **state)
{
    static const char *const said[] = {"Vary: Origin\r\n", "X: 1\r\nvary: Accept, origin\r\n",
                                       "Vary: *\r\n"};
    static const char *const unsaid[] = {"Vary: Accept\r\n", "Vary: X-Origin\r\n",
                                         "X-Vary: Origin\r\n", "Vary:\r\n"};
    struct cors_policy cors = {.n = 1, .origins = {SLICE("https://a.example")}};
    (void)state;
    for (size_t i = 0; i < 3; i++)
        assert_fields(&cors, "x", said[i], "");
    for (size_t i = 0; i < 4; i++)
        assert_fields(&cors, "x", unsaid[i], "Vary: Origin\r\n");
}

static void an_origin_is_what_browsers_send(void **state)
{
    static const char *const good[] = {"https://shop.example",
                                       "http://localhost:3000",
                                       "http://127.0.0.1:8080",
                                       "http://[::1]:8080",
                                       "app://x",
                                       "https://a-b.c_d"};
    static const char *const bad[] = {
        "",
        "*",
        "null",
        "https://",
        "https:/a",
        "shop.example",
        "https://shop.example/",
        "https://shop.example/a",
        "https://Shop.example",
        "HTTPS://shop.example",
        "https://shop.example:443",
        "http://shop.example:80",
        "http://shop.example:",
        "http://shop.example:0",
        "http://shop.example:08",
        "http://shop.example:65536",
        "https://u@shop.example",
        "https://*.shop.example",
        "http://[::1",
        "http://[]",
        "http://[::1]8080",
        "https://shop.example https://b.example",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (!cors_is_origin(slice_of(good[i])))
            fail_msg("refused: %s", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (cors_is_origin(slice_of(bad[i])))
            fail_msg("taken: %s", bad[i]);
}

static void only_access_control_lines_are_pawls_own(void **state)
{
    (void)state;
    assert_true(cors_is_own(SLICE("Access-Control-Allow-Origin")));
    assert_true(cors_is_own(SLICE("access-control-max-age")));
    assert_false(cors_is_own(SLICE("Access-Control-")));
    assert_false(cors_is_own(SLICE("X-Access-Control-Allow-Origin")));
    assert_false(cors_is_own(SLICE("Vary")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_policy_nothing_is_added),
        cmocka_unit_test(a_listed_origin_is_echoed_and_another_is_not),
        cmocka_unit_test(credentials_are_allowed_to_a_listed_origin_alone),
        cmocka_unit_test(any_origin_is_a_star),
        cmocka_unit_test(vary_is_not_said_twice),
        cmocka_unit_test(an_origin_is_what_browsers_send),
        cmocka_unit_test(only_access_control_lines_are_pawls_own),
    };
    return cmocka_run_group_tests_name("cors", tests, NULL, NULL);
}
