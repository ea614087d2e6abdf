/* SPDX-License-Identifier: Apache-2.0 */
#define OPENSSL_LOADS
#include "base/openssl.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>
#include <threads.h>

/* It brings libcrypto, which has its version. */
#define QUOTED(text) #text
#define LIBRARY(version) "libssl.so." QUOTED(version)
#define NAME LIBRARY(OPENSSL_SHLIB_VERSION)

struct openssl openssl;
static const char *problem;

static void load(void)
{
    static const struct {
        const char *name;
        size_t offset;
    } functions[] = {
#define X(name) {#name, offsetof(struct openssl, name)},
        OPENSSL_FUNCTIONS(X)
#undef X
    };
    void *library = dlopen(NAME, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        problem = NAME " is not installed (on Debian: apt install libssl3)";
        return;
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *function = dlsym(library, functions[i].name);
        if (!function)
            problem = NAME " is older than the one that pawl was built for";
        memcpy((char *)&openssl + functions[i].offset, &function, sizeof function);
    }
}

const char *openssl_load(void)
{
    static once_flag once = ONCE_FLAG_INIT;
    call_once(&once, load);
    return problem;
}
