/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/json/json.h"
#include "base/mem.h"
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
    struct slice problem, got = undo_fill(slice_of(undo), said, &arena, &problem);
    if (!slice_eq(got, slice_of(filled)))
        fail_msg("%s: got %.*s, not %s", undo, SLICE_ARG(got), filled);
    assert_int_equal(problem.len > 0, got.len == 0);
}

static void values_are_escaped_in_a_url_and_keep_their_type_elsewhere(void **state)
{
    (void)state;
    fills_from(&response, "{\"url\":\"https://a.example/h/{response:/id}?n={response:/n}\"}",
               "{\"url\":\"https://a.example/h/a%2Fb%20%C3%A9?n=17\"}");
    fills_from(
        &response,
        "{\"json\":{\"a\":[\"{response:/n}\",\"no {response:/n}\"],\"o\":\"{response:/o}\"}," URL
        "}",
        "{\"json\":{\"a\":[17,\"no 17\"],\"o\":{\"t\":true,\"z\":null}}," URL "}");
    fills_from(&response, "{\"data\":\"{response:/n}{not}{\"," URL "}",
               "{\"data\":\"17{not}{\"," URL "}");
}

static void values_are_text_outside_of_json(void **state)
{
    (void)state;
    struct undo_response said = response;
    said.body = SLICE("{\"n\":1.50e+01,\"t\":true}");
    fills_from(&said, "{\"url\":\"https://a.example/x/{response:/n}?t={response:/t}\"}",
               "{\"url\":\"https://a.example/x/1.50e%2B01?t=true\"}");
    fills_from(&said, "{\"headers\":{\"N\":\"{response:/n}\",\"T\":\"{response:/t}\"}," URL "}",
               "{\"headers\":{\"N\":\"1.50e+01\",\"T\":\"true\"}," URL "}");
    fills_from(&said, "{\"data\":\"{response:/n}\"," URL "}", "{\"data\":\"1.50e+01\"," URL "}");
    fills_from(&said, "{\"json\":[\"{response:/n}\",\"{response:/n} x\"]," URL "}",
               "{\"json\":[15,\"1.50e+01 x\"]," URL "}");
}

static void what_the_response_does_not_have_fills_nothing(void **state)
{
    (void)state;
    fills_from(&response, "{\"url\":\"https://a.example/{response:/absent}\"}", "");
    fills_from(&response, "{\"url\":\"https://a.example/u{response:/o}\"}", "");
    fills_from(&response, "{\"url\":\"https://a.example/u{response:/o/z}\"}", "");
    fills_from(&response, "{\"json\":\"{response:/absent}\"," URL "}", "");
    fills_from(NULL, "{\"url\":\"https://a.example/u{response:/id}\"}", "");
    fills_from(NULL, "{\"url\":\"{location}\"}", "");
    fills_from(NULL, "{" URL "}", "{" URL "}");
}

