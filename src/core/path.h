/* SPDX-License-Identifier: Apache-2.0 */
/*
 * path: in how many ways servers read one path. For the search of a rule: a path that some server
 * would read so that it meets a rule must not pass by. The plain functions are in core/rule.h.
 */
#ifndef PAWL_CORE_PATH_H
#define PAWL_CORE_PATH_H

#include "base/slice.h"

enum path_reading {
    PATH_SLASH_ESCAPE = 1, /* %2F separates */
    PATH_BACKSLASH = 2,    /* '\' and %5C separate */
    PATH_MERGE = 4,        /* '//' is '/' */
    PATH_DOTS = 8,         /* '.' and '..' segments are resolved */
    PATH_PARAMETERS = 16,  /* a segment ends at ';' */
    PATH_NUL_ENDS = 32,    /* the path ends at %00 */
    PATH_NUL_DROPS = 64,   /* %00 is left out; not together with PATH_NUL_ENDS */
    PATH_READINGS = 128,
};

/* The choices in which readings of this normalised path can differ; a reading that makes others is
 * the same as another one. */
unsigned path_choices(struct slice normalised);

/* Writes the path as read so, at most normalised.len + 1 bytes, starting with '/', without a slash
 * at its end; returns its length. */
size_t path_read(struct slice normalised, unsigned reading, char *ret_text);

#endif
