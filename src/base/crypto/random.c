/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crypto/random.h"
#include "base/check.h"
#include "base/thread.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#define POOL_SIZE 512
#define POOL_TAKES 24 /* at most: identifiers; what is secret comes from the kernel alone */

/* One call to the kernel for many identifiers. */
static _Thread_local struct {
    size_t left;
    unsigned char bytes[POOL_SIZE];
} pool;

static void read_kernel(void *ret_bytes, size_t n)
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

/* A child that was forked has the bytes of its parent, and must not give out the same ones. The
 * thread that forked is its only one. */
static void empty_pool(void)
{
    explicit_bzero(&pool, sizeof pool);
}

__attribute__((constructor)) static void watch_forks(void)
{
    thread_at_fork(empty_pool);
}

void random_bytes(void *ret_bytes, size_t n)
{
    if (n > POOL_TAKES) {
        read_kernel(ret_bytes, n);
        return;
    }
    if (pool.left < n) {
        read_kernel(pool.bytes, sizeof pool.bytes);
        pool.left = sizeof pool.bytes;
    }
    pool.left -= n;
    memcpy(ret_bytes, pool.bytes + pool.left, n);
    explicit_bzero(pool.bytes + pool.left, n);
}

uint64_t random_u64(void)
{
    uint64_t value;
    random_bytes(&value, sizeof value);
    return value;
}

int64_t random_id(void)
{
    return (int64_t)(random_u64() >> 2) | 1;
}
