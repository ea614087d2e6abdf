/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"
#include "base/check.h"

#include <errno.h>
#include <sys/random.h>
#include <sys/types.h>

void random_bytes(void *ret_bytes, size_t n)
{
    char *at = ret_bytes;
    while (n > 0) {
        ssize_t got = getrandom(at, n, 0);
        CHECK(got > 0 || (got < 0 && errno == EINTR));
        if (got > 0) {
            at += got;
            n -= (size_t)got;
        }
    }
}

uint64_t random_u64(void)
{
    uint64_t value;
    random_bytes(&value, sizeof(value));
    return value;
}
