/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time zones: TZif files (RFC 8536, version 2 and later) as they stand in /usr/share/zoneinfo, and
 * what they say. Reading is strict and bounded; files with leap seconds are refused, as wall time
 * here has none. Nothing depends on TZ or on the process's own zone.
 */
#ifndef PAWL_BASE_ZONE_H
#define PAWL_BASE_ZONE_H

#include "base/arena.h"
#include "base/slice.h"

#define ZONE_FOLDER "/usr/share/zoneinfo"
#define ZONE_NAME_MAX 64

/* A day of each year and a time of it, as a TZ string says them. */
struct zone_transition {
    char form;            /* 'M': day of a week of a month; 'J': 1 to 365; 'n': 0 to 365 */
    int month, week, day; /* `day` alone in the forms 'J' and 'n' */
    int32_t time_s;       /* of that day, perhaps of another */
};

/* All that lies behind the last change that the file lists. */
struct zone_rule {
    bool given;
    bool has_summer;
    int32_t standard_s; /* east of UTC */
    int32_t summer_s;
    struct zone_transition begin, end; /* of summer time */
};

struct zone {
    struct slice name;
    size_t n;             /* changes, in ascending order */
    const int64_t *at_s;  /* when, seconds since 1970 */
    const uint8_t *kinds; /* from then on: an index of `offsets_s` */
    const int32_t *offsets_s;
    struct zone_rule rule;
};

/* Area/City: words of letters, digits, '_', '+' and '-' with '/' between them; none of the names
 * that mean this machine or count leap seconds. */
bool zone_name_valid(struct slice name);

/* Reads a file; what it makes lives in `arena`. False: it is no such file, or there is no memory
 * (arena->failed). The name is the caller's to set. */
bool zone_read(struct slice bytes, struct arena *arena, struct zone *ret_zone);

/* Seconds east of UTC at a time, which lies in the years 1 to 9998. */
int32_t zone_offset_s(const struct zone *zone, int64_t at_s);

#endif
