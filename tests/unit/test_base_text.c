/* SPDX-License-Identifier: Apache-2.0 */
/* duration, timestamp, shell */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/text/shell.h"
#include "base/time/duration.h"
#include "base/time/timestamp.h"

static void durations_are_read_in_every_unit(void **state)
{
    static const struct {
        const char *text;
        int64_t us;
    } good[] = {
        {"150ms", 150000},
        {"10s", 10000000},
        {"5m", 300000000},
        {"24h", INT64_C(86400000000)},
        {"7d", INT64_C(604800000000)},
        {"forever", CLOCK_NEVER},
        {"0", 0},
        {"0s", 0},
        {"106751991d", INT64_C(106751991) * 86400 * 1000000},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        int64_t us = -1;
        assert_true(duration_parse(slice_of(good[i].text), &us));
        assert_true(us == good[i].us);
    }
}

static void anything_else_is_no_duration(void **state)
{
    static const char *const bad[] = {"",
                                      "1",
                                      "s",
                                      "1.5s",
                                      "-1s",
                                      "+1s",
                                      " 1s",
                                      "1s ",
                                      "1 s",
                                      "1S",
                                      "01s",
                                      "00",
                                      "1us",
                                      "1ss",
                                      "1h5m",
                                      "Forever",
                                      "forever ",
                                      "0x1s",
                                      "106751992d",
                                      "9223372036854775807d",
                                      "99999999999999999999s"};
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int64_t us = -1;
        assert_false(duration_parse(slice_of(bad[i]), &us));
        assert_int_equal(us, -1);
    }
}

