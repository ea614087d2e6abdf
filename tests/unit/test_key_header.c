/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core/request/key_header.h"
#include "core/template/template.h"

#define FORMAT_MAX ((size_t)512 * 1024)

static struct slice none;

static enum key_header read_value(struct arena *arena, const char *value, enum key_syntax syntax,
                                  struct slice *ret_key)
{
    return key_value_read(slice_of(value), syntax, arena, ret_key);
}

struct value_row {
    const char *value;
    const char *lenient; /* the key; NULL: `refusal` */
    const char *strict;
    enum key_header refusal;
};

static void check_rows(const struct value_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ARENA_AUTO struct arena arena = arena_make(FORMAT_MAX);
        for (int strict = 0; strict < 2; strict++) {
            const char *expected = strict ? rows[i].strict : rows[i].lenient;
            struct slice key = {NULL, 0};
            enum key_header result = read_value(&arena, rows[i].value, strict, &key);
            if (!expected != (result != KEY_HEADER_OK) ||
                (!rows[i].lenient && result != rows[i].refusal) ||
                (expected && !slice_eq(key, slice_of(expected))))
                fail_msg("value <%s> strict %d: result %d, key <%.*s>", rows[i].value, strict,
                         result, SLICE_ARG(key));
        }
    }
}

static void a_string_and_a_bare_value_give_one_key(void **state)
{
    static const struct value_row rows[] = {
        {"\"k\"", "k", "k", 0},
        {"k", "k", NULL, 0},
        {"  \"k\"  ", "k", "k", 0},
        {"  k  ", "k", NULL, 0},
        {"stripe-node-retry-0af1", "stripe-node-retry-0af1", NULL, 0},
        {"'k'", "'k'", NULL, 0},
        {"k;a=1", "k;a=1", NULL, 0},
        {"a\\b", "a\\b", NULL, 0},
        {":a=:", ":a=:", NULL, 0},
        {"?1", "?1", NULL, 0},
        {"~!#$%&'()*+-./:;<=>?@[]^_`{|}", "~!#$%&'()*+-./:;<=>?@[]^_`{|}", NULL, 0},
    };
    (void)state;
    check_rows(rows, sizeof(rows) / sizeof(rows[0]));
}

static void a_string_may_hold_spaces_commas_and_escapes(void **state)
{
    static const struct value_row rows[] = {
        {"\"a b\"", "a b", "a b", 0},        {"\" \"", " ", " ", 0},
        {"\"a,b\"", "a,b", "a,b", 0},        {"\"foo, bar\"", "foo, bar", "foo, bar", 0},
        {"\"a\\\"b\"", "a\"b", "a\"b", 0},   {"\"a\\\\b\"", "a\\b", "a\\b", 0},
        {"\"\\\\\\\"\"", "\\\"", "\\\"", 0}, {"\"it's\"", "it's", "it's", 0},
    };
    (void)state;
    check_rows(rows, sizeof(rows) / sizeof(rows[0]));
}

static void parameters_of_every_type_are_ignored(void **state)
{
    static const struct value_row rows[] = {
        {"\"k\";a=1", "k", "k", 0},           {"\"k\";a", "k", "k", 0},
        {"\"k\"; a=1;  b=2", "k", "k", 0},    {"\"k\";a=-1.5", "k", "k", 0},
        {"\"k\";a=\"x;\\\"y\"", "k", "k", 0}, {"\"k\";a=tok/en:*", "k", "k", 0},
        {"\"k\";a=:aGk=:", "k", "k", 0},      {"\"k\";a=?0;b=?1", "k", "k", 0},
        {"\"k\";a=@1659578233", "k", "k", 0}, {"\"k\";a=%\"f%c3%bc\"", "k", "k", 0},
        {"\"k\";*a_-.*9=1", "k", "k", 0},
    };
    (void)state;
    check_rows(rows, sizeof(rows) / sizeof(rows[0]));
}

