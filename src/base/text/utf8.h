/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UTF-8 as Unicode table 3-7 has it (RFC 3629): no overlong form, no surrogate, nothing above
 * U+10FFFF.
 */
#ifndef PAWL_BASE_UTF8_H
#define PAWL_BASE_UTF8_H

#include "base/slice.h"

#define UTF8_LENGTH_MAX 4

/* The length (1 to 4) of the well-formed character at the start of `s`; 0: there is none. */
size_t utf8_length(struct slice s);

/* Whether all of `s` is well-formed. */
bool utf8_valid(struct slice s);

/* The code point of a well-formed character of `n` bytes. */
uint32_t utf8_code(const char *at, size_t n);

/* Code points from one to another. */
struct utf8_range {
    uint32_t first, last;
};

/* Whether `code` is in one of an array's ranges. */
bool utf8_is_in(uint32_t code, const struct utf8_range *ranges, size_t n);
#define UTF8_IS_IN(code, ranges) utf8_is_in(code, ranges, COUNT_OF(ranges))

/* Whether a well-formed character is one that a terminal acts on or does not show: C0, DEL, C1, and
 * the marks that reorder text or are not seen. */
bool utf8_is_hidden(struct slice character);

/* Writes `code` (at most U+10FFFF; a surrogate is written like any other) and returns its length.
 */
size_t utf8_encode(uint32_t code, char ret_bytes[UTF8_LENGTH_MAX]);

/* Compares well-formed texts by their UTF-16 code units, as ECMAScript orders strings: less than,
 * equal to or greater than 0. Differs from byte order where U+E000..U+FFFF meets what lies above.
 */
int utf8_compare_as_utf16(struct slice a, struct slice b);

#endif
