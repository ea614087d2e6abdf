/* SPDX-License-Identifier: Apache-2.0 */
/*
 * structured: as much of RFC 9651 (Structured Field Values for HTTP) as an Item that is a String
 * needs. Each reader takes what it read off the front of `*rest`, and nothing when it returns
 * false.
 */
#ifndef PAWL_CORE_STRUCTURED_H
#define PAWL_CORE_STRUCTURED_H

#include "base/arena.h"

/* A String (4.2.5): what is between the quotes, escapes still in it. */
bool structured_string(struct slice *rest, struct slice *ret_inside, bool *ret_escaped);

/* The text of a String's inside; `.at` NULL: no memory. */
struct slice structured_unescape(struct slice inside, struct arena *arena);

/* Parameters (4.2.3.2), perhaps none, with bare items of every type. */
bool structured_parameters(struct slice *rest);

#endif