static void whatever_else_is_malformed(void **state)
{
    static const char *const values[] = {
        "\"k",
        "k\"",
        "\"k\" x",
        "\"k\"x",
        "\"k\", \"l\"",
        "a,b",
        "a b",
        "a\tb",
        "\"a\tb\"",
        "\"a\nb\"",
        "\"a\\nb\"",
        "\"a\\\"",
        "\"\xC3\xBC\"",
        "\xC3\xBC",
        "a\x7F",
        "\"a\x7F\"",
        "\"k\";",
        "\"k\";A=1",
        "\"k\";a=",
        "\"k\";a=\"",
        "\"k\" ;a=1",
        "\"k\";a =1",
        "\"k\";a= 1",
        "\"k\";a=1.",
        "\"k\";a=.1",
        "\"k\";a=?2",
        "\"k\";a=:x",
        "\"k\";a=@1.5",
        "\"k\";a=%\"%C3\"",
        "\"k\";a=%\"%ff\"",
        "\"k\";a=%\"x",
        "\"k\";a=1.2345",
        "\"k\";a=1234567890123456",
        "\"k\";a=%x",
        "\t\"k\"",
        "\"k\";a=%\"%c3\"",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        struct value_row row = {values[i], NULL, NULL, KEY_HEADER_MALFORMED};
        check_rows(&row, 1);
    }
}

static void a_nul_inside_is_malformed(void **state)
{
    ARENA_AUTO struct arena arena = arena_make(FORMAT_MAX);
    struct slice key;
    (void)state;
    assert_int_equal(key_value_read(SLICE("a\0b"), KEY_SYNTAX_LENIENT, &arena, &key),
                     KEY_HEADER_MALFORMED);
    assert_int_equal(key_value_read(SLICE("\"a\0b\""), KEY_SYNTAX_LENIENT, &arena, &key),
                     KEY_HEADER_MALFORMED);
}

static void an_empty_key_is_told_from_a_malformed_one(void **state)
{
    static const struct value_row rows[] = {
        {"", NULL, NULL, KEY_HEADER_EMPTY},
        {"  ", NULL, NULL, KEY_HEADER_EMPTY},
        {"\"\"", NULL, NULL, KEY_HEADER_EMPTY},
        {"\"\";a=1", NULL, NULL, KEY_HEADER_EMPTY},
    };
    (void)state;
    check_rows(rows, sizeof(rows) / sizeof(rows[0]));
}

/* `quotes` and `escapes` lengthen the field, not the key. */
static enum key_header read_sized(size_t n, bool quoted, bool escaped)
{
    ARENA_AUTO struct arena arena = arena_make(FORMAT_MAX);
    BUF_AUTO struct buf value = buf_make(4096);
    struct slice key;
    if (quoted)
        buf_add_char(&value, '"');
    for (size_t i = 0; i < n; i++)
        buf_add_str(&value, escaped ? "\\\\" : "k");
    if (quoted)
        buf_add_char(&value, '"');
    enum key_header result = key_value_read(buf_slice(&value), KEY_SYNTAX_LENIENT, &arena, &key);
    if (result == KEY_HEADER_OK)
        assert_int_equal(key.len, n);
    return result;
}

static void two_hundred_fifty_five_bytes_are_a_key_and_one_more_is_too_long(void **state)
{
    (void)state;
    assert_int_equal(read_sized(255, false, false), KEY_HEADER_OK);
    assert_int_equal(read_sized(256, false, false), KEY_HEADER_TOO_LONG);
    assert_int_equal(read_sized(255, true, false), KEY_HEADER_OK);
    assert_int_equal(read_sized(256, true, false), KEY_HEADER_TOO_LONG);
    assert_int_equal(read_sized(255, true, true), KEY_HEADER_OK);
    assert_int_equal(read_sized(256, true, true), KEY_HEADER_TOO_LONG);
}

static enum key_header read_lines(const char *const *pairs, size_t n)
{
    ARENA_AUTO struct arena arena = arena_make(FORMAT_MAX);
    struct headers headers = {0};
    struct slice key;
    for (size_t i = 0; i < n; i++)
        assert_true(headers_add(&headers, slice_of(pairs[2 * i]), slice_of(pairs[2 * i + 1])));
    return key_header_read(&headers, SLICE("Idempotency-Key"), KEY_SYNTAX_LENIENT, &arena, &key);
}

static void exactly_one_field_line_is_read_whatever_the_case_of_its_name(void **state)
{
    static const char *const one[] = {"idempotency-KEY", "k"};
    static const char *const two[] = {"Idempotency-Key", "k", "idempotency-key", "k"};
    static const char *const split[] = {"Idempotency-Key", "\"foo", "Idempotency-Key", "bar\""};
    static const char *const other[] = {"X-Idempotency-Key", "k"};
    (void)state;
    assert_int_equal(read_lines(one, 1), KEY_HEADER_OK);
    assert_int_equal(read_lines(two, 2), KEY_HEADER_REPEATED);
    assert_int_equal(read_lines(split, 2), KEY_HEADER_REPEATED);
    assert_int_equal(read_lines(other, 1), KEY_HEADER_ABSENT);
}

