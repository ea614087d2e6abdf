/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json/json.h"
#include "base/json/json_scan.h"
#include "base/mem.h"
#include "base/text/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define ROOM (64U << 20)

static enum json_error parse_error(struct slice text, size_t *ret_offset)
{
    ARENA_AUTO struct arena arena = arena_make(ROOM);
    struct json *root;
    return json_parse(&arena, text, &root, ret_offset);
}

static const struct json *parse(struct arena *arena, const char *text)
{
    struct json *root;
    assert_int_equal(json_parse(arena, slice_of(text), &root, NULL), JSON_OK);
    return root;
}

static void expect_text(struct slice got, struct slice wanted)
{
    assert_int_equal(got.len, wanted.len);
    assert_memory_equal(got.at, wanted.at, wanted.len);
}

static void every_kind_of_value_is_accepted(void **state)
{
    static const char *const texts[] = {
        "null",
        "true",
        "false",
        "0",
        "-0",
        "123",
        "-1.5",
        "1e5",
        "1E+5",
        "0.1e-2",
        "\"\"",
        "\"a\"",
        "[]",
        "{}",
        " [ ] ",
        "\t\r\n {\"a\" : 1 , \"b\":[1 ,2]} \n",
        "[[],{},\"\",null]",
        "\"\\u0000\"",
        "\"\x7f\"",
        "\"\xEF\xBF\xBF\"",
        "\"\xF4\x8F\xBF\xBF\"",
        "{\"\":0}",
        "\"\\ud834\\udd1e\"",
        "[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]",
        "\"\xE2\x80\xA8\"",
        "{\"a\":{\"a\":{\"a\":1}},\"A\":2}",
        "1E400",
        "[1,[2,[3]],4]",
        "\"\xEF\xBB\xBF\"",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_int_equal(parse_error(slice_of(texts[i]), NULL), JSON_OK);
}

static const char *const not_json[] = {
    "",
    " ",
    "nul",
    "nulll",
    "True",
    "NaN",
    "Infinity",
    "-",
    "+1",
    ".5",
    "1.",
    "01",
    "-01",
    "1e",
    "1e+",
    "0x10",
    "1_000",
    "--1",
    "\"",
    "\"\\",
    "\"\\x\"",
    "\"\\u12\"",
    "\"\\u12G4\"",
    "\"\\u 123\"",
    "'a'",
    "\"a\nb\"",
    "\"\t\"",
    "[",
    "]",
    "[1",
    "[1,",
    "[1,]",
    "[,1]",
    "[1 2]",
    "[1,,2]",
    "{",
    "}",
    "{\"a\"",
    "{\"a\":",
    "{\"a\":1",
    "{\"a\":1,",
    "{\"a\":1,}",
    "{a:1}",
    "{\"a\" 1}",
    "{1:1}",
    "{,}",
    "{\"a\":1]",
    "[1}",
    "[1]]",
    "1 2",
    "{}{}",
    "// c\n1",
    "/**/1",
    "1 //",
    "\xEF\xBB\xBF{}",
    "\xC2\xA0[]",
    "\f1",
    "[1]\v",
    "{\"a\":1,\"b\"}",
    "[\"a\",\n4\n,1,",
    "{\"a\":\"b\"}#",
    "\xFF",
};

static void what_is_not_known_is_written_as_null(void **state)
{
    BUF_AUTO struct buf buf = buf_make(1000);
    (void)state;
    buf_add_char(&buf, '{');
    json_add_time(&buf, "a", 1);
    json_add_time(&buf, "b", 0);
    json_add_time(&buf, "c", INT64_MAX);
    json_open(&buf, "d", '[');
    json_next_item(&buf);
    buf_add_char(&buf, '1');
    json_next_item(&buf);
    buf_add_str(&buf, "2]");
    json_add_known_text(&buf, "e", SLICE(""));
    json_add_known_text(&buf, "f", SLICE("x"));
    json_add_known_i64(&buf, "g", 0);
    json_add_known_i64(&buf, "h", -1);
    assert_true(
        slice_eq(buf_slice(&buf), SLICE("{\"a\":\"1970-01-01T00:00:00.000Z\",\"b\":null,\"c\":null,"
                                        "\"d\":[1,2],\"e\":null,\"f\":\"x\",\"g\":null,\"h\":-1")));
}

static void what_is_not_json_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(not_json) / sizeof(not_json[0]); i++) {
        enum json_error error = parse_error(slice_of(not_json[i]), NULL);
        if (error != JSON_SYNTAX && error != JSON_TRAILING)
            fail_msg("`%s` gave %d", not_json[i], error);
    }
    assert_int_equal(parse_error(slice_make("1\0", 2), NULL), JSON_TRAILING);
    assert_int_equal(parse_error(slice_make("[\0]", 3), NULL), JSON_SYNTAX);
}

