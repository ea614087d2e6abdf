/* SPDX-License-Identifier: Apache-2.0 */
/*
 * path: the path of a request, normalised (contract section 3), and in how many ways servers read
 * one: a path that some server would read so that it meets a rule must not pass by.
 */
#ifndef PAWL_CORE_PATH_H
#define PAWL_CORE_PATH_H

#include "base/arena.h"
#include "base/slice.h"

enum path_reading {
    PATH_SLASH_ESCAPE = 1, /* %2F separates */
    PATH_BACKSLASH = 2,    /* '\' and %5C separate */
    PATH_MERGE = 4,        /* '//' is '/' */
    PATH_DOTS = 8,         /* '.' and '..' segments are resolved */
    PATH_PARAMETERS = 16,  /* a segment ends at ';' */
    PATH_NUL_ENDS = 32,    /* the path ends at %00 */
    PATH_NUL_DROPS = 64,   /* %00 is left out; not together with PATH_NUL_ENDS */
    PATH_DROP = 128,       /* so are encoded control characters and spaces, and dots at the end of
                              a segment */
    PATH_QUERY_ENDS = 256, /* the path ends at %3F or %23, as at '?' and '#' */
    PATH_READINGS = 512,
};

/* The path as rules see and hashes count it: unreserved percent-escapes decoded, other escapes in
 * upper case, a '%' that starts no escape as %25, one trailing slash dropped; "/" when empty. Twice
 * is the same as once, save of '//' at the end. In `arena`; `.at` NULL: no memory. */
struct slice path_normalise(struct slice path, struct arena *arena);

/* Whether the path holds what servers read in different ways: a '.' or '..' segment (escaped, or
 * with ;parameters, too), '//', '\', %2F, %5C, %00 or NUL. */
bool path_is_ambiguous(struct slice path);

/* Whether a segment is '.' or '..', or would have one of them in it for a server that decodes %2F,
 * %5C and '\' to slashes, drops spaces at both ends, or ends it at %3F or %23. */
bool path_has_dots(struct slice segment);

/* Whether it is empty to such a server, or nothing but slashes; ";parameters" are no name. */
bool path_is_nameless(struct slice segment);

/* The choices, as bits, that make a difference in how servers read this normalised path: readings
 * that differ in other choices alone are the same. */
unsigned path_choices(struct slice normalised);

/* Whether some server takes what a segment holds for another text: it ends it at ';', %3F or %23,
 * drops control characters, spaces and dots at its ends, or reads %uXXXX. A space inside is one. */
bool path_is_unclean(struct slice normalised);

/* The normalised path as a server sees it that decodes once too often: %25 before two digits is the
 * '%' of an escape, %25u002F is %2F, and overlong UTF-8 is what it stands for; normalised. The path
 * itself where there is nothing of that, a shorter one else. `.at` NULL: no memory. */
struct slice path_decode_again(struct slice normalised, struct arena *arena);

/* Writes the path as read so, at most normalised.len + 1 bytes, starting with '/', without a slash
 * at its end; returns its length. */
size_t path_read(struct slice normalised, unsigned reading, char *ret_text);

#endif