static void a_key_that_connection_names_is_refused(void **state)
{
    static const char *const named[] = {"Idempotency-Key", "k", "Connection",
                                        "close, idempotency-key"};
    static const char *const absent[] = {"Connection", "Idempotency-Key"};
    static const char *const other[] = {"Idempotency-Key", "k", "Connection", "close"};
    (void)state;
    assert_int_equal(read_lines(named, 2), KEY_HEADER_HOP_BY_HOP);
    assert_int_equal(read_lines(absent, 1), KEY_HEADER_HOP_BY_HOP);
    assert_int_equal(read_lines(other, 2), KEY_HEADER_OK);
}

static void every_result_is_said(void **state)
{
    (void)state;
    for (int i = KEY_HEADER_OK; i <= KEY_HEADER_NO_MEMORY; i++) {
        size_t n = strlen(key_header_text(i));
        assert_true(n > 10 && key_header_text(i)[n - 1] != '.');
    }
}

/* ---- to the upstream ---- */

static void expect_spelling(const char *text, enum key_forward forward, enum key_syntax syntax,
                            const char *wanted)
{
    ARENA_AUTO struct arena arena = arena_make(4096);
    BUF_AUTO struct buf spelled = buf_make(4096);
    struct slice key;
    key_value_write(slice_of(text), forward, syntax, &spelled);
    if (!slice_eq(buf_slice(&spelled), slice_of(wanted)))
        fail_msg("<%s> became <%.*s>", text, SLICE_ARG(buf_slice(&spelled)));
    assert_int_equal(key_value_read(buf_slice(&spelled), KEY_SYNTAX_LENIENT, &arena, &key),
                     KEY_HEADER_OK);
    assert_true(slice_eq(key, slice_of(text)));
}

/* found: A-M7 */
static void a_key_has_one_spelling_that_reads_back(void **state)
{
    (void)state;
    expect_spelling("a:b%20c", KEY_FORWARD_BY_SYNTAX, KEY_SYNTAX_LENIENT, "a:b%20c");
    expect_spelling("a:b%20c", KEY_FORWARD_BY_SYNTAX, KEY_SYNTAX_STRICT, "\"a:b%20c\"");
    expect_spelling("a|b", KEY_FORWARD_BY_SYNTAX, KEY_SYNTAX_LENIENT, "\"a|b\"");
    expect_spelling("a|b", KEY_FORWARD_BARE, KEY_SYNTAX_STRICT, "a|b");
    expect_spelling(" a ", KEY_FORWARD_BARE, KEY_SYNTAX_LENIENT, "\" a \"");
    expect_spelling("a,b", KEY_FORWARD_BARE, KEY_SYNTAX_LENIENT, "\"a,b\"");
    expect_spelling("\"\\", KEY_FORWARD_BARE, KEY_SYNTAX_LENIENT, "\"\\\"\\\\\"");
    expect_spelling("k", KEY_FORWARD_QUOTED, KEY_SYNTAX_LENIENT, "\"k\"");
}

/* ---- key_format ---- */

static bool has_format(enum key_format_kind kind, const char *pattern, const char *text,
                       struct slice *ret_key, struct arena *arena)
{
    struct slice problem;
    const struct key_format *format = key_format_new(kind, slice_of(pattern), arena, &problem);
    assert_non_null(format);
    return key_format_match(format, slice_of(text), arena, ret_key);
}

static bool matches(enum key_format_kind kind, const char *pattern, const char *text)
{
    ARENA_AUTO struct arena arena = arena_make(FORMAT_MAX);
    struct slice key;
    return has_format(kind, pattern, text, &key, &arena);
}

static void a_uuid_is_folded_to_lower_case(void **state)
{
    ARENA_AUTO struct arena arena = arena_make(FORMAT_MAX);
    struct slice key;
    (void)state;
    assert_true(
        has_format(KEY_FORMAT_UUID, "", "8E03978E-40D5-43E8-BC93-6894A57F9324", &key, &arena));
    assert_true(slice_eq(key, SLICE("8e03978e-40d5-43e8-bc93-6894a57f9324")));
    assert_true(matches(KEY_FORMAT_UUID, "", "00000000-0000-0000-0000-000000000000"));
    assert_false(matches(KEY_FORMAT_UUID, "", "8e03978e40d543e8bc936894a57f9324"));
    assert_false(matches(KEY_FORMAT_UUID, "", "8e03978e-40d5-43e8-bc93-6894a57f932"));
    assert_false(matches(KEY_FORMAT_UUID, "", "8e03978e-40d5-43e8-bc93-6894a57f932g"));
    assert_false(matches(KEY_FORMAT_UUID, "", "8e03978e-40d5-43e8-bc9356894a57f9324"));
    assert_false(matches(KEY_FORMAT_UUID, "", "{8e03978e-40d5-43e8-bc93-6894a57f9324}"));
}

