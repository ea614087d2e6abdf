/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Durations and numbers of bytes as people write them in the configuration and on the command
 * line. Strict: an integer without sign, blanks or leading zeros, and its unit.
 *
 *     duration   150ms  10s  5m  24h  7d  forever  0
 *     size       512  64KiB  1MiB  2GiB
 */
#ifndef PAWL_BASE_DURATION_H
#define PAWL_BASE_DURATION_H

#include "base/buf.h"

/* Microseconds; `forever` is CLOCK_NEVER. Only 0 may stand without a unit. False: something else,
 * or more than an int64 of microseconds holds. */
bool duration_parse(struct slice text, int64_t *ret_us);

/* Appends in the largest unit that holds `us` (>= 0) exactly, as duration_parse reads it. What is
 * no whole millisecond is written in `us`, which is for people and is not read back. */
void duration_print(struct buf *buf, int64_t us);

/* Bytes. False: something else, or a number of more than 19 digits, or more than a uint64 holds. */
bool size_parse(struct slice text, uint64_t *ret_bytes);

#endif
