/* SPDX-License-Identifier: Apache-2.0 */
#include "base/time/zone.h"
#include "base/text/ascii.h"
#include "base/time/timestamp.h"

#define HEADER_SIZE 44
#define KIND_SIZE 6
#define CHANGES_MAX 4096
#define KINDS_MAX 256
#define NAMES_MAX 512
#define OFFSET_END_S (26 * 3600) /* RFC 8536 3.2: utoff lies between -25 and 26 hours */
#define DAY_S 86400

/* ---- names ---- */

bool zone_name_valid(struct slice name)
{
    static const struct slice others[] = {
        {"posix", 5}, {"right", 5}, {"localtime", 9}, {"posixrules", 10}};
    struct slice word;
    slice_cut(name, '/', &word);
    if (name.len > ZONE_NAME_MAX || SLICE_AMONG(word, others))
        return false;
    for (struct slice rest = name; slice_next(&rest, '/', &word);)
        if (!slice_is_word(word, "_+-"))
            return false;
    return name.len > 0;
}

/* ---- the file ---- */

struct counts {
    uint32_t universal, standard, leaps, changes, kinds, names;
};

static uint64_t read_big_endian(const char *at, size_t size)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++)
        value = value << 8 | (unsigned char)at[i];
    return value;
}

static bool take_zone_header(struct slice *rest, struct counts *ret)
{
    if (rest->len < HEADER_SIZE || !slice_starts(*rest, SLICE("TZif")) || rest->at[4] < '2' ||
        rest->at[4] > '4')
        return false;
    uint32_t n[6];
    for (size_t i = 0; i < 6; i++)
        n[i] = (uint32_t)read_big_endian(rest->at + 20 + 4 * i, 4);
    *ret = (struct counts){n[0], n[1], n[2], n[3], n[4], n[5]};
    *rest = slice_skip(*rest, HEADER_SIZE);
    return ret->universal <= KINDS_MAX && ret->standard <= KINDS_MAX && ret->leaps == 0 &&
           ret->changes <= CHANGES_MAX && ret->kinds <= KINDS_MAX && ret->names <= NAMES_MAX;
}

static size_t size_of(const struct counts *counts, size_t time_size)
{
    return counts->changes * (time_size + 1) + counts->kinds * (size_t)KIND_SIZE + counts->names +
           counts->standard + counts->universal;
}

static bool read_changes(const struct counts *counts, struct slice *rest, struct arena *arena,
                         struct zone *zone)
{
    size_t n = counts->changes;
    int64_t *at_s = arena_alloc(arena, (n + 1) * sizeof *at_s);
    uint8_t *kinds = arena_alloc(arena, n + 1);
    if (!at_s || !kinds)
        return false;
    for (size_t i = 0; i < n; i++) {
        at_s[i] = (int64_t)read_big_endian(rest->at + 8 * i, 8);
        kinds[i] = (uint8_t)rest->at[8 * n + i];
        if (kinds[i] >= counts->kinds || (i > 0 && at_s[i] <= at_s[i - 1]))
            return false;
    }
    *rest = slice_skip(*rest, 9 * n);
    zone->n = n;
    zone->at_s = at_s;
    zone->kinds = kinds;
    return true;
}

static bool read_offsets(const struct counts *counts, struct slice rest, struct arena *arena,
                         struct zone *zone)
{
    int32_t *offsets_s = arena_alloc(arena, counts->kinds * sizeof *offsets_s);
    if (!offsets_s)
        return false;
    for (size_t i = 0; i < counts->kinds; i++) {
        const char *kind = rest.at + i * KIND_SIZE;
        offsets_s[i] = (int32_t)(uint32_t)read_big_endian(kind, 4);
        if (offsets_s[i] <= -OFFSET_END_S || offsets_s[i] >= OFFSET_END_S ||
            (unsigned char)kind[4] > 1 || (unsigned char)kind[5] >= counts->names)
            return false;
    }
    zone->offsets_s = offsets_s;
    return true;
}

/* ---- the TZ string at its end ---- */

static bool take_zone_number(struct slice *rest, int least, int most, int *ret)
{
    size_t n = 0;
    int value = 0;
    for (; n < rest->len && n < 3 && ascii_is_digit(rest->at[n]); n++)
        value = value * 10 + (rest->at[n] - '0');
    *rest = slice_skip(*rest, n);
    *ret = value;
    return n > 0 && value >= least && value <= most;
}

/* "EST", or "<-03>". */
static bool take_name(struct slice *rest)
{
    size_t n = 0;
    if (slice_take(rest, '<')) {
        ptrdiff_t end = slice_find(*rest, '>');
        if (end < 3)
            return false;
        *rest = slice_skip(*rest, (size_t)end + 1);
        return true;
    }
    while (n < rest->len && ascii_is_letter(rest->at[n]))
        n++;
    *rest = slice_skip(*rest, n);
    return n >= 3;
}

