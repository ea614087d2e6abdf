/* SPDX-License-Identifier: Apache-2.0 */
/* The valid name that somebody probably meant: fewest letters changed, left out, added,
 * swapped, in whatever case. */
#ifndef PAWL_BASE_NEAREST_H
#define PAWL_BASE_NEAREST_H

#include "base/slice.h"

/* Of several names the nearest to `given`: each is tried, then it is asked which it is. All zero
 * but `given` at first. */
struct nearest {
    struct slice given;
    struct slice best; /* `at` NULL: none was tried */
    size_t distance;   /* letters that differ */
};

void nearest_try(struct nearest *nearest, struct slice name);

/* The nearest one of them; `.at` NULL: none is near enough to be worth a question. */
struct slice nearest_name(const struct nearest *nearest);

#endif
