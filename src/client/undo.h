/* SPDX-License-Identifier: Apache-2.0 */
/*
 * undo: the reverse of a step of a list (core/steps.h). It is given as JSON with the members of an
 * operation (queue_line.c; its method is POST if it names none), and may name what the step's
 * response said:
 *
 *      {"method": "DELETE", "url": "https://api.example.com/holds/{response:/id}"}
 *      {"method": "POST", "url": "{location}/cancel", "json": {"hold": "{response:/id}"}}
 *
 * {response:/POINTER} is a value of its body. Under `json` a string that is nothing else keeps the
 * value's type; everywhere else it is text, a number its digits as they came. A URL is judged
 * (core/request/filled.h), and no value may be in front of its path. {location} is its Location, of
 * the step's own origin alone and without dot segments: a response cannot send the reverse
 * elsewhere.
 */
#ifndef PAWL_CLIENT_UNDO_H
#define PAWL_CLIENT_UNDO_H

#include "base/arena.h"
#include "base/slice.h"

#define UNDO_RESPONSE_MOST ((size_t)256 * 1024) /* bytes of a response that are kept */

/* What the step's response said. */
struct undo_response {
    struct slice url;    /* of the step */
    struct slice fields; /* its header lines, each with its CR LF */
    struct slice body;
};

/* Whether it would be an operation, whatever the response says. False: `*ret_problem` (in the
 * arena) says why not. */
bool undo_check(struct slice undo, struct arena *arena, struct slice *ret_problem);

/* Fills in what it names, into the arena. `response` NULL: there is none. Empty: it would be no
 * operation, or another one; `*ret_problem` (in the arena) says why; or the arena has failed, and
 * nothing is known. */
struct slice undo_fill(struct slice undo, const struct undo_response *response, struct arena *arena,
                       struct slice *ret_problem);

/* What the store keeps of an undo: as it was given, or marked as filled in, or as one that cannot
 * be, and why. */
struct slice undo_mark(struct slice filled, struct arena *arena);
struct slice undo_mark_unfilled(struct slice undo, struct slice problem, struct arena *arena);
bool undo_is_marked(struct slice stored);
/* What was filled in; empty: nothing was. */
struct slice undo_unmark(struct slice stored);

#endif
