/* SPDX-License-Identifier: Apache-2.0 */
/* base/http_date: written as an IMF-fixdate, read in all three forms. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/time/http_date.h"

#define S CLOCK_US_PER_S
#define NOW (INT64_C(1795338000) * S) /* 2026-11-22 */
#define SAMPLE (INT64_C(784111777) * S)

static void expect_date(int64_t wall_us, const char *expected)
{
    char text[HTTP_DATE_LEN + 1];
    http_date_write(wall_us, text);
    assert_string_equal(text, expected);
}

static void dates_are_imf_fixdates(void **state)
{
    (void)state;
    expect_date(0, "Thu, 01 Jan 1970 00:00:00 GMT");
    expect_date(SAMPLE, "Sun, 06 Nov 1994 08:49:37 GMT");
    expect_date(SAMPLE + 999999, "Sun, 06 Nov 1994 08:49:37 GMT");
    expect_date(INT64_C(1709164800) * S, "Thu, 29 Feb 2024 00:00:00 GMT");
    expect_date(-1, "Wed, 31 Dec 1969 23:59:59 GMT");
    expect_date(INT64_C(253402300799) * S, "Fri, 31 Dec 9999 23:59:59 GMT");
    expect_date(INT64_MAX, "Fri, 31 Dec 9999 23:59:59 GMT");
    expect_date(INT64_MIN, "Sat, 01 Jan 0000 00:00:00 GMT");
}

static void the_date_of_each_form_is_read(void **state)
{
    static const struct {
        const char *text;
        int64_t now;
        int64_t seconds;
    } rows[] = {
        {"Sun, 06 Nov 1994 08:49:37 GMT", NOW, 784111777},
        {"Sunday, 06-Nov-94 08:49:37 GMT", NOW, 784111777},
        {"Sun Nov  6 08:49:37 1994", NOW, 784111777},
        {"Wed Nov 16 08:49:37 1994", NOW, 784975777},
        {"Mon, 06 Nov 1994 08:49:37 GMT", NOW, 784111777}, /* another day: not compared */
        {"Thu, 01 Jan 1970 00:00:00 GMT", NOW, 0},
        {"Fri, 31 Dec 9999 23:59:59 GMT", NOW, 253402300799},
        {"Sat, 01 Jan 0000 00:00:00 GMT", NOW, -62167219200},
        {"Thu, 29 Feb 2024 00:00:00 GMT", NOW, 1709164800},
        {"Sat, 31 Dec 2016 23:59:60 GMT", NOW, 1483228800},
        /* At most 50 years ahead, else the century before. */
        {"Sunday, 20-Nov-76 00:00:00 GMT", NOW, 3373056000},
        {"Sunday, 31-Dec-76 00:00:00 GMT", NOW, 220838400},
        {"Sunday, 01-Jan-77 00:00:00 GMT", NOW, 220924800},
        {"Sunday, 01-Jan-27 00:00:00 GMT", NOW, 1798761600},
        {"Sunday, 01-Jan-00 00:00:00 GMT", INT64_C(946684700) * S, 946684800},
        {"Sunday, 01-Jan-00 00:00:00 GMT", INT64_MIN, -62167219200},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t us = -1;
        assert_true(http_date_read(slice_of(rows[i].text), rows[i].now, &us));
        assert_int_equal(us, rows[i].seconds * S);
    }
}

static void what_is_no_date_is_not_read(void **state)
{
    static const char *const texts[] = {
        "",
        "120",
        "Sun",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        " Sun, 06 Nov 1994 08:49:37 GMT",
        "sun, 06 nov 1994 08:49:37 gmt",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sun, 06 Nov 19945 08:49:37 GMT",
        "Sun, 06 Nov -994 08:49:37 GMT",
        "Sun, 06 Foo 1994 08:49:37 GMT",
        "Sun, 31 Jun 1994 08:49:37 GMT",
        "Sun, 29 Feb 2023 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, 06 Nov 1994 8:49:37 GMT",
        "Sun,06 Nov 1994 08:49:37 GMT",
        "Xxx, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37",
        "Sun Nov 6 08:49:37 1994",
        "Sun Nov 006 08:49:37 1994",
        "Sun Nov  6 08:49:37 94",
        "Sun Nov  6 08:49:37 1994 GMT",
        "2026-11-22T10:00:00Z",
        "1e300",
    };
    int64_t us = 42;
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_false(http_date_read(slice_of(texts[i]), NOW, &us));
    assert_int_equal(us, 42);
}

static void a_date_that_was_written_is_read_again_whatever_the_time(void **state)
{
    uint64_t random = 1;
    (void)state;
    for (int i = 0; i < 20000; i++) {
        char text[HTTP_DATE_LEN + 1];
        int64_t us;
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        int64_t seconds = (int64_t)(random >> 20) % INT64_C(253402300800);
        http_date_write(seconds * S, text);
        assert_true(http_date_read(slice_of(text), (int64_t)random, &us));
        assert_int_equal(us, seconds * S);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dates_are_imf_fixdates),
        cmocka_unit_test(the_date_of_each_form_is_read),
        cmocka_unit_test(what_is_no_date_is_not_read),
        cmocka_unit_test(a_date_that_was_written_is_read_again_whatever_the_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