static void invalid_utf8_is_told_from_bad_syntax(void **state)
{
    static const char *const strings[] = {
        "\x80",
        "\xBF",
        "\xC0\x80",
        "\xC1\xBF",
        "\xC2",
        "\xC2 ",
        "\xE0\x80\x80",
        "\xE0\x9F\xBF",
        "\xED\xA0\x80",
        "\xED\xBF\xBF",
        "\xE2\x82",
        "\xE2\x28\xA1",
        "\xF0\x80\x80\x80",
        "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80",
        "\xF5\x80\x80\x80",
        "\xF8\x88\x80\x80\x80",
        "\xFE",
        "\xFF",
        "\xF0\x9F\x98",
        "\xC3\xC3\xA9",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
        char text[32];
        snprintf(text, sizeof(text), "[\"%s\"]", strings[i]);
        assert_int_equal(parse_error(slice_of(text), NULL), JSON_UTF8);
    }
}

static void lone_surrogates_are_refused(void **state)
{
    static const char *const texts[] = {
        "\"\\ud800\"",        "\"\\uDFFF\"",        "\"\\udc00\\ud800\"",
        "\"\\ud800\\ud800\"", "\"\\ud800\\u0041\"", "\"\\ud800a\"",
        "\"a\\udbff\"",       "{\"\\ud800\":1}",    "\"\\ud800\\n\"",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_int_equal(parse_error(slice_of(texts[i]), NULL), JSON_SURROGATE);
}

static void duplicate_names_are_refused_however_they_are_escaped(void **state)
{
    (void)state;
    assert_int_equal(parse_error(SLICE("{\"a\":1,\"b\":2,\"a\":1}"), NULL), JSON_DUPLICATE);
    assert_int_equal(parse_error(SLICE("{\"a\":1,\"\\u0061\":2}"), NULL), JSON_DUPLICATE);
    assert_int_equal(parse_error(SLICE("[{\"x\":{\"\":1,\"\":2}}]"), NULL), JSON_DUPLICATE);
    assert_int_equal(parse_error(SLICE("{\"/\":1,\"\\/\":2}"), NULL), JSON_DUPLICATE);
    assert_int_equal(parse_error(SLICE("{\"a\":1,\"A\":2,\"a \":3}"), NULL), JSON_OK);
    /* NFC and NFD of the same letter are two names. */
    assert_int_equal(parse_error(SLICE("{\"\xC3\xA9\":1,\"e\xCC\x81\":2}"), NULL), JSON_OK);
}

/* An object of `n` members, the last of them named like member `repeated`. */
static enum json_error parse_many(size_t n, size_t repeated)
{
    BUF_AUTO struct buf buf = buf_make(ROOM);
    for (size_t i = 0; i < n; i++) {
        size_t number = i == n - 1 ? repeated : i;
        buf_printf(&buf, "%s\"aaaaaaaaaaaaaaaaaaaaaaaa%zu\":%zu", i ? "," : "{", number, i);
    }
    buf_add_char(&buf, '}');
    return parse_error(buf_slice(&buf), NULL);
}

static void one_duplicate_among_many_members_is_found(void **state)
{
    (void)state;
    for (size_t n = 2; n < 40; n++) {
        assert_int_equal(parse_many(n, n - 1), JSON_OK);
        for (size_t repeated = 0; repeated + 1 < n; repeated++)
            assert_int_equal(parse_many(n, repeated), JSON_DUPLICATE);
    }
    assert_int_equal(parse_many(100000, 99999), JSON_OK);
    assert_int_equal(parse_many(100000, 31415), JSON_DUPLICATE);
}

#ifdef PAWL_HOOKS

/* found: not where it wanted memory of its own, to compare many names */
static void without_memory_the_arena_has_failed(void **state)
{
    static const char text[] = "{\"a\":1,\"b\":[],\"c\":\"\\n\",\"d\":4,\"e\":5,\"f\":6,\"g\":7,"
                               "\"h\":8,\"i\":9,\"j\":{\"k\":{}}}";
    (void)state;
    int fired = 1;
    for (long n = 1; fired; n++) {
        ARENA_AUTO struct arena arena = arena_make(1 << 20);
        struct json *root;
        mem_fail_nth(n);
        enum json_error error = json_parse(&arena, slice_of(text), &root, NULL);
        fired = mem_fail_fired();
        mem_fail_nth(0);
        assert_int_equal(error, fired ? JSON_NO_MEMORY : JSON_OK);
        assert_true(arena.failed == (bool)fired && (fired || n > 2));
    }
}

#endif

static void broken_syntax_wins_over_a_refusal_before_it(void **state)
{
    (void)state;
    assert_int_equal(parse_error(SLICE("[{\"a\":1,\"a\":2},"), NULL), JSON_SYNTAX);
    assert_int_equal(parse_error(SLICE("[\"\\ud800\"}"), NULL), JSON_SYNTAX);
    assert_int_equal(parse_error(SLICE("1e99999 x"), NULL), JSON_TRAILING);
    assert_int_equal(parse_error(SLICE("1e99999"), NULL), JSON_RANGE);
    assert_true(json_error_is_refusal(JSON_RANGE));
    assert_false(json_error_is_refusal(JSON_UTF8));
}

static enum json_error parse_nested(const char *open, const char *close, size_t depth)
{
    BUF_AUTO struct buf buf = buf_make(ROOM);
    for (size_t i = 0; i < depth; i++)
        buf_add_str(&buf, open);
    buf_add_char(&buf, '1');
    for (size_t i = 0; i < depth; i++)
        buf_add_str(&buf, close);
    return parse_error(buf_slice(&buf), NULL);
}

static void nesting_ends_at_200(void **state)
{
    (void)state;
    assert_int_equal(parse_nested("[", "]", 200), JSON_OK);
    assert_int_equal(parse_nested("[", "]", 201), JSON_DEPTH);
    assert_int_equal(parse_nested("{\"a\":", "}", 200), JSON_OK);
    assert_int_equal(parse_nested("{\"a\":", "}", 201), JSON_DEPTH);
    assert_int_equal(parse_nested("[", "", 100000), JSON_DEPTH);
    assert_int_equal(parse_nested("[[],", "]", 199), JSON_OK);
}

static void the_offset_names_the_byte(void **state)
{
    size_t offset = 0;
    (void)state;
    parse_error(SLICE("[1,x]"), &offset);
    assert_int_equal(offset, 3);
    parse_error(SLICE("{\"ab\":\"\\ud800\"}"), &offset);
    assert_int_equal(offset, 7);
    parse_error(SLICE("[1] 2"), &offset);
    assert_int_equal(offset, 4);
    parse_error(SLICE("\"a\xFF\""), &offset);
    assert_int_equal(offset, 2);
}

static void the_tree_keeps_order_literals_and_counts(void **state)
{
    ARENA_AUTO struct arena arena = arena_make(ROOM);
    (void)state;
    const struct json *root = parse(&arena, "{\"b\":[1.50,-0],\"a\":\"x\\u20acy\",\"c\":{}}");
    assert_int_equal(root->type, JSON_OBJECT);
    assert_int_equal(root->count, 3);
    expect_text(root->first->name, SLICE("b"));
    assert_int_equal(root->first->count, 2);
    expect_text(root->first->first->text, SLICE("1.50"));
    expect_text(root->first->first->next->text, SLICE("-0"));
    expect_text(root->first->next->text, SLICE("x\xE2\x82\xACy"));
    assert_int_equal(root->first->next->next->type, JSON_OBJECT);
    assert_null(root->first->next->next->first);
    assert_null(root->first->next->next->next);
}

static void escapes_decode_to_their_characters(void **state)
{
    ARENA_AUTO struct arena arena = arena_make(ROOM);
    (void)state;
    const struct json *root =
        parse(&arena, "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\u007f\\u00e9\\u20AC\\uD834\\uDD1E\"");
    expect_text(root->text, SLICE("\"\\/\b\f\n\r\t\0\x7f\xC3\xA9\xE2\x82\xAC\xF0\x9D\x84\x9E"));
}

static void an_arena_too_small_is_no_memory(void **state)
{
    ARENA_AUTO struct arena arena = arena_make(300);
    struct json *root = NULL;
    (void)state;
    assert_int_equal(json_parse(&arena, SLICE("[1,2,3,4,5,6,7,8,9]"), &root, NULL), JSON_NO_MEMORY);
    assert_null(root);
}

static void the_pointers_of_rfc_6901_name_their_values(void **state)
{
    static const struct {
        const char *pointer;
        const char *literal;
    } cases[] = {{"/foo/0", "100"}, {"/foo/1", "101"}, {"/", "0"},     {"/a~1b", "1"},
                 {"/c%d", "2"},     {"/e^f", "3"},     {"/g|h", "4"},  {"/i\\j", "5"},
                 {"/k\"l", "6"},    {"/ ", "7"},       {"/m~0n", "8"}, {"/o/p/", "9"},
                 {"/~01", "10"}};
    ARENA_AUTO struct arena arena = arena_make(ROOM);
    (void)state;
    const struct json *root =
        parse(&arena, "{\"foo\":[100,101],\"\":0,\"a/b\":1,\"c%d\":2,\"e^f\":3,\"g|h\":4,"
                      "\"i\\\\j\":5,\"k\\\"l\":6,\" \":7,\"m~n\":8,\"o\":{\"p\":{\"\":9}},"
                      "\"~1\":10}");
    assert_ptr_equal(json_at(root, SLICE("")), root);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct json *value = json_at(root, slice_of(cases[i].pointer));
        assert_non_null(value);
        expect_text(value->text, slice_of(cases[i].literal));
    }
}

