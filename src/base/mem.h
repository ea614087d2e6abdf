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

/* ---- secrets ---- */

/* Memory that is in no core dump, and of which nothing is left once it is freed: whole pages, at
 * least `size` bytes; or NULL. With sanitizers as mem_alloc, so that they see who uses it. */
void *mem_secret_new(size_t size);
/* `size` as it was asked for. Accepts NULL. */
void mem_secret_free(void *at, size_t size);

/* ---- blocks: what comes and goes with each request ---- */

/* A thread keeps the MEM_SPARES_MAX of a kind that it gave back last for its next ones, the warmest
 * first: malloc keeps seven of a size, and none so large. Any thread may free them. */
enum mem_block {
    MEM_BLOCK_INPUT, /* what a connection reads */
    MEM_BLOCK_ARENA, /* the first of an arena */
    MEM_BLOCK_KINDS,
};
#define MEM_BLOCK_INPUT_SIZE ((size_t)8 * 1024)
#define MEM_BLOCK_ARENA_SIZE ((size_t)24 * 1024) /* a ruled request takes some 18 KiB */
#define MEM_SPARES_MAX 32

/* From now on no thread keeps any: for a library, whose host's threads end without a word to it,
 * and which may be unloaded. */
void mem_keep_no_spares(void);

/* A block of that kind, uninitialised, or NULL. */
void *mem_block_new(enum mem_block kind);
/* Accepts NULL. */
void mem_block_free(enum mem_block kind, void *block);

/* The calling thread ends: frees what it keeps. */
void mem_thread_end(void);

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
