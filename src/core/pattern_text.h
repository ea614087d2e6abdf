/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a pattern, before it is compiled: for core/pattern*.c alone. */
#ifndef PAWL_CORE_PATTERN_TEXT_H
#define PAWL_CORE_PATTERN_TEXT_H

#include "base/slice.h"

/* What is wrong with a pattern, in a sentence that lives for ever; empty: it is taken. */
struct slice pattern_text_problem(struct slice pattern);

/* How long the [:class:], [.x.] or [=x=] at the start is; 0: it is none, or not closed. */
size_t pattern_class_length(struct slice text);

/* What stands inside `{n}`, `{n,}` or `{n,m}`; the most is UINT64_MAX where it is open. */
bool pattern_read_bound(struct slice inside, uint64_t *ret_least, uint64_t *ret_most);

#endif