static void pointers_to_nothing_name_nothing(void **state)
{
    static const char *const pointers[] = {"/x",
                                           "/foo/2",
                                           "/foo/-",
                                           "/foo/00",
                                           "/foo/01",
                                           "/foo/+1",
                                           "/foo/",
                                           "/foo/0/a",
                                           "/s/0",
                                           "foo",
                                           "/foo/99999999999999999999",
                                           "/fo",
                                           "/fooo",
                                           "/empty/0"};
    ARENA_AUTO struct arena arena = arena_make(ROOM);
    (void)state;
    const struct json *root = parse(&arena, "{\"foo\":[100,101],\"s\":\"str\",\"empty\":[]}");
    for (size_t i = 0; i < sizeof(pointers) / sizeof(pointers[0]); i++)
        assert_null(json_at(root, slice_of(pointers[i])));
}

static void pointers_are_checked_for_their_form(void **state)
{
    (void)state;
    assert_true(json_pointer_valid(SLICE("")));
    assert_true(json_pointer_valid(SLICE("/")));
    assert_true(json_pointer_valid(SLICE("/a~0~1/\xC3\xA9")));
    assert_false(json_pointer_valid(SLICE("a")));
    assert_false(json_pointer_valid(SLICE("#/a")));
    assert_false(json_pointer_valid(SLICE("/a~")));
    assert_false(json_pointer_valid(SLICE("/a~2")));
    assert_false(json_pointer_valid(SLICE("/\xFF")));
}

