/* SPDX-License-Identifier: Apache-2.0 */
#include "store/postgres/libpq.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>
#include <threads.h>

#define LIBRARY "libpq.so.5"

struct libpq libpq;
static const char *problem;

static void load(void)
{
    static const struct {
        const char *name;
        size_t offset;
    } functions[] = {
#define X(name) {"PQ" #name, offsetof(struct libpq, name)},
        LIBPQ_FUNCTIONS(X)
#undef X
    };
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        problem = LIBRARY " is not installed (on Debian: apt install libpq5)";
        return;
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *function = dlsym(library, functions[i].name);
        if (!function)
            problem = LIBRARY " is older than PostgreSQL 14";
        memcpy((char *)&libpq + functions[i].offset, &function, sizeof function);
    }
}

const char *libpq_load(void)
{
    static once_flag once = ONCE_FLAG_INIT;
    call_once(&once, load);
    return problem;
}
