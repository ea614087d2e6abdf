/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP dates (RFC 9110 5.6.7), years 0 to 9999. Names are English, whatever the locale. */
#ifndef PAWL_BASE_HTTP_DATE_H
#define PAWL_BASE_HTTP_DATE_H

#include "base/slice.h"

#define HTTP_DATE_LEN 29

/* Writes the IMF-fixdate of wall-clock microseconds, and a NUL. */
void http_date_write(int64_t wall_us, char ret_text[HTTP_DATE_LEN + 1]);

/* Reads any of the three forms:
 *     Sun, 06 Nov 1994 08:49:37 GMT    IMF-fixdate
 *     Sunday, 06-Nov-94 08:49:37 GMT   RFC 850: the year is the one within 50 years of `now_us`,
 *                                      as section 5.6.7 says
 *     Sun Nov  6 08:49:37 1994         asctime
 * Both clocks count microseconds since 1970. The name of the day must be one, and is not compared
 * with the date, as senders get it wrong. False for anything else, dates that do not exist
 * included; a leap second is the second after it. */
bool http_date_read(struct slice text, int64_t now_us, int64_t *ret_us);

#endif
