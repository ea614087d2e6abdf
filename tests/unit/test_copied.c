/* SPDX-License-Identifier: Apache-2.0 */
/* copied: a kept response with members of the request that asks again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "core/copied.h"
#include "core/outcome.h"

#define ROOM ((size_t)64 * 1024)

/* What comes of `response` for `request`; empty: it stays as it is. */
static struct buf copied(const char *pointers, struct slice request, struct slice response)
{
    ARENA_AUTO struct arena arena = arena_make(ROOM * 64);
    struct buf buf = buf_make(ROOM);
    struct copied_members members = {0};
    struct slice rest = slice_of(pointers), pointer;
    struct json *asked, *kept;
    while (slice_next(&rest, ' ', &pointer))
        members.at[members.n++] = pointer;
    assert_int_equal(json_parse(&arena, request, &asked, NULL), JSON_OK);
    assert_int_equal(json_parse(&arena, response, &kept, NULL), JSON_OK);
    bool made = copied_write(&members, &(struct copied_text){request, asked},
                             &(struct copied_text){response, kept}, &buf);
    assert_true(buf_ok(&buf) && made == (buf.len > 0));
    return buf;
}

static void a_member_is_written_as_the_request_has_it_and_all_else_stays(void **state)
{
    static const struct {
        const char *pointers;
        const char *request;
        const char *response;
        const char *wanted; /* NULL: as it is */
    } cases[] = {
        {"/id", "{\"id\":2}", "{\"jsonrpc\":\"2.0\",\"result\":{\"id\":1},\"id\":1}",
         "{\"jsonrpc\":\"2.0\",\"result\":{\"id\":1},\"id\":2}"},
        {"/id", "{\"id\":2}", " {\t\"id\" :\r\n1 , \"a\" : [ 1 ] }\n",
         " {\t\"id\" :\r\n2 , \"a\" : [ 1 ] }\n"},
        {"/id", "{\"id\": 1.50e+0}", "{\"id\":1}", "{\"id\":1.50e+0}"},
        {"/id", "{\"id\":12345678901234567890123}", "{\"id\":\"x\"}",
         "{\"id\":12345678901234567890123}"},
        {"/id", "{\"id\":\"a\\\"\\u00e9\\/\\\\\"}", "{\"id\":\"\\\\\\\"\",\"b\":\"\\\"\"}",
         "{\"id\":\"a\\\"\\u00e9\\/\\\\\",\"b\":\"\\\"\"}"},
        {"/id", "{\"id\":\"\"}", "{\"id\":false}", "{\"id\":\"\"}"},
        {"/id", "{\"id\":true}", "{\"id\":null}", "{\"id\":true}"},
        {"/id", "{\"id\":null}", "{\"id\":-1}", "{\"id\":null}"},
        {"/id", "{\"\\u0069d\":7}", "{\"i\\u0064\":\"\xc3\xa9\"}", "{\"i\\u0064\":7}"},
        {"/a~1b/m~0n", "{\"a/b\":{\"m~n\":1}}", "{\"a/b\":{\"m~n\":2}}", "{\"a/b\":{\"m~n\":1}}"},
        {"/z /a", "{\"a\":1,\"z\":26}", "{\"a\":\"\",\"m\":0,\"z\":\"\"}",
         "{\"a\":1,\"m\":0,\"z\":26}"},
        {"/id /id /trace", "{\"id\":2}", "{\"id\":1,\"trace\":5}", "{\"id\":2,\"trace\":5}"},
        {"/", "{\"\":2}", "{\"\":1}", "{\"\":2}"},
        {"/0", "{\"0\":2}", "{\"0\":1}", "{\"0\":2}"},
        {"/id", "{\"id\":1}", "{\"id\":1}", NULL},
        {"/id", "{}", "{\"id\":1}", NULL},
        {"/id", "{\"id\":1}", "{\"result\":{\"id\":2}}", NULL},
        {"/id", "{\"id\":{}}", "{\"id\":1}", NULL},
        {"/id", "{\"id\":1}", "{\"id\":[1]}", NULL},
        {"/id", "[1]", "{\"id\":1}", NULL},
        {"/id", "{\"id\":1}", "3", NULL},
        {"/0", "[2]", "[1]", NULL},
        {"/0/id", "[{\"id\":2}]", "[{\"id\":1}]", NULL},
        {"/a/0/id", "{\"a\":[{\"id\":2}]}", "{\"a\":{\"0\":{\"id\":1}}}", NULL},
        {"/id/x", "{\"id\":1}", "{\"id\":2}", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct slice response = slice_of(cases[i].response);
        BUF_AUTO struct buf buf = copied(cases[i].pointers, slice_of(cases[i].request), response);
        buf_add_char(&buf, '\0');
        assert_string_equal(buf.at, cases[i].wanted ? cases[i].wanted : "");
    }
}

static void a_value_of_more_than_1_kib_is_not_copied(void **state)
{
    (void)state;
    for (size_t len = COPIED_VALUE_MAX; len <= COPIED_VALUE_MAX + 1; len++) {
        BUF_AUTO struct buf request = buf_make(ROOM);
        buf_add_str(&request, "{\"id\":\"");
        for (size_t i = 2; i < len; i++)
            buf_add_char(&request, 'x');
        buf_add_str(&request, "\"}");
        BUF_AUTO struct buf buf = copied("/id", buf_slice(&request), SLICE("{\"id\":1}"));
        assert_true(
            slice_eq(buf_slice(&buf), len == COPIED_VALUE_MAX ? buf_slice(&request) : SLICE("")));
    }
}

/* Every value over every other one, with every neighbour before and behind. */
static void the_bytes_before_and_behind_are_what_they_were(void **state)
{
    static const char *const values[] = {
        "0",    "-0.0e-7", "\"\"", "\"\\\\\"",         "\"\\\"}\"", "\"\\ud83d\\ude00,\"",
        "true", "false",   "null", "\"12345678\\\"\"", "\"[{\"",    "1"};
    static const char *const others[] = {"", "\"\\\"id\\\":\":9,", "\"x\":{\"id\":[3]} ,\n",
                                         "\"\xf0\x9f\x98\x80\":\"\\u0000\","};
    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        for (size_t j = 0; j < sizeof values / sizeof *values; j++)
            for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
                char request[64], response[256], wanted[256];
                if (i == j)
                    continue;
                snprintf(request, sizeof request, "{\"id\" : %s}", values[i]);
                snprintf(response, sizeof response, "{%s\"id\":%s , \"e\":\"\\\"\"}", others[k],
                         values[j]);
                snprintf(wanted, sizeof wanted, "{%s\"id\":%s , \"e\":\"\\\"\"}", others[k],
                         values[i]);
                BUF_AUTO struct buf buf = copied("/id", slice_of(request), slice_of(response));
                buf_add_char(&buf, '\0');
                assert_string_equal(buf.at, wanted);
            }
}

static void lines_about_the_bytes_are_not_those_of_another_body(void **state)
{
    (void)state;
    BUF_AUTO struct buf buf = buf_make(ROOM);
    outcome_keep_others(SLICE("Content-Type: application/json\r\netag: \"a:b\"\r\nX-Digest: 1\r\n"
                              "Digest: sha-256=x\r\nContent-MD5: x\r\nContent-Digest: sha=:x:\r\n"
                              "REPR-DIGEST: sha=:x:\r\nSignature: s=:x:\r\nLocation: /r:1\r\n"
                              "Signature-Input: s=()\r\nX-Empty: \r\n"),
                        &buf);
    assert_true(slice_eq(buf_slice(&buf), SLICE("Content-Type: application/json\r\nX-Digest: 1\r\n"
                                                "Location: /r:1\r\nX-Empty: \r\n")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_is_written_as_the_request_has_it_and_all_else_stays),
        cmocka_unit_test(a_value_of_more_than_1_kib_is_not_copied),
        cmocka_unit_test(the_bytes_before_and_behind_are_what_they_were),
        cmocka_unit_test(lines_about_the_bytes_are_not_those_of_another_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
