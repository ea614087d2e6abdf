/* SPDX-License-Identifier: Apache-2.0 */
/* A path as the most eager server would read it: what the search for a rule must not let pass. */
#ifndef PAWL_TESTS_UNIT_EAGER_PATH_H
#define PAWL_TESTS_UNIT_EAGER_PATH_H

#include "core/request/path.h"
#include "core/request/rule.h"

/* With all that servers read in different ways resolved, and without ";parameters". In `arena`;
 * `.at` NULL: no memory. */
static inline struct slice path_resolve(struct slice path, struct arena *arena)
{
    struct slice normal = path_normalise(path, arena);
    char *text = normal.at ? arena_alloc(arena, normal.len + 1) : NULL;
    if (!text)
        return slice_make(NULL, 0);
    unsigned eager = PATH_SLASH_ESCAPE | PATH_BACKSLASH | PATH_MERGE | PATH_DOTS | PATH_PARAMETERS |
                     PATH_NUL_ENDS;
    return slice_make(text, path_read(normal, eager, text));
}

#endif