static void members_sort_by_utf16_code_units(void **state)
{
    /* RFC 8785 3.2.3, and U+FB33 (one unit) against U+1F600 (a surrogate pair). */
    static const char *const sorted[] = {"",
                                         "\r",
                                         "1",
                                         "10",
                                         "\xC2\x80",
                                         "\xC3\xB6",
                                         "\xE2\x82\xAC",
                                         "\xED\x9F\xBF",
                                         "\xF0\x90\x80\x80",
                                         "\xF0\x9F\x98\x80",
                                         "\xF4\x8F\xBF\xBF",
                                         "\xEE\x80\x80",
                                         "\xEF\xAC\xB3",
                                         "\xEF\xBF\xBF"};
    size_t n = sizeof(sorted) / sizeof(sorted[0]);
    (void)state;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            int order = utf8_compare_as_utf16(slice_of(sorted[i]), slice_of(sorted[j]));
            assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
        }
    }
}

static void written_strings_escape_what_they_must(void **state)
{
    BUF_AUTO struct buf buf = buf_make(1024);
    (void)state;
    json_add_string(&buf, SLICE("a\"\\\b\t\n\f\r\x01\x1f\x7f\xC3\xA9\xFF/"));
    expect_text(buf_slice(&buf), SLICE("\"a\\\"\\\\\\b\\t\\n\\f\\r\\u0001\\u001f\\u007f\xC3\xA9"
                                       "\\ufffd/\""));
    buf_clear(&buf);
    json_add_canonical_string(&buf, SLICE("\x0f\n\x7f\xE2\x82\xAC/"));
    expect_text(buf_slice(&buf), SLICE("\"\\u000f\\n\x7f\xE2\x82\xAC/\""));
}