static void uuid4_wants_version_and_variant(void **state)
{
    (void)state;
    assert_true(matches(KEY_FORMAT_UUID4, "", "8e03978e-40d5-43e8-bc93-6894a57f9324"));
    assert_true(matches(KEY_FORMAT_UUID4, "", "8E03978E-40D5-43E8-AC93-6894A57F9324"));
    assert_false(matches(KEY_FORMAT_UUID4, "", "8e03978e-40d5-73e8-bc93-6894a57f9324"));
    assert_false(matches(KEY_FORMAT_UUID4, "", "8e03978e-40d5-43e8-cc93-6894a57f9324"));
    assert_false(matches(KEY_FORMAT_UUID4, "", "8e03978e-40d5-43e8-7c93-6894a57f9324"));
}

/* RFC 9562, appendix A.6: made at 2022-02-22T19:22:22.000Z. */
static void uuid7_says_when_it_was_made(void **state)
{
    (void)state;
    assert_true(matches(KEY_FORMAT_UUID7, "", "017F22E2-79B0-7CC3-98C4-DC0C0C07398F"));
    assert_false(matches(KEY_FORMAT_UUID7, "", "017F22E2-79B0-4CC3-98C4-DC0C0C07398F"));
    assert_false(matches(KEY_FORMAT_UUID7, "", "017F22E2-79B0-7CC3-C8C4-DC0C0C07398F"));
    assert_true(key_made_at(SLICE("017F22E2-79B0-7CC3-98C4-DC0C0C07398F")) == 1645557742000000);
    assert_true(key_made_at(SLICE("ffffffff-ffff-7cc3-98c4-dc0c0c07398f")) == 281474976710655000);
    assert_true(key_made_at(SLICE("017f22e2-79b0-4cc3-98c4-dc0c0c07398f")) == 0);
    assert_true(key_made_at(SLICE("k1")) == 0);
}

static void a_regex_matches_whole_keys(void **state)
{
    (void)state;
    assert_true(matches(KEY_FORMAT_REGEX, "[a-z]{3}", "abc"));
    assert_false(matches(KEY_FORMAT_REGEX, "[a-z]{3}", "abcd"));
    assert_false(matches(KEY_FORMAT_REGEX, "[a-z]{3}", "xx abc"));
    assert_true(matches(KEY_FORMAT_REGEX, "a|bc", "bc"));
    assert_false(matches(KEY_FORMAT_REGEX, "a|bc", "abc"));
    assert_false(matches(KEY_FORMAT_REGEX, "a|bc", "ac"));
    assert_false(matches(KEY_FORMAT_REGEX, "a", "a\n"));
    assert_true(matches(KEY_FORMAT_REGEX, "order-[0-9]+", "order-42"));
    assert_false(matches(KEY_FORMAT_REGEX, "order-[0-9]+", "Order-42"));
    assert_true(matches(KEY_FORMAT_REGEX, "(a|b)+[])]\\.[[:digit:]]{1,2}", "ab).42"));
    assert_true(matches(KEY_FORMAT_ANY, "", "anything at all"));
}

static void a_key_with_a_nul_matches_no_regex(void **state)
{
    ARENA_AUTO struct arena arena = arena_make(FORMAT_MAX);
    struct slice problem;
    struct slice key;
    const struct key_format *format =
        key_format_new(KEY_FORMAT_REGEX, SLICE("a"), &arena, &problem);
    (void)state;
    assert_false(key_format_match(format, SLICE("a\0b"), &arena, &key));
}

