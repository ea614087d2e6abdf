/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arena: memory of one request, given back all at once. Bounded by `max`; an allocation that does
 * not fit returns NULL and sets `failed`. Under AddressSanitizer each allocation is a malloc of its
 * own, so that overruns are seen.
 */
#ifndef PAWL_BASE_ARENA_H
#define PAWL_BASE_ARENA_H

#include "base/slice.h"
#include <stdarg.h>
#include <stdatomic.h>

struct arena_block;

struct arena {
    struct arena_block *blocks; /* newest first */
    size_t used;                /* bytes handed out since the last reset */
    size_t held;                /* bytes of its blocks */
    size_t max;
    bool is_secret;         /* its blocks are in no core dump (mem_secret_new) */
    bool failed;            /* an allocation was refused, because: */
    bool too_large;         /*   it passed `max`; */
    bool crowded;           /*   or with what others hold it passed `most`; else: no memory */
    atomic_ullong *counted; /* bytes of this arena's blocks and of others'; NULL: not counted */
    unsigned long long most;
};

#define ARENA_AUTO __attribute__((cleanup(arena_fini)))

/* An empty arena of at most `max` bytes; allocates nothing. */
static inline struct arena arena_make(size_t max)
{
    return (struct arena){.max = max};
}

/* The same, whose memory counts in `*counted`, which must not pass `most`. From any thread. */
static inline struct arena arena_make_counted(size_t max, atomic_ullong *counted,
                                              unsigned long long most)
{
    return (struct arena){.max = max, .counted = counted, .most = most};
}

/* An empty arena for what may be, or hold, a secret. */
static inline struct arena arena_make_secret(size_t max)
{
    return (struct arena){.max = max, .is_secret = true};
}

/* Gives everything back. It may be used again. */
void arena_fini(struct arena *arena);

/* Gives everything back but one block, for the next request. */
void arena_reset(struct arena *arena);

/* `size` bytes aligned for any type, uninitialised; NULL: too much, or no memory. */
void *arena_alloc(struct arena *arena, size_t size);

/* A copy of `s` followed by a NUL; `.at` is NULL on failure. */
struct slice arena_copy(struct arena *arena, struct slice s);

/* The same of what a buf holds; where that has failed, so has the arena. */
struct buf;
struct slice arena_copy_buf(struct arena *arena, const struct buf *buf);

/* A sentence (vprintf) for a message, cut off after 319 bytes; without memory it says that. */
struct slice arena_vprintf(struct arena *arena, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

#endif