/* [+-]hh[:mm[:ss]] */
static bool take_rule_time(struct slice *rest, int most_hours, int32_t *ret_s)
{
    int hours, minutes = 0, seconds = 0;
    bool negative = slice_take(rest, '-');
    if (!negative)
        slice_take(rest, '+');
    if (!take_zone_number(rest, 0, most_hours, &hours))
        return false;
    if (slice_take(rest, ':')) {
        if (!take_zone_number(rest, 0, 59, &minutes))
            return false;
        if (slice_take(rest, ':') && !take_zone_number(rest, 0, 59, &seconds))
            return false;
    }
    int32_t all = hours * 3600 + minutes * 60 + seconds;
    *ret_s = negative ? -all : all;
    return true;
}

/* ,M3.5.0/2 */
static bool take_turn(struct slice *rest, struct zone_transition *ret)
{
    bool good;
    *ret = (struct zone_transition){.form = 'n', .time_s = 2 * 3600};
    if (!slice_take(rest, ','))
        return false;
    if (slice_take(rest, 'M')) {
        ret->form = 'M';
        good = take_zone_number(rest, 1, 12, &ret->month) && slice_take(rest, '.') &&
               take_zone_number(rest, 1, 5, &ret->week) && slice_take(rest, '.') &&
               take_zone_number(rest, 0, 6, &ret->day);
    } else if (slice_take(rest, 'J')) {
        ret->form = 'J';
        good = take_zone_number(rest, 1, 365, &ret->day);
    } else {
        good = take_zone_number(rest, 0, 365, &ret->day);
    }
    return good && (!slice_take(rest, '/') || take_rule_time(rest, 167, &ret->time_s));
}

static bool read_zone_rule(struct slice text, struct zone_rule *ret)
{
    int32_t west;
    *ret = (struct zone_rule){.given = text.len > 0};
    if (!ret->given)
        return true;
    if (!take_name(&text) || !take_rule_time(&text, 24, &west))
        return false;
    ret->standard_s = -west;
    if (text.len == 0)
        return true;
    ret->has_summer = true;
    ret->summer_s = ret->standard_s + 3600;
    if (!take_name(&text))
        return false;
    if (text.len > 0 && text.at[0] != ',') {
        if (!take_rule_time(&text, 24, &west))
            return false;
        ret->summer_s = -west;
    }
    return take_turn(&text, &ret->begin) && take_turn(&text, &ret->end) && text.len == 0;
}

/* A line between two ends of line, and no more. */
static bool read_footer(struct slice rest, struct zone_rule *ret)
{
    if (!slice_take(&rest, '\n') || rest.len == 0 ||
        slice_find(rest, '\n') != (ptrdiff_t)rest.len - 1)
        return false;
    return read_zone_rule(slice_make(rest.at, rest.len - 1), ret);
}

bool zone_read(struct slice bytes, struct arena *arena, struct zone *ret_zone)
{
    struct counts counts;
    *ret_zone = (struct zone){.n = 0};
    if (!take_zone_header(&bytes, &counts) || bytes.len < size_of(&counts, 4))
        return false;
    bytes = slice_skip(bytes, size_of(&counts, 4));
    if (!take_zone_header(&bytes, &counts) || bytes.len < size_of(&counts, 8) || counts.kinds == 0)
        return false;
    struct slice rest = bytes;
    return read_changes(&counts, &rest, arena, ret_zone) &&
           read_offsets(&counts, rest, arena, ret_zone) &&
           read_footer(slice_skip(bytes, size_of(&counts, 8)), &ret_zone->rule);
}

/* ---- what it says ---- */

static int64_t month_s(int year, int month)
{
    struct tm first = {.tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = 1};
    return timegm(&first);
}

static int64_t day_of_week_s(const struct zone_transition *transition, int year)
{
    int64_t first = month_s(year, transition->month), next = month_s(year, transition->month + 1);
    struct tm t = timestamp_fields(first);
    int64_t at = first + ((transition->day - t.tm_wday + 7) % 7 + (transition->week - 1) * 7) *
                             INT64_C(86400);
    return at < next ? at : at - INT64_C(7) * DAY_S;
}

/* By the clock on the wall. */
static int64_t transition_s(const struct zone_transition *transition, int year)
{
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if (transition->form == 'M')
        return day_of_week_s(transition, year) + transition->time_s;
    int day = transition->form == 'n' ? transition->day
                                      : transition->day - 1 + (leap && transition->day >= 60);
    return month_s(year, 1) + day * INT64_C(86400) + transition->time_s;
}

static int32_t offset_by_rule(const struct zone_rule *rule, int64_t at_s)
{
    if (!rule->has_summer)
        return rule->standard_s;
    struct tm t = timestamp_fields(at_s + rule->standard_s);
    int64_t begin = transition_s(&rule->begin, t.tm_year + 1900) - rule->standard_s;
    int64_t end = transition_s(&rule->end, t.tm_year + 1900) - rule->summer_s;
    bool summer = begin < end ? at_s >= begin && at_s < end : at_s >= begin || at_s < end;
    return summer ? rule->summer_s : rule->standard_s;
}

int32_t zone_offset_s(const struct zone *zone, int64_t at_s)
{
    size_t low = 0, high = zone->n; /* how many changes lie before it */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (zone->at_s[middle] <= at_s)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == zone->n && zone->rule.given)
        return offset_by_rule(&zone->rule, at_s);
    return zone->offsets_s[low == 0 ? 0 : zone->kinds[low - 1]];
}