/* found: A-L17 */
static void what_a_terminal_obeys_or_shows_in_another_order_is_escaped(void **state)
{
    const struct {
        struct slice text, written;
    } cases[] = {
        {SLICE("\xC2\x9B"
               "31m"),
         SLICE("\"\\u009b31m\"")},
        {SLICE("\xC2\x80\xC2\x9F\xC2\xA0"), SLICE("\"\\u0080\\u009f\xC2\xA0\"")},
        {SLICE("\xD8\x9C"), SLICE("\"\\u061c\"")},
        {SLICE("\xE2\x80\x8D\xE2\x80\x8E\xE2\x80\x8F"), SLICE("\"\xE2\x80\x8D\\u200e\\u200f\"")},
        {SLICE("\xE2\x80\xA7\xE2\x80\xA8\xE2\x80\xAE\xE2\x80\xAF"),
         SLICE("\"\xE2\x80\xA7\\u2028\\u202e\xE2\x80\xAF\"")},
        {SLICE("\xE2\x81\xA6\xE2\x81\xA9\xE2\x81\xAA"), SLICE("\"\\u2066\\u2069\xE2\x81\xAA\"")},
        {SLICE("\xF0\x9F\x98\x80"), SLICE("\"\xF0\x9F\x98\x80\"")},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        BUF_AUTO struct buf buf = buf_make(1024);
        json_add_string(&buf, cases[i].text);
        expect_text(buf_slice(&buf), cases[i].written);
    }
}

static void names_bring_their_commas(void **state)
{
    BUF_AUTO struct buf buf = buf_make(1024);
    (void)state;
    buf_add_char(&buf, '{');
    json_add_name(&buf, "a");
    buf_add_char(&buf, '1');
    json_add_name(&buf, "b");
    buf_add_str(&buf, "{}}");
    expect_text(buf_slice(&buf), SLICE("{\"a\":1,\"b\":{}}"));
}

/* Each byte at each place of a text, within words of eight and behind them. */
static void every_byte_ends_a_run_or_not_wherever_it_stands(void **state)
{
    char text[] = "abcdefghijklmnopqrs";
    const size_t len = sizeof text - 1;
    (void)state;
    for (size_t at = 0; at < len; at++) {
        char before = text[at];
        for (int byte = 0; byte < 256; byte++) {
            bool escaped = byte < 0x20 || byte == '"' || byte == '\\';
            text[at] = (char)byte;
            struct slice s = slice_make(text, len);
            assert_int_equal(json_unescaped_length(s), escaped ? at : len);
            assert_int_equal(json_plain_length(s), escaped || byte >= 0x7F ? at : len);
        }
        text[at] = before;
    }
}