/* found: R11 */
static void a_response_does_not_make_an_undo_of_something_else(void **state)
{
    static const struct {
        const char *id; /* as JSON */
        const char *url;
        const char *problem; /* NULL: it is filled */
    } rows[] = {
        {"7", "https://a.example/h/{response:/id}", NULL},
        {"\"\"", "https://a.example/h/{response:/id}", "{response:/id} leaves a segment"},
        {"\".\"", "https://a.example/h/{response:/id}", "{response:/id} makes a segment"},
        {"\"..\"", "https://a.example/h/{response:/id}/x", "makes a segment"},
        {"\"../accounts/1\"", "https://a.example/h/{response:/id}", "makes a segment"},
        {"\"a\\nb\"", "https://a.example/h/{response:/id}", "a control byte"},
        {"\"\"", "https://a.example/h?id={response:/id}", "is empty in the query"},
        {"\"b.example\"", "https://{response:/id}/h", "another host"},
        {"\".b.example\"", "https://a.example{response:/id}/h", "another host"},
        {"\"a\\nb\"", "https://a.example/h\",\"headers\":{\"X\":\"{response:/id}\"},\"data\":\"",
         "what is no header: \"X\""},
        {"\"a b\"", "https://a.example/h\",\"method\":\"{response:/id}", "is not a method"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
        char body[128], undo[256];
        struct slice problem;
        struct undo_response said = response;
        snprintf(body, sizeof body, "{\"id\":%s}", rows[i].id);
        snprintf(undo, sizeof undo, "{\"url\":\"%s\"}", rows[i].url);
        said.body = slice_of(body);
        struct slice got = undo_fill(slice_of(undo), &said, &arena, &problem);
        assert_int_equal(got.len > 0, rows[i].problem == NULL);
        if (rows[i].problem &&
            !memmem(problem.at, problem.len, rows[i].problem, strlen(rows[i].problem)))
            fail_msg("%s of %s: %.*s", undo, body, SLICE_ARG(problem));
    }
}

/* Its response's own text is no template, and may be nested as deep as any. */
static void what_is_taken_as_a_value_is_taken_as_it_is(void **state)
{
    (void)state;
    struct undo_response said = response;
    said.body = SLICE("{\"a\":[\"{response:/a}\",\"{location}\",{\"b\":[]}]}");
    fills_from(&said, "{\"json\":{\"x\":\"{response:/a}\"}," URL "}",
               "{\"json\":{\"x\":[\"{response:/a}\",\"{location}\",{\"b\":[]}]}," URL "}");
    for (int levels = JSON_DEPTH_MAX - 2; levels <= JSON_DEPTH_MAX; levels++) {
        char body[2 * JSON_DEPTH_MAX + 1] = "";
        memset(body, '[', (size_t)levels);
        memset(body + levels, ']', (size_t)levels);
        ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
        struct slice problem;
        said.body = slice_of(body);
        struct slice got =
            undo_fill(SLICE("{\"json\":[\"{response:}\"]," URL "}"), &said, &arena, &problem);
        assert_int_equal(got.len > 0, levels + 2 <= JSON_DEPTH_MAX);
        assert_int_equal(problem.len > 0, levels + 2 > JSON_DEPTH_MAX);
    }
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
        {"/holds/..", ""},
        {"/holds/%2e%2E/7", ""},
        {"/holds/..%2F7", ""},
        {"https://a.example/./h", ""},
        {"/holds/a b", ""},
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
    checks("{\"url\":\"https://{response:/host}/x\"}", "could name another host");
    checks("{" URL ",\"headers\":{\"X\":\"{response:/n}\"}}", NULL);
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
    assert_true(undo_is_marked(marked) && !undo_is_marked(SLICE("{\"url\":\"u\"}")));
    marked = undo_mark_unfilled(SLICE("{\"url\":\"u\"}"), SLICE("a \"why\""), &arena);
    assert_true(
        slice_eq(marked, SLICE("{\"unfilled\":\"a \\\"why\\\"\",\"undo\":{\"url\":\"u\"}}")));
    assert_true(undo_is_marked(marked));
    assert_int_equal(undo_unmark(marked).len, 0);
}

#ifdef PAWL_HOOKS

/* As it is kept. */
static bool is_kept(const char *undo, const char *filled)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct slice problem, got = undo_fill(slice_of(undo), &response, &arena, &problem);
    assert_true(arena.failed || (got.len > 0) == (*filled != '\0'));
    if (!arena.failed)
        got =
            *filled ? undo_mark(got, &arena) : undo_mark_unfilled(slice_of(undo), problem, &arena);
    if (arena.failed)
        return false;
    if (*filled)
        assert_true(slice_eq(undo_unmark(got), slice_of(filled)));
    else
        assert_true(got.len > 2 && got.at[got.len - 2] == '}' && undo_unmark(got).len == 0);
    return true;
}

/* found: a part of it was kept, or that it cannot be filled in, for good */
static void without_memory_nothing_is_kept(void **state)
{
    static const char *const rows[][2] = {
        {"{\"url\":\"https://a.example/h/{response:/id}/and/what/lies/behind/it/there\"}",
         "{\"url\":\"https://a.example/h/a%2Fb%20%C3%A9/and/what/lies/behind/it/there\"}"},
        {"{\"url\":\"{location}\"}", "{\"url\":\"https://a.example/holds/7\"}"},
        {"{\"data\":\"{response:/n}{not}{\"," URL "}", "{\"data\":\"17{not}{\"," URL "}"},
        {"{\"json\":{\"a\":[\"{response:/n}\"],\"o\":\"{response:/o}\"}," URL "}",
         "{\"json\":{\"a\":[17],\"o\":{\"t\":true,\"z\":null}}," URL "}"},
        {"{\"url\":\"https://a.example/{response:/absent}\"}", ""}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int fired = 1;
        for (long n = 1; fired; n++) {
            mem_fail_nth(n);
            bool kept = is_kept(rows[i][0], rows[i][1]);
            fired = mem_fail_fired();
            mem_fail_nth(0);
            assert_true(kept || fired);
        }
    }
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_escaped_in_a_url_and_keep_their_type_elsewhere),
        cmocka_unit_test(values_are_text_outside_of_json),
        cmocka_unit_test(a_response_does_not_make_an_undo_of_something_else),
        cmocka_unit_test(what_the_response_does_not_have_fills_nothing),
        cmocka_unit_test(what_is_taken_as_a_value_is_taken_as_it_is),
        cmocka_unit_test(a_location_stays_at_its_origin),
        cmocka_unit_test(an_undo_is_checked_before_anything_is_stored),
        cmocka_unit_test(what_was_filled_in_is_told_from_what_was_given),
#ifdef PAWL_HOOKS
        cmocka_unit_test(without_memory_nothing_is_kept),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
