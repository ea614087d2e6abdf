/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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

static bool allocation_must_fail(void)
{
    if (fail_countdown == 0 || --fail_countdown > 0)
        return false;
    fail_fired = 1;
    return true;
}
#else
static inline bool allocation_must_fail(void)
{
    return false;
}
#endif

void *mem_alloc(size_t size)
{
    return allocation_must_fail() ? NULL : malloc(size ? size : 1);
}

void *mem_zalloc(size_t count, size_t size)
{
    size_t product;
    /* Looked at here: sanitizers end the process for a product that overflows in calloc. */
    if (__builtin_mul_overflow(count, size, &product) || allocation_must_fail())
        return NULL;
    return calloc(1, product ? product : 1);
}

void *mem_realloc(void *at, size_t size)
{
    return allocation_must_fail() ? NULL : realloc(at, size ? size : 1);
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

#ifdef PAWL_SANITIZED
void *mem_secret_new(size_t size)
{
    return mem_alloc(size);
}

void mem_secret_free(void *at, size_t size)
{
    (void)size;
    free(at);
}
#else
void *mem_secret_new(size_t size)
{
    void *at = allocation_must_fail() ? MAP_FAILED
                                      : mmap(NULL, size ? size : 1, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    (void)madvise(at, size ? size : 1, MADV_DONTDUMP); /* a kernel without it dumps it */
    return at;
}

void mem_secret_free(void *at, size_t size)
{
    if (at)
        (void)munmap(at, size ? size : 1);
}
#endif

struct spare {
    struct spare *next;
};

static _Thread_local struct {
    struct spare *first;
    size_t n;
} spares[MEM_BLOCK_KINDS];

/* Sanitizers are to see who uses a block that was freed. */
#ifdef PAWL_SANITIZED
static atomic_size_t spares_max = 0;
#else
static atomic_size_t spares_max = MEM_SPARES_MAX;
#endif

void mem_keep_no_spares(void)
{
    atomic_store_explicit(&spares_max, 0, memory_order_relaxed);
}

void *mem_block_new(enum mem_block kind)
{
    static const size_t sizes[] = {
        [MEM_BLOCK_INPUT] = MEM_BLOCK_INPUT_SIZE,
        [MEM_BLOCK_ARENA] = MEM_BLOCK_ARENA_SIZE,
    };
    struct spare *block = spares[kind].first;
    if (!block || allocation_must_fail())
        return block ? NULL : mem_alloc(sizes[kind]);
    spares[kind].first = block->next;
    spares[kind].n--;
    return block;
}

void mem_block_free(enum mem_block kind, void *block)
{
    struct spare *spare = block;
    if (!block || spares[kind].n >= atomic_load_explicit(&spares_max, memory_order_relaxed)) {
        free(block);
        return;
    }
    spare->next = spares[kind].first;
    spares[kind].first = spare;
    spares[kind].n++;
}

void mem_thread_end(void)
{
    for (size_t kind = 0; kind < MEM_BLOCK_KINDS; kind++) {
        while (spares[kind].first) {
            struct spare *spare = spares[kind].first;
            spares[kind].first = spare->next;
            free(spare);
        }
        spares[kind].n = 0;
    }
}

void mem_trim(void)
{
    (void)malloc_trim(0);
}
