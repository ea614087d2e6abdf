/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "client/undo.h"

#define ARENA_MAX ((size_t)16 * 1024 * 1024)
#define URL "\"url\":\"https://a.example/x\""

#define BODY "{\"id\":\"a/b \\u00e9\",\"n\":17,\"o\":{\"t\":true,\"z\":null}}"
#define FIELDS "Server: x\r\nLocation: /holds/7\r\n"
#define STEP "https://a.example/holds?x=1"

static const struct undo_response response = {.url = {STEP, sizeof STEP - 1},
                                              .fields = {FIELDS, sizeof FIELDS - 1},
                                              .body = {BODY, sizeof BODY - 1}};

static void fills_from(const struct undo_response *said, const char *undo, const char *filled)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct slice got = undo_fill(slice_of(undo), said, &arena);
    if (!slice_eq(got, slice_of(filled)))
        fail_msg("%s: got %.*s, not %s", undo, SLICE_ARG(got), filled);
}

static void values_are_escaped_in_a_url_and_keep_their_type_elsewhere(void **state)
{
    (void)state;
    fills_from(&response, "{\"url\":\"https://a.example/h/{response:/id}?n={response:/n}\"}",
               "{\"url\":\"https://a.example/h/a%2Fb%20%C3%A9?n=17\"}");
    fills_from(&response,
               "{\"json\":{\"a\":[\"{response:/n}\",\"no {response:/n}\"],\"o\":\"{response:/o}\"},"
               "\"url\":\"u\"}",
               "{\"json\":{\"a\":[17,\"no 17\"],\"o\":{\"t\":true,\"z\":null}},\"url\":\"u\"}");
    fills_from(&response, "{\"data\":\"{response:/n}{not}{\",\"url\":\"u\"}",
               "{\"data\":\"17{not}{\",\"url\":\"u\"}");
}

static void what_the_response_does_not_have_fills_nothing(void **state)
{
    (void)state;
    fills_from(&response, "{\"url\":\"{response:/absent}\"}", "");
    fills_from(&response, "{\"url\":\"u{response:/o}\"}", "");
    fills_from(&response, "{\"url\":\"u{response:/o/z}\"}", "");
    fills_from(NULL, "{\"url\":\"u{response:/id}\"}", "");
    fills_from(NULL, "{\"url\":\"{location}\"}", "");
    fills_from(NULL, "{\"url\":\"u\"}", "{\"url\":\"u\"}");
}

static void a_location_stays_at_its_origin(void **state)
{
    (void)state;
    static const struct {
        const char *location;
        const char *filled;
    } rows[] = {
        {"/holds/7", "{\"url\":\"https://a.example/holds/7/cancel\"}"},
        {"https://a.example/h", "{\"url\":\"https://a.example/h/cancel\"}"},
        {"https://A.EXAMPLE:443/h", "{\"url\":\"https://A.EXAMPLE:443/h/cancel\"}"},
        {"https://b.example/h", ""},
        {"http://a.example/h", ""},
        {"//b.example/h", ""},
        {"https://u@a.example/h", ""},
        {"holds/7", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char fields[128];
        snprintf(fields, sizeof fields, "Location: %s\r\n", rows[i].location);
        struct undo_response said = response;
        said.fields = slice_of(fields);
        fills_from(&said, "{\"url\":\"{location}/cancel\"}", rows[i].filled);
    }
}

static void checks(const char *undo, const char *problem)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct slice said = SLICE("");
    bool good = undo_check(slice_of(undo), &arena, &said);
    assert_int_equal(good, problem == NULL);
    if (problem && !memmem(said.at, said.len, problem, strlen(problem)))
        fail_msg("%s: got %.*s, not %s", undo, SLICE_ARG(said), problem);
}

static void an_undo_is_checked_before_anything_is_stored(void **state)
{
    (void)state;
    checks("{" URL "}", NULL);
    checks("{\"url\":\"{location}/cancel\",\"json\":{\"a\":\"{response:/id}\"}}", NULL);
    checks("{\"url\":\"https://a.example/{response:id}\"}", "JSON pointer");
    checks("{\"method\":\"DELETE\"}", "no \"url\"");
    checks("{\"url\":\"ftp://x\"}", "the URL");
    checks("{" URL ",\"key\":\"k\"}", "it takes url");
    checks("{" URL ",\"undo\":{" URL "}}", "it takes url");
    checks("{" URL ",\"nothing\":1}", "no member");
}

static void what_was_filled_in_is_told_from_what_was_given(void **state)
{
    (void)state;
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct slice marked = undo_mark(SLICE("{\"url\":\"u\"}"), &arena);
    assert_true(slice_eq(undo_unmark(marked), SLICE("{\"url\":\"u\"}")));
    assert_int_equal(undo_unmark(SLICE("{\"url\":\"u\"}")).len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_escaped_in_a_url_and_keep_their_type_elsewhere),
        cmocka_unit_test(what_the_response_does_not_have_fills_nothing),
        cmocka_unit_test(a_location_stays_at_its_origin),
        cmocka_unit_test(an_undo_is_checked_before_anything_is_stored),
        cmocka_unit_test(what_was_filled_in_is_told_from_what_was_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
