/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stored times (microseconds since 1970, UTC) as ISO 8601 with milliseconds:
 * `2026-11-20T10:00:00.123Z`. Years 0000 to 9999, no leap seconds.
 */
#ifndef PAWL_BASE_TIMESTAMP_H
#define PAWL_BASE_TIMESTAMP_H

#include "base/buf.h"

#include <time.h>

#define TIMESTAMP_LEN 24

/* As gmtime_r, which takes the lock of the process's time zone, and ten times as long; for the
 * years 0000 to 9999, without the day of the year. */
struct tm timestamp_fields(int64_t seconds);

/* Seconds since 1970 of a date and time in UTC; its day of the week and of the year do not count.
 * False: there is no such date or time. */
bool timestamp_seconds(const struct tm *fields, int64_t *ret_seconds);

/* Appends the time, what is below a millisecond cut off (towards the past). False, and nothing
 * appended: the year has not four digits. */
bool timestamp_print(struct buf *buf, int64_t us);

/* Reads exactly that form, or the same without its milliseconds, as people write it:
 * `2026-11-20T10:00:00Z`. False for anything else, dates that do not exist included. */
bool timestamp_parse(struct slice text, int64_t *ret_us);

/* Reads an instant as RFC 3339 writes it: `2026-02-19T22:00:00-05:00`, with `Z` or its distance
 * from UTC, and any fraction of a second; digits beyond microseconds are cut off. */
bool timestamp_parse_instant(struct slice text, int64_t *ret_us);

#endif
