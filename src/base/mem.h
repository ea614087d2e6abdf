/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory. Every allocation of base, core, store and engine goes through here, so that a test can
 * make the n-th one fail. All functions may return NULL; the caller returns "out of memory".
 * mem_free accepts NULL. Sizes are bytes.
 */
#ifndef PAWL_BASE_MEM_H
#define PAWL_BASE_MEM_H

#include <stddef.h>

/* Uninitialised memory of `size` bytes (at least 1), or NULL. */
void *mem_alloc(size_t size);

/* `count * size` zeroed bytes, or NULL (also when the product overflows). */
void *mem_zalloc(size_t count, size_t size);

/* Grows or shrinks `at` (NULL: allocates). On NULL the old memory is untouched. */
void *mem_realloc(void *at, size_t size);

/* A copy of `len` bytes followed by a NUL, or NULL. */
char *mem_copy(const void *from, size_t len);

void mem_free(void *at);

/* Gives memory that was freed back to the system; takes a while. */
void mem_trim(void);

/* Cleanup attribute: frees the pointer variable when its scope ends. */
static inline void mem_free_at(void *variable)
{
    mem_free(*(void **)variable);
}
#define MEM_AUTO __attribute__((cleanup(mem_free_at)))

#ifdef PAWL_HOOKS
/* Makes the n-th allocation from now on of this thread return NULL (1 = the next; 0 = none). */
void mem_fail_nth(long n);
/* Whether the fault armed by mem_fail_nth has fired. */
int mem_fail_fired(void);
#endif

#endif
