/* SPDX-License-Identifier: Apache-2.0 */
/*
 * library: a shared library that is loaded by its name when something first needs it, and not
 * linked, so that commands that do not need it start without its relocations.
 */
#ifndef PAWL_BASE_LIBRARY_H
#define PAWL_BASE_LIBRARY_H

#include <stddef.h>

struct library_function {
    const char *name;
    size_t offset; /* of its pointer, in the table */
};

enum library_result {
    LIBRARY_LOADED,
    LIBRARY_ABSENT,
    LIBRARY_LACKS, /* it is there, and one of the functions is not */
};

/* Loads it for the life of the process, and fills in a table of pointers to its functions. Not for
 * two threads at once: the caller sees to that (call_once). */
enum library_result library_load(const char *name, const struct library_function *functions,
                                 size_t n, void *table);

#endif
