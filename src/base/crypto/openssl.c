/* SPDX-License-Identifier: Apache-2.0 */
#define OPENSSL_LOADS
#include "base/crypto/openssl.h"
#include "base/library.h"

#include <stddef.h>
#include <threads.h>

/* It brings libcrypto, which has its version. */
#define QUOTED(text) #text
#define LIBRARY(version) "libssl.so." QUOTED(version)
#define NAME LIBRARY(OPENSSL_SHLIB_VERSION)

struct openssl openssl;
static const char *problem;

static void load_openssl(void)
{
    static const struct library_function functions[] = {
#define X(name) {#name, offsetof(struct openssl, name)},
        OPENSSL_FUNCTIONS(X)
#undef X
    };
    static const char *const problems[] = {
        [LIBRARY_LOADED] = NULL,
        [LIBRARY_ABSENT] = NAME " is not installed (on Debian: apt install libssl3)",
        [LIBRARY_LACKS] = NAME " is older than the one that pawl was built for",
    };
    problem =
        problems[library_load(NAME, functions, sizeof functions / sizeof *functions, &openssl)];
}

const char *openssl_load(void)
{
    static once_flag once = ONCE_FLAG_INIT;
    call_once(&once, load_openssl);
    return problem;
}
