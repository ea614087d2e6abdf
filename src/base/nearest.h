/* SPDX-License-Identifier: Apache-2.0 */
/* The valid name that somebody probably meant: fewest letters changed, left out, added, swapped. */
#ifndef PAWL_BASE_NEAREST_H
#define PAWL_BASE_NEAREST_H

#include "base/slice.h"

#define NEAREST_NAME_MAX 32 /* longer ones are near to nothing */

/* How many letters differ; NEAREST_NAME_MAX when either is too long. */
size_t nearest_distance(struct slice a, struct slice b);

/* Whether a name that differs from `given` in so many letters is worth a question. */
bool nearest_is_near(struct slice given, size_t distance);

/* Of several names the nearest to `given`: each is tried, then it is asked which it is. All zero
 * but `given` at first. */
struct nearest {
    struct slice given;
    struct slice best; /* `at` NULL: none was tried */
    size_t distance;
};

void nearest_try(struct nearest *nearest, struct slice name);

/* The nearest one of them; `.at` NULL: none is near enough to be worth a question. */
struct slice nearest_name(const struct nearest *nearest);

#endif
