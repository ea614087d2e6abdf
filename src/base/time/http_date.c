/* SPDX-License-Identifier: Apache-2.0 */
#include "base/time/http_date.h"
#include "base/clock.h"
#include "base/time/timestamp.h"

/* The year has four digits in an IMF-fixdate. */
#define SECONDS_MIN (INT64_C(-62167219200)) /* 0000-01-01T00:00:00Z */
#define SECONDS_MAX INT64_C(253402300799)   /* 9999-12-31T23:59:59Z */
#define FIFTY_YEARS_S (INT64_C(50) * 31556952)

static const char days[7][10] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                 "Thursday", "Friday", "Saturday"};
static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

static void put_digits(char *at, int value, int n)
{
    for (; n > 0; n--, value /= 10)
        at[n - 1] = (char)('0' + value % 10);
}

static int64_t whole_seconds(int64_t wall_us)
{
    int64_t seconds = wall_us / 1000000 - (wall_us % 1000000 < 0);

    if (seconds < SECONDS_MIN)
        return SECONDS_MIN;
    return seconds > SECONDS_MAX ? SECONDS_MAX : seconds;
}

/* By hand, as strftime's names follow the locale. */
void http_date_write(int64_t wall_us, char ret_text[HTTP_DATE_LEN + 1])
{
    struct tm tm = timestamp_fields(whole_seconds(wall_us));

    memcpy(ret_text, "Sun, 00 Jan 0000 00:00:00 GMT", HTTP_DATE_LEN + 1);
    memcpy(ret_text, days[tm.tm_wday], 3);
    put_digits(ret_text + 5, tm.tm_mday, 2);
    memcpy(ret_text + 8, months[tm.tm_mon], 3);
    put_digits(ret_text + 12, tm.tm_year + 1900, 4);
    put_digits(ret_text + 17, tm.tm_hour, 2);
    put_digits(ret_text + 20, tm.tm_min, 2);
    put_digits(ret_text + 23, tm.tm_sec, 2);
}

/* ---- reading ---- */

/* Each takes what it reads off the front of `rest`; false: something else stands there. */

static bool take_text(struct slice *rest, const char *text)
{
    if (!slice_starts(*rest, slice_of(text)))
        return false;
    *rest = slice_skip(*rest, strlen(text));
    return true;
}

static bool take_date_digits(struct slice *rest, size_t digits, int *ret_value)
{
    uint64_t value;
    if (!slice_to_u64(slice_first(*rest, digits), 9999, &value) || rest->len < digits)
        return false;
    *rest = slice_skip(*rest, digits);
    *ret_value = (int)value;
    return true;
}

static bool take_month(struct slice *rest, int *ret_month)
{
    for (*ret_month = 0; *ret_month < 12; ++*ret_month)
        if (take_text(rest, months[*ret_month]))
            return true;
    return false;
}

static bool take_clock_time(struct slice *rest, struct tm *tm)
{
    return take_date_digits(rest, 2, &tm->tm_hour) && take_text(rest, ":") &&
           take_date_digits(rest, 2, &tm->tm_min) && take_text(rest, ":") &&
           take_date_digits(rest, 2, &tm->tm_sec);
}

static bool take_year(struct slice *rest, struct tm *tm)
{
    bool took = take_date_digits(rest, 4, &tm->tm_year);
    tm->tm_year -= 1900;
    return took;
}

/* `06 Nov 1994 08:49:37 GMT` */
static bool read_fixdate(struct slice rest, struct tm *tm)
{
    return take_date_digits(&rest, 2, &tm->tm_mday) && take_text(&rest, " ") &&
           take_month(&rest, &tm->tm_mon) && take_text(&rest, " ") && take_year(&rest, tm) &&
           take_text(&rest, " ") && take_clock_time(&rest, tm) && slice_eq(rest, SLICE(" GMT"));
}

/* `Nov  6 08:49:37 1994` */
static bool read_asctime(struct slice rest, struct tm *tm)
{
    return take_month(&rest, &tm->tm_mon) && take_text(&rest, " ") &&
           take_date_digits(&rest, take_text(&rest, " ") ? 1 : 2, &tm->tm_mday) &&
           take_text(&rest, " ") && take_clock_time(&rest, tm) && take_text(&rest, " ") &&
           take_year(&rest, tm) && rest.len == 0;
}

/* `06-Nov-94 08:49:37 GMT`; the year without its century. */
static bool read_rfc850(struct slice rest, struct tm *tm)
{
    return take_date_digits(&rest, 2, &tm->tm_mday) && take_text(&rest, "-") &&
           take_month(&rest, &tm->tm_mon) && take_text(&rest, "-") &&
           take_date_digits(&rest, 2, &tm->tm_year) && take_text(&rest, " ") &&
           take_clock_time(&rest, tm) && slice_eq(rest, SLICE(" GMT"));
}

/* The latest year of a century's two digits with which the date is no more than 50 years ahead
 * (RFC 9110 5.6.7). */
static void complete_year(struct tm *tm, int64_t now_s)
{
    int latest = timestamp_fields(now_s).tm_year + 50;
    int64_t seconds;
    tm->tm_year = latest - ((latest - tm->tm_year) % 100 + 100) % 100;
    if (timestamp_seconds(tm, &seconds) && seconds > now_s + FIFTY_YEARS_S)
        tm->tm_year -= 100;
}

static bool read_by_form(struct slice text, int64_t now_s, struct tm *tm)
{
    size_t day = 0;
    while (day < 7 && !slice_starts(text, slice_first(slice_of(days[day]), 3)))
        day++;
    if (day == 7)
        return false;
    if (take_text(&text, days[day])) {
        bool read = take_text(&text, ", ") && read_rfc850(text, tm);
        complete_year(tm, now_s);
        return read;
    }
    text = slice_skip(text, 3);
    if (take_text(&text, ", "))
        return read_fixdate(text, tm);
    return take_text(&text, " ") && read_asctime(text, tm);
}

bool http_date_read(struct slice text, int64_t now_us, int64_t *ret_us)
{
    struct tm tm = {0};
    int64_t seconds;
    if (!read_by_form(text, whole_seconds(now_us), &tm))
        return false;
    bool leap = tm.tm_sec == 60;
    tm.tm_sec -= leap;
    if (!timestamp_seconds(&tm, &seconds))
        return false;
    *ret_us = (seconds + leap) * CLOCK_US_PER_S;
    return true;
}
