/* SPDX-License-Identifier: Apache-2.0 */
/*
 * complaints: what is wrong with a config, each with its position, printed together. Bounded: after
 * COMPLAINTS_MAX the rest is counted.
 */
#ifndef PAWL_CONFIG_COMPLAINTS_H
#define PAWL_CONFIG_COMPLAINTS_H

#include "base/arena.h"
#include <stdarg.h>

#define COMPLAINTS_MAX 20

/* Of a value or a name; both count from 1, columns in characters. */
struct place {
    size_t line;
    size_t column;
};

struct complaints {
    const char *path;
    struct arena arena;
    size_t n;
    size_t more; /* beyond COMPLAINTS_MAX */
    struct complaint {
        struct place place;
        struct slice text; /* "key: what is wrong" */
    } at[COMPLAINTS_MAX];
};

void complaints_init(struct complaints *complaints, const char *path);
void complaints_fini(struct complaints *complaints);

/* Adds `key: TEXT`; the same text at the same place counts once. */
void complaints_add(struct complaints *complaints, struct place place, struct slice key,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));
void complaints_add_list(struct complaints *complaints, struct place place, struct slice key,
                         const char *format, va_list args);

/* Lines `FILE:LINE:COLUMN: key: text`, in the file's order; "" without any. NULL: no memory. The
 * caller frees it with mem_free. */
char *complaints_print(struct complaints *complaints);

#endif
