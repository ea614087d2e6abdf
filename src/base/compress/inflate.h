/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding of `Content-Encoding: gzip | deflate` (RFC 9110 8.4.1), bounded.
 *
 * gzip (RFC 1952): one member or several in a row. deflate: the zlib format (RFC 1950), or the raw
 * stream (RFC 1951) that some clients send; which of the two is told by the first two bytes.
 * Whatever follows the end, and an end that is missing, is BROKEN.
 */
#ifndef PAWL_BASE_INFLATE_H
#define PAWL_BASE_INFLATE_H

#include "base/buf.h"

enum inflate_format {
    INFLATE_GZIP,
    INFLATE_DEFLATE,
};

enum inflate_result {
    INFLATE_OK,
    INFLATE_TOO_LARGE, /* more than `max` bytes, or than `out` may hold */
    INFLATE_BROKEN,
    INFLATE_NO_MEMORY,
};

/* The format of a content coding: gzip, x-gzip, deflate. False: of no other. */
bool inflate_format_read(struct slice coding, enum inflate_format *ret_format);

/* Appends the decoded bytes, at most `max`. Unless the result is INFLATE_OK, `out` has the length
 * it had (and has failed, when it was `out` that found no memory). */
enum inflate_result inflate_decode(enum inflate_format format, struct slice in, size_t max,
                                   struct buf *out);

#endif
