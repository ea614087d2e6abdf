/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/number.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void expect(const char *literal, const char *canonical)
{
    BUF_AUTO struct buf buf = buf_make(4096);
    assert_true(number_is_bounded(slice_of(literal)));
    assert_true(number_add_canonical(&buf, slice_of(literal)));
    buf_add_char(&buf, '\0');
    assert_true(buf_ok(&buf));
    assert_string_equal(buf.at, canonical);
}

static void expect_unbounded(const char *literal)
{
    BUF_AUTO struct buf buf = buf_make(4096);
    assert_false(number_is_bounded(slice_of(literal)));
    assert_false(number_add_canonical(&buf, slice_of(literal)));
    assert_int_equal(buf.len, 0);
}

static void the_shortest_texts_of_rfc_8785_appendix_b_are_their_own_form(void **state)
{
    static const char *const texts[] = {
        "0",
        "5e-324",
        "-5e-324",
        "1.7976931348623157e+308",
        "-1.7976931348623157e+308",
        "9007199254740992",
        "-9007199254740992",
        "295147905179352830000",
        "9.999999999999997e+22",
        "1e+23",
        "1.0000000000000001e+23",
        "999999999999999700000",
        "999999999999999900000",
        "1e+21",
        "9.999999999999997e-7",
        "0.000001",
        "333333333.3333332",
        "333333333.33333325",
        "333333333.3333333",
        "333333333.3333334",
        "333333333.33333343",
        "-0.0000033333333333333333",
        "1424953923781206.2",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        expect(texts[i], texts[i]);
}

static void one_value_has_one_form_however_it_is_written(void **state)
{
    static const char *const one[] = {"1",     "1.0",   "1e0",  "1E0",    "1e+0",      "1e-0",
                                      "10e-1", "0.1e1", "1.00", "100e-2", "0.001e0003"};
    (void)state;
    for (size_t i = 0; i < sizeof(one) / sizeof(one[0]); i++)
        expect(one[i], "1");
    expect("-1.50e1", "-15");
    expect("12.500", "12.5");
    expect("0.00120", "0.0012");
    expect("120e3", "120000");
}

static void every_zero_is_0(void **state)
{
    (void)state;
    expect("0", "0");
    expect("-0", "0");
    expect("-0.000", "0");
    expect("0e99999999999999999999999", "0");
    expect("-0.0e-99999999999999999999999", "0");
}

static void the_layout_changes_where_ecmascript_changes_it(void **state)
{
    (void)state;
    expect("100000000000000000000", "100000000000000000000");
    expect("1e20", "100000000000000000000");
    expect("123456789012345678901", "123456789012345678901");
    expect("1e21", "1e+21");
    expect("1234567890123456789012", "1.234567890123456789012e+21");
    expect("123456789012345678901.5", "123456789012345678901.5");
    expect("0.000001", "0.000001");
    expect("0.00000123", "0.00000123");
    expect("1e-7", "1e-7");
    expect("0.000000123", "1.23e-7");
    expect("1E30", "1e+30");
    expect("1e-27", "1e-27");
}

static void neighbours_that_one_double_holds_stay_apart(void **state)
{
    (void)state;
    expect("9007199254740993", "9007199254740993");
    expect("9007199254740992", "9007199254740992");
    expect("0.1000000000000000055511151231257827", "0.1000000000000000055511151231257827");
}

/* `n` times `c` between two texts. */
static char *repeat(const char *head, char c, size_t n, const char *tail)
{
    size_t before = strlen(head);
    char *text = malloc(before + n + strlen(tail) + 1);
    assert_non_null(text);
    memcpy(text, head, before);
    memset(text + before, c, n);
    memcpy(text + before + n, tail, strlen(tail) + 1);
    return text;
}

static void check_repeated(const char *head, char c, size_t n, const char *tail, const char *form)
{
    char *literal = repeat(head, c, n, tail);
    if (form)
        expect(literal, form);
    else
        expect_unbounded(literal);
    free(literal);
}

static void a_thousand_digits_count_and_one_more_does_not(void **state)
{
    (void)state;
    char *form = repeat("1.", '7', 999, "e+999");
    check_repeated("1", '7', 999, "", form);
    free(form);
    check_repeated("1", '7', 1000, "", NULL);
    check_repeated("0.", '7', 1001, "", NULL);
    check_repeated("", '7', 10000, "", NULL);
}

static void the_value_is_bounded_and_not_the_literal(void **state)
{
    (void)state;
    check_repeated("1", '0', 10000, "e-10000", "1");
    check_repeated("0.", '0', 10000, "1e10001", "1");
    check_repeated("1", '0', 9999, "", "1e+9999");
    check_repeated("1", '0', 10000, "", NULL);
    check_repeated("1.", '0', 10000, "", "1");
}

static void exponents_end_at_9999_on_both_sides(void **state)
{
    (void)state;
    expect("1e9999", "1e+9999");
    expect("1e-9999", "1e-9999");
    expect("0.1e10000", "1e+9999");
    expect("9.9e9999", "9.9e+9999");
    expect_unbounded("1e10000");
    expect_unbounded("10e9999");
    expect_unbounded("1e-10000");
    expect_unbounded("0.1e-9999");
    expect_unbounded("1e99999999999999999999999999999999");
    expect_unbounded("1e-99999999999999999999999999999999");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_shortest_texts_of_rfc_8785_appendix_b_are_their_own_form),
        cmocka_unit_test(one_value_has_one_form_however_it_is_written),
        cmocka_unit_test(every_zero_is_0),
        cmocka_unit_test(the_layout_changes_where_ecmascript_changes_it),
        cmocka_unit_test(neighbours_that_one_double_holds_stay_apart),
        cmocka_unit_test(a_thousand_digits_count_and_one_more_does_not),
        cmocka_unit_test(the_value_is_bounded_and_not_the_literal),
        cmocka_unit_test(exponents_end_at_9999_on_both_sides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
