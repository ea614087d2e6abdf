/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"
#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"

#include <stdalign.h>
#include <stdio.h>

#define SENTENCE_SIZE 320 /* with its NUL */
#define BLOCK_FIRST (MEM_BLOCK_ARENA_SIZE - sizeof(struct arena_block))
#define BLOCK_LARGEST ((size_t)64 * 1024)

struct arena_block {
    struct arena_block *next;
    size_t size;
    size_t used; /* always a multiple of the alignment */
    alignas(max_align_t) char bytes[];
};

static bool add_to_total(struct arena *arena, unsigned long long size)
{
    if (!arena->counted || atomic_fetch_add(arena->counted, size) + size <= arena->most)
        return true;
    atomic_fetch_sub(arena->counted, size);
    arena->crowded = true;
    return false;
}

static void block_free(struct arena *arena, struct arena_block *block)
{
    arena->held -= sizeof *block + block->size;
    if (arena->counted)
        atomic_fetch_sub(arena->counted, sizeof *block + block->size);
    if (arena->is_secret)
        mem_secret_free(block, sizeof *block + block->size);
    else if (block->size == BLOCK_FIRST)
        mem_block_free(MEM_BLOCK_ARENA, block);
    else
        mem_free(block);
}

void arena_fini(struct arena *arena)
{
    struct arena_block *block = arena->blocks;
    while (block) {
        struct arena_block *next = block->next;
        block_free(arena, block);
        block = next;
    }
    *arena = (struct arena){.max = arena->max,
                            .is_secret = arena->is_secret,
                            .counted = arena->counted,
                            .most = arena->most};
}

void arena_reset(struct arena *arena)
{
    struct arena_block *kept = NULL;
#ifndef PAWL_SANITIZED
    kept = arena->blocks;
    if (kept && kept->size <= BLOCK_FIRST)
        arena->blocks = kept->next;
    else
        kept = NULL;
#endif
    arena_fini(arena);
    if (kept) {
        arena->held = sizeof *kept + kept->size;
        kept->next = NULL;
        kept->used = 0;
        arena->blocks = kept;
    }
}

static void *block_new(const struct arena *arena, size_t size)
{
    if (arena->is_secret)
        return mem_secret_new(size);
    return size == MEM_BLOCK_ARENA_SIZE ? mem_block_new(MEM_BLOCK_ARENA) : mem_alloc(size);
}

static struct arena_block *block_add(struct arena *arena, size_t size)
{
    if (size > SIZE_MAX - sizeof(struct arena_block))
        return NULL;
    if (!add_to_total(arena, sizeof(struct arena_block) + size))
        return NULL;
    struct arena_block *block = block_new(arena, sizeof *block + size);
    if (!block) {
        if (arena->counted)
            atomic_fetch_sub(arena->counted, sizeof *block + size);
        return NULL;
    }
    arena->held += sizeof *block + size;
    block->next = arena->blocks;
    block->size = size;
    block->used = 0;
    arena->blocks = block;
    return block;
}

#ifdef PAWL_SANITIZED
static void *arena_cut(struct arena *arena, size_t size)
{
    struct arena_block *block = block_add(arena, size);
    return block ? block->bytes : NULL;
}
#else
/* With room to spare, unless that room is what others may still need. */
static size_t block_size(const struct arena *arena, size_t need)
{
    size_t size = arena->blocks ? arena->blocks->size * 2 : BLOCK_FIRST;
    if (size > BLOCK_LARGEST)
        size = BLOCK_LARGEST;
    bool tight = arena->counted &&
                 atomic_load(arena->counted) + sizeof(struct arena_block) + size > arena->most;
    return size < need || tight ? need : size;
}

static void *arena_cut(struct arena *arena, size_t size)
{
    struct arena_block *block = arena->blocks;
    size_t aligned = (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    if (aligned < size)
        return NULL;
    if (!block || aligned > block->size - block->used)
        block = block_add(arena, block_size(arena, aligned));
    if (!block)
        return NULL;
    char *at = block->bytes + block->used;
    block->used += aligned;
    return at;
}
#endif

void *arena_alloc(struct arena *arena, size_t size)
{
    void *at = NULL;
    if (size == 0)
        size = 1;
    if (!arena->failed && size > arena->max - arena->used)
        arena->too_large = true;
    else if (!arena->failed)
        at = arena_cut(arena, size);
    if (!at) {
        arena->failed = true;
        return NULL;
    }
    arena->used += size;
    return at;
}

struct slice arena_copy(struct arena *arena, struct slice s)
{
    char *copy = s.len < SIZE_MAX ? arena_alloc(arena, s.len + 1) : NULL;
    if (!copy)
        return slice_make(NULL, 0);
    if (s.len)
        memcpy(copy, s.at, s.len);
    copy[s.len] = '\0';
    return slice_make(copy, s.len);
}

struct slice arena_copy_buf(struct arena *arena, const struct buf *buf)
{
    arena->failed |= !buf_ok(buf);
    return buf_ok(buf) ? arena_copy(arena, buf_slice(buf)) : slice_make(NULL, 0);
}

struct slice arena_vprintf(struct arena *arena, const char *format, va_list arguments)
{
    char text[SENTENCE_SIZE];
    int length = vsnprintf(text, sizeof text, format, arguments);
    CHECK(length >= 0);
    struct slice copy =
        arena_copy(arena, slice_first(slice_make(text, (size_t)length), sizeof text - 1));
    return copy.at ? copy : SLICE("out of memory");
}