/* The runs between escapes, and what follows the last one. */
static void canonical_strings_keep_all_bytes_about_an_escape(void **state)
{
    BUF_AUTO struct buf buf = buf_make(4096);
    (void)state;
    json_add_canonical_string(&buf, SLICE("\"eight by\xC3\xA9te\\\\\n0123456789\x7F\""));
    expect_text(buf_slice(&buf), SLICE("\"\\\"eight by\xC3\xA9te\\\\\\\\\\n0123456789\x7F\\\"\""));
}

static void a_text_that_ends_inside_itself_is_cut(void **state)
{
    static const char *const whole[] = {
        "{\"a\":[1,-2.5e3,true,null,false,\"x\\\"\\u00e9{\"],\"b\":{}}",
        " [[], [{}]]",
        "\"a\\\\\"",
    };
    static const char *const others[] = {"",   " ",   "ok",     "<html>{", "{oops",
                                         "12", "[1}", "{\"a\n", "{} {",    "tru"};
    (void)state;
    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
        struct slice text = slice_of(whole[i]);
        assert_false(json_is_cut(text));
        size_t starts = *whole[i] == ' ' ? 2 : 1;
        for (size_t n = starts; n < text.len; n++)
            if (!json_is_cut(slice_make(text.at, n)))
                fail_msg("%.*s", (int)n, text.at);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (json_is_cut(slice_of(others[i])))
            fail_msg("%s", others[i]);
}

static void a_text_too_deep_is_not_said_to_be_cut(void **state)
{
    char text[JSON_DEPTH_MAX + 1];
    (void)state;
    memset(text, '[', sizeof text);
    assert_true(json_is_cut(slice_make(text, JSON_DEPTH_MAX)));
    assert_false(json_is_cut(slice_make(text, JSON_DEPTH_MAX + 1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_value_is_accepted),
        cmocka_unit_test(what_is_not_known_is_written_as_null),
        cmocka_unit_test(what_is_not_json_is_refused),
        cmocka_unit_test(invalid_utf8_is_told_from_bad_syntax),
        cmocka_unit_test(lone_surrogates_are_refused),
        cmocka_unit_test(duplicate_names_are_refused_however_they_are_escaped),
        cmocka_unit_test(one_duplicate_among_many_members_is_found),
#ifdef PAWL_HOOKS
        cmocka_unit_test(without_memory_the_arena_has_failed),
#endif
        cmocka_unit_test(broken_syntax_wins_over_a_refusal_before_it),
        cmocka_unit_test(nesting_ends_at_200),
        cmocka_unit_test(the_offset_names_the_byte),
        cmocka_unit_test(the_tree_keeps_order_literals_and_counts),
        cmocka_unit_test(escapes_decode_to_their_characters),
        cmocka_unit_test(an_arena_too_small_is_no_memory),
        cmocka_unit_test(the_pointers_of_rfc_6901_name_their_values),
        cmocka_unit_test(pointers_to_nothing_name_nothing),
        cmocka_unit_test(pointers_are_checked_for_their_form),
        cmocka_unit_test(members_sort_by_utf16_code_units),
        cmocka_unit_test(written_strings_escape_what_they_must),
        cmocka_unit_test(what_a_terminal_obeys_or_shows_in_another_order_is_escaped),
        cmocka_unit_test(names_bring_their_commas),
        cmocka_unit_test(every_byte_ends_a_run_or_not_wherever_it_stands),
        cmocka_unit_test(canonical_strings_keep_all_bytes_about_an_escape),
        cmocka_unit_test(a_text_that_ends_inside_itself_is_cut),
        cmocka_unit_test(a_text_too_deep_is_not_said_to_be_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
