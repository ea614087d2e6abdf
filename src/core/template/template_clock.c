/* SPDX-License-Identifier: Apache-2.0 */
#include "core/template/template_clock.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/time/timestamp.h"
#include "core/template/template_priv.h"

#include <stdio.h>
#include <stdlib.h>

/* The years 1 to 9998: four digits, in every zone. */
#define FIRST_S INT64_C(-62135596800)
#define END_S INT64_C(253370764800)
#define DAY_S INT64_C(86400)
#define TEXT_SIZE 48

bool template_part_is_clock(const struct template_part *part)
{
    return part->source == TEMPLATE_DATE || part->source == TEMPLATE_HOUR ||
           part->source == TEMPLATE_WEEK || part->source == TEMPLATE_MONTH;
}

bool template_has_clock(const struct template *template)
{
    for (size_t i = 0; i < template->n; i++)
        if (template_part_is_clock(&template->parts[i]))
            return true;
    return false;
}

bool template_part_asks_zone(const struct template_part *part)
{
    return template_part_is_clock(part) && part->text.len > 0 && part->text.at[0] == '/';
}

static const struct zone *zone_of(const struct template_facts *facts,
                                  const struct template_part *part)
{
    struct slice name = part->text;
    if (template_part_asks_zone(part)) {
        const struct json *json = template_json_at(facts, part->text);
        name = json && json->type == JSON_STRING ? json->text : slice_make(NULL, 0);
    }
    return facts->zones ? zones_find(facts->zones, name) : NULL;
}

/* A week belongs to the year in which its Thursday is (ISO 8601), and is the nth in which the
 * Thursday is the nth of that year. */
static size_t write_week(int64_t local_s, char text[TEXT_SIZE])
{
    int64_t first_s;
    struct tm t = timestamp_fields(local_s);
    int64_t thursday_s = local_s + (3 - (t.tm_wday + 6) % 7) * DAY_S;
    t = timestamp_fields(thursday_s);
    struct tm first = {.tm_year = t.tm_year, .tm_mday = 1};
    CHECK(timestamp_seconds(&first, &first_s));
    int64_t week = (thursday_s - first_s) / (7 * DAY_S) + 1;
    return (size_t)snprintf(text, TEXT_SIZE, "%04d-W%02d", t.tm_year + 1900, (int)week);
}

static size_t write_clock(const struct template_part *part, int64_t local_s, int32_t offset_s,
                          char text[TEXT_SIZE])
{
    int minutes = abs(offset_s) / 60;
    struct tm t = timestamp_fields(local_s);
    if (part->source == TEMPLATE_WEEK)
        return write_week(local_s, text);
    if (part->source == TEMPLATE_MONTH)
        return (size_t)snprintf(text, TEXT_SIZE, "%04d-%02d", t.tm_year + 1900, t.tm_mon + 1);
    int n = snprintf(text, TEXT_SIZE, "%04d-%02d-%02d", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday);
    if (part->source == TEMPLATE_HOUR)
        n += snprintf(text + n, TEXT_SIZE - (size_t)n, "T%02d", t.tm_hour);
    if (part->source == TEMPLATE_HOUR && part->text.len == 0)
        n += snprintf(text + n, TEXT_SIZE - (size_t)n, "Z");
    else if (part->source == TEMPLATE_HOUR)
        n += snprintf(text + n, TEXT_SIZE - (size_t)n, "%c%02d%02d", offset_s < 0 ? '-' : '+',
                      minutes / 60, minutes % 60);
    return (size_t)n;
}

/* Towards the past. */
static int64_t clock_seconds(int64_t us)
{
    return us / CLOCK_US_PER_S - (us % CLOCK_US_PER_S < 0);
}

enum template_result template_clock_value(const struct template_facts *facts,
                                          const struct template_part *part, struct arena *arena,
                                          struct slice *ret_value)
{
    char text[TEXT_SIZE];
    int64_t now_s = clock_seconds(facts->now_us);
    const struct zone *zone = part->text.len > 0 ? zone_of(facts, part) : NULL;
    if ((part->text.len > 0 && !zone) || now_s < FIRST_S || now_s >= END_S)
        return TEMPLATE_MISSING;
    int32_t offset_s = zone ? zone_offset_s(zone, now_s) : 0;
    size_t len = write_clock(part, now_s + offset_s, offset_s, text);
    *ret_value = arena_copy(arena, slice_make(text, len));
    return ret_value->at ? TEMPLATE_OK : TEMPLATE_NO_MEMORY;
}

void template_clock_explain(const struct template_facts *facts, const struct template_part *part,
                            struct buf *buf)
{
    const struct json *json = template_json_at(facts, part->text);
    if (json && json->type == JSON_STRING)
        buf_add_str(buf, ", which is not the name of a time zone, such as Europe/Berlin");
    else if (json)
        buf_add_str(buf, ", which is not a text with the name of a time zone");
}

bool template_same_but_clocks(struct slice a, struct slice b, const struct template_clocks *clocks)
{
    size_t from = 0;
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < clocks->n; i++) {
        CHECK(from <= clocks->range[i].at && clocks->range[i].at + clocks->range[i].len <= b.len);
        if (memcmp(a.at + from, b.at + from, clocks->range[i].at - from) != 0)
            return false;
        from = clocks->range[i].at + clocks->range[i].len;
    }
    return slice_eq(slice_skip(a, from), slice_skip(b, from));
}
