/* SPDX-License-Identifier: Apache-2.0 */
/* headers: those of a response as a JSON object, as callers give and get them, and as the lines
 * that are stored (core/outcome.h). A name that comes several times has an array of its values. */
#ifndef PAWL_INSIDE_HEADERS_H
#define PAWL_INSIDE_HEADERS_H

#include "base/arena.h"
#include "base/buf.h"

/* Appends lines, without those that say how a response was delivered (outcome_keep_fields). NULL:
 * done; else a sentence. */
const char *headers_to_lines(struct slice json, struct arena *arena, struct buf *lines);

/* Appends the object. */
void headers_to_json(struct slice lines, struct buf *json);

#endif
