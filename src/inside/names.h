/* SPDX-License-Identifier: Apache-2.0 */
/* names: what a tenant, a rule, a key may be, and spans of time; as the SQL functions have it. */
#ifndef PAWL_INSIDE_NAMES_H
#define PAWL_INSIDE_NAMES_H

#include "base/crypto/digest.h"
#include <stdint.h>

/* `tenant` NULL: none. NULL: nothing is wrong; else a sentence. */
const char *names_problem(const char *tenant, const char *rule, const char *key);

/* Microseconds; PAWL_FOREVER: CLOCK_NEVER. False: negative, or more than 100000 days. */
bool names_span(int64_t ms, int64_t *ret_us);

/* Reads 64 hex digits; NULL: one of zeros, which is not compared. False: they are none. */
bool names_digest(const char *hex, struct digest *ret_digest);

#endif
