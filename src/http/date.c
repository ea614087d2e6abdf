/* SPDX-License-Identifier: Apache-2.0 */
#include "http/message.h"

#include "base/timestamp.h"

/* The year has four digits in an IMF-fixdate. */
#define SECONDS_MIN (INT64_C(-62167219200)) /* 0000-01-01T00:00:00Z */
#define SECONDS_MAX INT64_C(253402300799)   /* 9999-12-31T23:59:59Z */

static const char days[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
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
void http_date(int64_t wall_us, char ret_text[30])
{
    struct tm tm = timestamp_fields(whole_seconds(wall_us));

    memcpy(ret_text, "Sun, 00 Jan 0000 00:00:00 GMT", 30);
    memcpy(ret_text, days[tm.tm_wday], 3);
    put_digits(ret_text + 5, tm.tm_mday, 2);
    memcpy(ret_text + 8, months[tm.tm_mon], 3);
    put_digits(ret_text + 12, tm.tm_year + 1900, 4);
    put_digits(ret_text + 17, tm.tm_hour, 2);
    put_digits(ret_text + 20, tm.tm_min, 2);
    put_digits(ret_text + 23, tm.tm_sec, 2);
}