static void patterns_that_may_cost_too_much_or_mean_something_else_are_refused(void **state)
{
    static const char *const patterns[] = {
        "",
        "(a)\\1",
        "\\(a\\)\\9",
        "(a+)+",
        "(a*)*",
        "((a+)b)*",
        "(a{2}){2}",
        "(a?b)+",
        "a++",
        "a**",
        "a{2}{2}",
        "a{256}",
        "a{1,999}",
        "a{,3}",
        "a{3,2}",
        "a{x}",
        "a{",
        "a{1",
        "*a",
        "(+a)",
        "a|*b",
        "^*",
        "a)|(b",
        ")",
        "(a",
        "a\\",
        "[a",
        "[]",
        "[[:alpha:",
        "\\d+",
        "\\w",
        "\\bx",
        "\\`a",
        "[[:nope:]]",
        "[z-a]",
        "((((((((((((((((a))))))))))))))))b(((((((((((((((((c)))))))))))))))))",
        "a{255}b{255}c{255}d{255}e{255}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        ARENA_AUTO struct arena arena = arena_make(FORMAT_MAX);
        struct slice problem = {NULL, 0};
        const struct key_format *format =
            key_format_new(KEY_FORMAT_REGEX, slice_of(patterns[i]), &arena, &problem);
        if (format || problem.len < 10)
            fail_msg("pattern <%s> was taken", patterns[i]);
    }
}

static void a_pattern_over_256_bytes_or_with_a_nul_is_refused(void **state)
{
    ARENA_AUTO struct arena arena = arena_make(FORMAT_MAX);
    char text[257];
    struct slice problem;
    (void)state;
    memset(text, 'a', sizeof(text));
    assert_non_null(key_format_new(KEY_FORMAT_REGEX, slice_make(text, 256), &arena, &problem));
    assert_null(key_format_new(KEY_FORMAT_REGEX, slice_make(text, 257), &arena, &problem));
    assert_null(key_format_new(KEY_FORMAT_REGEX, SLICE("a\0b"), &arena, &problem));
}

static void a_full_arena_is_no_memory_and_not_a_wrong_key(void **state)
{
    struct slice key;
    struct slice problem;
    (void)state;
    struct arena arena = arena_make(2);
    assert_int_equal(read_value(&arena, "\"a\\\"bcdef\"", KEY_SYNTAX_LENIENT, &key),
                     KEY_HEADER_NO_MEMORY);
    ARENA_AUTO struct arena formats = arena_make(FORMAT_MAX);
    const struct key_format *format = key_format_new(KEY_FORMAT_UUID, none, &formats, &problem);
    arena = arena_make(2);
    assert_false(
        key_format_match(format, SLICE("8e03978e-40d5-43e8-bc93-6894a57f9324"), &arena, &key));
    assert_true(arena.failed);
}

#ifdef PAWL_HOOKS
static void every_allocation_of_a_format_may_fail(void **state)
{
    (void)state;
    for (long n = 1;; n++) {
        struct slice problem = {NULL, 0};
        ARENA_AUTO struct arena arena = arena_make(FORMAT_MAX);
        mem_fail_nth(n);
        const struct key_format *format =
            key_format_new(KEY_FORMAT_REGEX, SLICE("[a-z]+"), &arena, &problem);
        bool fired = mem_fail_fired();
        mem_fail_nth(0);
        assert_true(!format == fired);
        if (!fired)
            break;
        assert_true(slice_eq(problem, SLICE("out of memory")));
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_string_and_a_bare_value_give_one_key),
        cmocka_unit_test(a_string_may_hold_spaces_commas_and_escapes),
        cmocka_unit_test(parameters_of_every_type_are_ignored),
        cmocka_unit_test(whatever_else_is_malformed),
        cmocka_unit_test(a_nul_inside_is_malformed),
        cmocka_unit_test(an_empty_key_is_told_from_a_malformed_one),
        cmocka_unit_test(two_hundred_fifty_five_bytes_are_a_key_and_one_more_is_too_long),
        cmocka_unit_test(exactly_one_field_line_is_read_whatever_the_case_of_its_name),
        cmocka_unit_test(a_key_that_connection_names_is_refused),
        cmocka_unit_test(every_result_is_said),
        cmocka_unit_test(a_key_has_one_spelling_that_reads_back),
        cmocka_unit_test(a_uuid_is_folded_to_lower_case),
        cmocka_unit_test(uuid4_wants_version_and_variant),
        cmocka_unit_test(uuid7_says_when_it_was_made),
        cmocka_unit_test(a_regex_matches_whole_keys),
        cmocka_unit_test(a_key_with_a_nul_matches_no_regex),
        cmocka_unit_test(patterns_that_may_cost_too_much_or_mean_something_else_are_refused),
        cmocka_unit_test(a_pattern_over_256_bytes_or_with_a_nul_is_refused),
        cmocka_unit_test(a_full_arena_is_no_memory_and_not_a_wrong_key),
#ifdef PAWL_HOOKS
        cmocka_unit_test(every_allocation_of_a_format_may_fail),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
