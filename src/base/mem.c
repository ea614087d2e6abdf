/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef PAWL_HOOKS
static _Thread_local long fail_countdown;
static _Thread_local int fail_fired;

void mem_fail_nth(long n)
{
    fail_countdown = n;
    fail_fired = 0;
}

int mem_fail_fired(void)
{
    return fail_fired;
}

static bool must_fail(void)
{
    if (fail_countdown == 0 || --fail_countdown > 0)
        return false;
    fail_fired = 1;
    return true;
}
#else
static inline bool must_fail(void)
{
    return false;
}
#endif

void *mem_alloc(size_t size)
{
    return must_fail() ? NULL : malloc(size ? size : 1);
}

void *mem_zalloc(size_t count, size_t size)
{
    size_t product;
    /* Looked at here: sanitizers end the process for a product that overflows in calloc. */
    if (__builtin_mul_overflow(count, size, &product) || must_fail())
        return NULL;
    return calloc(1, product ? product : 1);
}

void *mem_realloc(void *at, size_t size)
{
    return must_fail() ? NULL : realloc(at, size ? size : 1);
}

char *mem_copy(const void *from, size_t len)
{
    char *copy = len < SIZE_MAX ? mem_alloc(len + 1) : NULL;
    if (!copy)
        return NULL;
    if (len)
        memcpy(copy, from, len);
    copy[len] = '\0';
    return copy;
}

void mem_free(void *at)
{
    free(at);
}

void mem_trim(void)
{
    (void)malloc_trim(0);
}