static void durations_are_printed_in_the_largest_exact_unit(void **state)
{
    static const struct {
        int64_t us;
        const char *text;
    } cases[] = {
        {0, "0"},
        {1, "1us"},
        {1500, "1500us"},
        {150000, "150ms"},
        {1000000, "1s"},
        {90000000, "90s"},
        {300000000, "5m"},
        {INT64_C(5400000000), "90m"},
        {INT64_C(86400000000), "1d"},
        {INT64_C(90000000000), "25h"},
        {CLOCK_NEVER, "forever"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        BUF_AUTO struct buf buf = buf_make(32);
        duration_print(&buf, cases[i].us);
        assert_true(slice_eq(buf_slice(&buf), slice_of(cases[i].text)));
    }
}

static void sizes_are_bytes_or_binary_units(void **state)
{
    static const char *const bad[] = {"",   "KiB", "1KB", "1kib",   "1 KiB",
                                      "1B", "-1",  "064", "1.5MiB", "17179869184GiB"};
    uint64_t bytes = 1;
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(size_parse(slice_of(bad[i]), &bytes));
    assert_int_equal(bytes, 1);
    assert_true(size_parse(SLICE("512"), &bytes) && bytes == 512);
    assert_true(size_parse(SLICE("0"), &bytes) && bytes == 0);
    assert_true(size_parse(SLICE("64KiB"), &bytes) && bytes == 65536);
    assert_true(size_parse(SLICE("1MiB"), &bytes) && bytes == 1048576);
    assert_true(size_parse(SLICE("2GiB"), &bytes) && bytes == UINT64_C(2147483648));
    assert_true(size_parse(SLICE("17179869183GiB"), &bytes));
}

static void timestamps_are_printed_and_read_back(void **state)
{
    static const struct {
        int64_t us;
        const char *text;
    } cases[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {INT64_C(1795168800123000), "2026-11-20T10:00:00.123Z"},
        {INT64_C(951782400000000), "2000-02-29T00:00:00.000Z"},
        {-1000, "1969-12-31T23:59:59.999Z"},
        {INT64_C(253402300799999000), "9999-12-31T23:59:59.999Z"},
        {INT64_C(-62167219200000000), "0000-01-01T00:00:00.000Z"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        BUF_AUTO struct buf buf = buf_make(TIMESTAMP_LEN);
        int64_t us = 1;
        assert_true(timestamp_print(&buf, cases[i].us));
        assert_true(slice_eq(buf_slice(&buf), slice_of(cases[i].text)));
        assert_true(timestamp_parse(buf_slice(&buf), &us));
        assert_true(us == cases[i].us);
    }
}

/* Each day of some leap and other years, and one in each week of the rest. */
static void days_are_those_of_the_c_library(void **state)
{
    const int64_t day = 86400, end = INT64_C(253402300800);
    (void)state;
    for (int64_t s = INT64_C(-62167219200), step = 0; s < end; s += day * step + 1) {
        time_t seconds = s;
        struct tm known, own = timestamp_fields(s);
        assert_non_null(gmtime_r(&seconds, &known));
        assert_true(own.tm_year == known.tm_year && own.tm_mon == known.tm_mon);
        assert_true(own.tm_mday == known.tm_mday && own.tm_wday == known.tm_wday);
        assert_true(own.tm_hour == known.tm_hour && own.tm_min == known.tm_min);
        assert_int_equal(own.tm_sec, known.tm_sec);
        step = known.tm_year % 100 < 5 ? 1 : 7;
    }
}

static void microseconds_are_cut_towards_the_past(void **state)
{
    BUF_AUTO struct buf buf = buf_make(100);
    (void)state;
    assert_true(timestamp_print(&buf, 1999));
    assert_true(timestamp_print(&buf, -1));
    assert_true(
        slice_eq(buf_slice(&buf), SLICE("1970-01-01T00:00:00.001Z1969-12-31T23:59:59.999Z")));
}

static void times_outside_four_digit_years_are_not_printed(void **state)
{
    static const int64_t bad[] = {CLOCK_NEVER, INT64_MIN, INT64_C(253402300800000000),
                                  INT64_C(-62167219200000001)};
    BUF_AUTO struct buf buf = buf_make(100);
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(timestamp_print(&buf, bad[i]));
    assert_int_equal(buf.len, 0);
}

static void other_forms_and_impossible_dates_are_refused(void **state)
{
    static const char *const bad[] = {"",
                                      "2026-11-20T10:00:00.123",
                                      "2026-11-20 10:00:00.123Z",
                                      "2026-11-20T10:00:00.123z",
                                      "2026-11-20T10:00:00.123Zx",
                                      "2026-02-29T10:00:00.000Z",
                                      "2026-13-01T00:00:00.000Z",
                                      "2026-00-01T00:00:00.000Z",
                                      "2026-01-00T00:00:00.000Z",
                                      "2026-01-01T24:00:00.000Z",
                                      "2026-01-01T23:60:00.000Z",
                                      "2026-01-01T23:59:60.000Z",
                                      "+026-01-01T00:00:00.000Z"};
    int64_t us = 5;
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(timestamp_parse(slice_of(bad[i]), &us));
    assert_int_equal(us, 5);
}

static void people_may_leave_the_milliseconds_of_a_time_out(void **state)
{
    static const char *const bad[] = {"",
                                      "Z",
                                      "2026-11-20T10:00:00",
                                      "2026-11-20T10:00Z",
                                      "2026-02-29T10:00:00Z",
                                      "2026-11-20T10:00:00z"};
    int64_t whole = 0, brief = 0;
    (void)state;
    assert_true(timestamp_parse(SLICE("2026-11-20T10:00:00.000Z"), &whole));
    assert_true(timestamp_parse(SLICE("2026-11-20T10:00:00Z"), &brief));
    assert_int_equal(brief, whole);
    assert_true(timestamp_parse(SLICE("2026-11-20T10:00:00.123Z"), &brief));
    assert_int_equal(brief, whole + 123 * CLOCK_US_PER_MS);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(timestamp_parse(slice_of(bad[i]), &brief));
}

static void an_instant_has_its_distance_from_utc_and_any_fraction(void **state)
{
    static const struct {
        const char *text;
        const char *utc;
        int below_ms; /* us */
    } cases[] = {
        {"2026-02-20T03:00:00Z", "2026-02-20T03:00:00.000Z", 0},
        {"2026-02-19T22:00:00-05:00", "2026-02-20T03:00:00.000Z", 0},
        {"2026-02-20T08:45:00+05:45", "2026-02-20T03:00:00.000Z", 0},
        {"2026-02-20T03:00:00+00:00", "2026-02-20T03:00:00.000Z", 0},
        {"2026-02-20T03:00:00-00:00", "2026-02-20T03:00:00.000Z", 0},
        {"2026-02-20T03:00:00+23:59", "2026-02-19T03:01:00.000Z", 0},
        {"2026-02-20T03:00:00-23:59", "2026-02-21T02:59:00.000Z", 0},
        {"2026-02-20T03:00:00.5Z", "2026-02-20T03:00:00.500Z", 0},
        {"2026-02-20T03:00:00.123456Z", "2026-02-20T03:00:00.123Z", 456},
        {"2026-02-20T03:00:00.0000019-05:00", "2026-02-20T08:00:00.000Z", 1},
        {"2026-02-20T03:00:00.99999999999999999999999999Z", "2026-02-20T03:00:00.999Z", 999},
        {"1969-12-31T19:59:59.75-04:00", "1969-12-31T23:59:59.750Z", 0},
        {"2024-02-29T23:59:59-00:30", "2024-03-01T00:29:59.000Z", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t us = 1, utc = 2;
        assert_true(timestamp_parse(slice_of(cases[i].utc), &utc));
        assert_true(timestamp_parse_instant(slice_of(cases[i].text), &us));
        if (us != utc + cases[i].below_ms)
            fail_msg("%s: %lld", cases[i].text, (long long)(us - utc));
    }
}

static void what_is_no_instant_is_refused(void **state)
{
    static const char *const bad[] = {"",
                                      "now",
                                      "2026-02-19",
                                      "2026-02-19T22:00:00",
                                      "2026-02-19T22:00:00.5",
                                      "2026-02-19T22:00:00.Z",
                                      "2026-02-19T22:00:00,5Z",
                                      "2026-02-19T22:00:00z",
                                      "2026-02-19t22:00:00Z",
                                      "2026-02-19 22:00:00Z",
                                      "2026-02-19T22:00Z",
                                      "2026-02-19T22:00:00ZZ",
                                      "2026-02-19T22:00:00Z ",
                                      " 2026-02-19T22:00:00Z",
                                      "2026-02-19T22:00:00-5:00",
                                      "2026-02-19T22:00:00-0500",
                                      "2026-02-19T22:00:00-05",
                                      "2026-02-19T22:00:00 05:00",
                                      "2026-02-19T22:00:00+24:00",
                                      "2026-02-19T22:00:00+05:60",
                                      "2026-02-19T22:00:00++5:00",
                                      "2026-02-19T22:00:00-05:00x",
                                      "2026-02-29T22:00:00Z",
                                      "2026-02-19T24:00:00Z",
                                      "2026-02-19T22:00:60Z",
                                      "12026-02-19T22:00:00Z"};
    int64_t us = 5;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (timestamp_parse_instant(slice_of(bad[i]), &us))
            fail_msg("%s", bad[i]);
    assert_int_equal(us, 5);
}

/* ---- words for a shell ---- */

static void words_are_quoted_as_far_as_a_shell_needs(void **state)
{
    static const struct {
        struct slice word;
        const char *quoted;
    } rows[] = {
        {{"a-b_c/d.e:f,g=h@i%j+k^", 22}, "a-b_c/d.e:f,g=h@i%j+k^"},
        {{"", 0}, "''"},
        {{"a b", 3}, "'a b'"},
        {{"it's", 4}, "'it'\\''s'"},
        {{"$HOME", 5}, "'$HOME'"},
        {{"a\\b", 3}, "'a\\b'"},
        {{"*?[~#;&|<>(){}!\"`", 17}, "'*?[~#;&|<>(){}!\"`'"},
        {{"\xC3\xA9", 2}, "\xC3\xA9"},
        {{"\xC3\xA9 x", 4}, "'\xC3\xA9 x'"},
        {{"a\nb\tc\r", 6}, "$'a\\nb\\tc\\r'"},
        {{"it's\n\\", 6}, "$'it\\'s\\n\\\\'"},
        {{"\x1B[0m", 4}, "$'\\x1b[0m'"},
        {{"a\xFF", 2}, "$'a\\xff'"},
        {{"\xE2\x80\xAE", 3}, "$'\\xe2\\x80\\xae'"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        BUF_AUTO struct buf buf = buf_make(1024);
        shell_add_word(&buf, rows[i].word);
        buf_add_char(&buf, '\0');
        assert_string_equal(buf.at, rows[i].quoted);
    }
}

static void a_long_line_is_cut_off(void **state)
{
    static const char *const words[] = {"echo", "a b", "", "cdef", NULL};
    static const struct {
        size_t most;
        const char *line;
    } rows[] = {
        {100, "echo 'a b' '' cdef"},
        {11, "echo 'a b' '' cdef"},
        {10, "echo 'a b' '' cde ..."},
        {7, "echo 'a b' '' ..."},
        {4, "echo ..."},
        {0, "..."},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        BUF_AUTO struct buf buf = buf_make(1024);
        shell_add_line(&buf, words, rows[i].most);
        buf_add_char(&buf, '\0');
        assert_string_equal(buf.at, rows[i].line);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_are_read_in_every_unit),
        cmocka_unit_test(anything_else_is_no_duration),
        cmocka_unit_test(durations_are_printed_in_the_largest_exact_unit),
        cmocka_unit_test(sizes_are_bytes_or_binary_units),
        cmocka_unit_test(timestamps_are_printed_and_read_back),
        cmocka_unit_test(days_are_those_of_the_c_library),
        cmocka_unit_test(microseconds_are_cut_towards_the_past),
        cmocka_unit_test(times_outside_four_digit_years_are_not_printed),
        cmocka_unit_test(other_forms_and_impossible_dates_are_refused),
        cmocka_unit_test(people_may_leave_the_milliseconds_of_a_time_out),
        cmocka_unit_test(an_instant_has_its_distance_from_utc_and_any_fraction),
        cmocka_unit_test(what_is_no_instant_is_refused),
        cmocka_unit_test(words_are_quoted_as_far_as_a_shell_needs),
        cmocka_unit_test(a_long_line_is_cut_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
