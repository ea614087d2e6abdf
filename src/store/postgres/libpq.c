/* SPDX-License-Identifier: Apache-2.0 */
#include "store/postgres/libpq.h"
#include "base/library.h"

#include <stddef.h>
#include <threads.h>

#define LIBRARY "libpq.so.5"

struct libpq libpq;
static const char *problem;

static void load_libpq(void)
{
    static const struct library_function functions[] = {
#define X(name) {"PQ" #name, offsetof(struct libpq, name)},
        LIBPQ_FUNCTIONS(X)
#undef X
    };
    static const char *const problems[] = {
        [LIBRARY_LOADED] = NULL,
        [LIBRARY_ABSENT] = LIBRARY " is not installed (on Debian: apt install libpq5)",
        [LIBRARY_LACKS] = LIBRARY " is older than PostgreSQL 14",
    };
    problem =
        problems[library_load(LIBRARY, functions, sizeof functions / sizeof *functions, &libpq)];
}

const char *libpq_load(void)
{
    static once_flag once = ONCE_FLAG_INIT;
    call_once(&once, load_libpq);
    return problem;
}
