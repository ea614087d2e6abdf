/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decimal numbers, exactly: a JSON number literal (RFC 8259 section 6) counts by its decimal value
 * and never goes through a double, so that 9007199254740993 and ...992 stay two numbers while 1.0,
 * 1 and 1e0 are one.
 */
#ifndef PAWL_BASE_NUMBER_H
#define PAWL_BASE_NUMBER_H

#include "base/buf.h"

#define NUMBER_DIGITS_MAX 1000   /* between the first and the last digit that is not 0 */
#define NUMBER_EXPONENT_MAX 9999 /* of d.ddd x 10^e, in both directions */

/* Whether the value has a canonical form. It is the value that is bounded, not the literal: a 1,
 * two thousand zeros and e-2000 is 1. */
bool number_is_bounded(struct slice literal);

/* Appends the canonical form: the digits without leading or trailing zeros, laid out as
 * ECMAScript's Number::toString (ECMA-262 6.1.6.1.20) lays out the digits of a double; -0 is 0. Two
 * literals get the same text exactly when they have the same value. False, and nothing added: not
 * bounded. */
bool number_add_canonical(struct buf *buf, struct slice literal);

#endif
