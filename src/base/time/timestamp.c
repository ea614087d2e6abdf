/* SPDX-License-Identifier: Apache-2.0 */
#include "base/time/timestamp.h"
#include "base/check.h"
#include "base/clock.h"

/* The years 0000 up to 10000 in seconds since 1970. */
#define FIRST_S INT64_C(-62167219200)
#define END_S INT64_C(253402300800)
#define DAY_S 86400
#define ERA_DAYS 146097 /* 400 years */
#define MARCH_DAYS 60   /* before 1 March of the year 0000, which is a leap year */

/* Years that begin with March, the leap day last in them, from one 400 years before 0000 on. Five
 * of their months have 153 days, wherever one begins. */
struct tm timestamp_fields(int64_t seconds)
{
    CHECK(seconds >= FIRST_S && seconds < END_S);
    unsigned second = (unsigned)((seconds - FIRST_S) % DAY_S);
    unsigned since = (unsigned)((seconds - FIRST_S) / DAY_S); /* 1 January 0000: a Saturday */
    unsigned days = since + ERA_DAYS - MARCH_DAYS, era = days / ERA_DAYS, in_era = days % ERA_DAYS;
    unsigned year = (in_era - in_era / 1460 + in_era / 36524 - in_era / (ERA_DAYS - 1)) / 365;
    unsigned day = in_era - (365 * year + year / 4 - year / 100), month = (5 * day + 2) / 153;
    bool next = month >= 10; /* January, February */
    return (struct tm){.tm_year = (int)(era * 400 + year + next) - 400 - 1900,
                       .tm_mon = (int)(next ? month - 10 : month + 2),
                       .tm_mday = (int)(day - (153 * month + 2) / 5 + 1),
                       .tm_wday = (int)((since + 6) % 7),
                       .tm_hour = (int)(second / 3600),
                       .tm_min = (int)(second / 60 % 60),
                       .tm_sec = (int)(second % 60)};
}

static inline void put_number(char *at, int value, int digits)
{
    for (int i = digits - 1; i >= 0; i--, value /= 10)
        at[i] = (char)('0' + value % 10);
}

/* By hand: every log line has one, and printf takes ten times as long. */
static void put_fields(char *at, const struct tm *t, int milliseconds)
{
    memcpy(at, "0000-00-00T00:00:00.000Z", TIMESTAMP_LEN);
    put_number(at, t->tm_year + 1900, 4);
    put_number(at + 5, t->tm_mon + 1, 2);
    put_number(at + 8, t->tm_mday, 2);
    put_number(at + 11, t->tm_hour, 2);
    put_number(at + 14, t->tm_min, 2);
    put_number(at + 17, t->tm_sec, 2);
    put_number(at + 20, milliseconds, 3);
}

bool timestamp_print(struct buf *buf, int64_t us)
{
    if (us < FIRST_S * CLOCK_US_PER_S || us >= END_S * CLOCK_US_PER_S)
        return false;
    int64_t below = us % CLOCK_US_PER_S;
    if (below < 0)
        below += CLOCK_US_PER_S;
    struct tm t = timestamp_fields((us - below) / CLOCK_US_PER_S);
    char text[TIMESTAMP_LEN];
    put_fields(text, &t, (int)(below / CLOCK_US_PER_MS));
    buf_add(buf, text, sizeof text);
    return true;
}

bool timestamp_seconds(const struct tm *fields, int64_t *ret_seconds)
{
    struct tm t = *fields;
    int64_t seconds = timegm(&t); /* carries 30 February over into March: seen below */
    if (t.tm_mon != fields->tm_mon || t.tm_mday != fields->tm_mday ||
        t.tm_hour != fields->tm_hour || t.tm_min != fields->tm_min || t.tm_sec != fields->tm_sec)
        return false;
    *ret_seconds = seconds;
    return true;
}

enum { YEAR, MONTH, DAY, HOUR, MINUTE, SECOND, MILLISECOND, N_FIELDS };

/* The numbers of the text's fields. False: it has another form. */
static bool read_timestamp_fields(struct slice text, uint64_t ret_values[N_FIELDS])
{
    static const unsigned char digits[N_FIELDS] = {4, 2, 2, 2, 2, 2, 3};
    static const char ends[] = "--T::.Z";
    for (size_t i = 0; i < N_FIELDS; i++) {
        struct slice field = slice_first(text, digits[i]);
        if (field.len < digits[i] || !slice_to_u64(field, 9999, &ret_values[i]))
            return false;
        text = slice_skip(text, field.len);
        if (i == SECOND && slice_take(&text, 'Z'))
            break;
        if (!slice_take(&text, ends[i]))
            return false;
    }
    return text.len == 0;
}

bool timestamp_parse(struct slice text, int64_t *ret_us)
{
    uint64_t values[N_FIELDS] = {0};
    if (!read_timestamp_fields(text, values))
        return false;
    struct tm t = {.tm_year = (int)values[YEAR] - 1900,
                   .tm_mon = (int)values[MONTH] - 1,
                   .tm_mday = (int)values[DAY],
                   .tm_hour = (int)values[HOUR],
                   .tm_min = (int)values[MINUTE],
                   .tm_sec = (int)values[SECOND]};
    int64_t seconds;
    if (!timestamp_seconds(&t, &seconds))
        return false;
    *ret_us = seconds * CLOCK_US_PER_S + (int64_t)values[MILLISECOND] * CLOCK_US_PER_MS;
    return true;
}

#define SECONDS_LEN ((size_t)19) /* 2026-02-19T22:00:00 */

/* `.25`, if there is one. */
static bool take_fraction(struct slice *rest, int64_t *ret_us)
{
    *ret_us = 0;
    if (!slice_take(rest, '.'))
        return true;
    size_t n = slice_digits(*rest);
    int64_t unit = CLOCK_US_PER_S / 10;
    for (size_t i = 0; i < n; i++, unit /= 10)
        *ret_us += (rest->at[i] - '0') * unit;
    *rest = slice_skip(*rest, n);
    return n > 0;
}

/* `Z`, `+05:30` or `-05:00`, and nothing behind it: seconds east of UTC. */
static bool read_distance(struct slice rest, int64_t *ret_s)
{
    uint64_t hours, minutes;
    *ret_s = 0;
    if (slice_eq(rest, SLICE("Z")))
        return true;
    if (rest.len != 6 || (rest.at[0] != '+' && rest.at[0] != '-') || rest.at[3] != ':' ||
        !slice_to_u64(slice_make(rest.at + 1, 2), 23, &hours) ||
        !slice_to_u64(slice_make(rest.at + 4, 2), 59, &minutes))
        return false;
    int64_t seconds = (int64_t)(hours * 60 + minutes) * 60;
    *ret_s = rest.at[0] == '-' ? -seconds : seconds;
    return true;
}

bool timestamp_parse_instant(struct slice text, int64_t *ret_us)
{
    char seconds[SECONDS_LEN + 1];
    int64_t at, fraction, east_s;
    if (text.len <= SECONDS_LEN)
        return false;
    memcpy(seconds, text.at, SECONDS_LEN);
    seconds[SECONDS_LEN] = 'Z';
    struct slice rest = slice_skip(text, SECONDS_LEN);
    if (!timestamp_parse(slice_make(seconds, sizeof seconds), &at) ||
        !take_fraction(&rest, &fraction) || !read_distance(rest, &east_s))
        return false;
    *ret_us = at + fraction - east_s * CLOCK_US_PER_S;
    return true;
}
