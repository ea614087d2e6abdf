/* SPDX-License-Identifier: Apache-2.0 */
/* condition: what tells a response apart beside its status: a scalar of its JSON body, or a header.
 * Slices are borrowed. */
#ifndef PAWL_CORE_CONDITION_H
#define PAWL_CORE_CONDITION_H

#include "base/headers.h"
#include "base/json.h"

struct condition {
    struct slice place; /* a JSON pointer that begins with '/', else the name of a header */
    struct slice value; /* JSON's true, false, null, a number or a "string"; else it is that text */
};

#define CONDITION_PLACE_MAX ((size_t)256)

/* Reads `/errors/0/code=THROTTLED` (the first = ends the pointer), or `Name: value`. False: it is
 * neither. */
bool condition_read(struct slice text, struct condition *ret_condition);

/* Whether it is about a body. */
bool condition_is_of_body(const struct condition *condition);

/* Whether a response has it. Numbers count by their value. `body`: its tree; NULL: it is no JSON,
 * or not whole. */
bool condition_holds(const struct condition *condition, const struct headers *headers,
                     const struct json *body);

#endif
