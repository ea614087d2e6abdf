/* SPDX-License-Identifier: Apache-2.0 */
/* condition: what tells a response apart beside its status: a scalar of its JSON body, or a header;
 * and what rules make of them, for JSON bodies alone. Slices are borrowed. */
#ifndef PAWL_CORE_CONDITION_H
#define PAWL_CORE_CONDITION_H

#include "base/headers.h"
#include "base/json/json.h"

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
 * or not whole. `arena` is for what it compares: where it has failed, nothing is known. */
bool condition_holds(const struct condition *condition, const struct headers *headers,
                     const struct json *body, struct arena *arena);

/* The tree of a whole body that conditions can be about: JSON without a content coding, within the
 * limits of base/json/json.h. NULL: it is none, or `arena` has failed. Lives in `arena`, over
 * `body`; CONDITION_ARENA_MAX is enough for any. */
#define CONDITION_ARENA_MAX ((size_t)512 * 1024 * 1024) /* 40 times its text */
const struct json *condition_read_body(const struct headers *headers, struct slice body,
                                       struct arena *arena);

/* ---- of rules ---- */

#define CONDITION_PARTS_MAX 5   /* of one response_condition */
#define CONDITION_VALUES_MAX 16 /* of one part */
#define CONDITIONS_MAX 16       /* of one list */

/* One of `n` values is at the pointer, or nothing is: null is not absent. */
struct condition_part {
    struct slice pointer;
    bool absent;
    size_t n;                   /* without `absent` */
    const struct slice *values; /* as struct condition has them */
};

/* Holds where all of its parts do. */
struct response_condition {
    int status;      /* of such a response alone; 0: of any */
    bool of_success; /* of a 2xx alone */
    size_t n;
    struct condition_part parts[CONDITION_PARTS_MAX];
};

struct response_conditions {
    size_t n;
    const struct response_condition *at;
};

/* Whether any of them holds. `body` and `arena` as condition_holds takes them. */
bool response_conditions_hold(const struct response_conditions *conditions, int status,
                              const struct json *body, struct arena *arena);

#endif
