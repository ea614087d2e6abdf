/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pattern: a POSIX extended regular expression that a text must match as a whole. Pure.
 *
 * Patterns come from the config, texts from strangers, so nothing here may grow with what is
 * matched, as regexec does (docs/decisions/0009-what-trying-it-found.md): a compiled pattern is a
 * set of positions (one for each character or bracket expression, bounds written out) and masks
 * over that set; matching takes one of them for each position that the last byte led to, and
 * allocates nothing. Bytes count, in the C locale; '.' is any byte but NUL.
 */
#ifndef PAWL_CORE_PATTERN_H
#define PAWL_CORE_PATTERN_H

#include "base/arena.h"

#define PATTERN_MAX 256            /* bytes */
#define PATTERN_POSITIONS_MAX 1024 /* with all bounds written out */
#define PATTERN_TEXT_MAX 255       /* a longer text never matches */

struct pattern;

/* Compiles `text` into `arena`. Refused are back-references, nested repeats, bounds over 255 (over
 * 320 in all), more than 256 bytes or 1024 positions, '^' elsewhere than at the start and '$'
 * elsewhere than at the end, and what POSIX leaves undefined, such as \d and (?:..); also a
 * backslash in brackets before a letter or '-': there it is itself. NULL: `*ret_problem` says why,
 * in a sentence that lives for ever. */
const struct pattern *pattern_compile(struct slice text, struct arena *arena,
                                      struct slice *ret_problem);

/* Whether all of `text` matches. Thread-safe, and the time is bounded: each of at most 255 bytes
 * joins at most 1024 masks of 16 words, which takes some milliseconds; a usual pattern takes 1 us.
 */
bool pattern_matches(const struct pattern *pattern, struct slice text);

#endif
