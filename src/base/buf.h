/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buf: growing bytes with a named maximum. Errors are sticky: after an append that did not fit
 * (`max`) or found no memory, `failed` is set, nothing more is added, and the caller looks once at
 * the end (buf_ok). Storage is the buf's own until buf_fini or buf_take, or (buf_on) begins as
 * somebody else's.
 */
#ifndef PAWL_BASE_BUF_H
#define PAWL_BASE_BUF_H

#include "base/slice.h"

struct buf {
    char *at;
    size_t len;
    size_t cap;
    size_t max;     /* bytes; appends beyond it fail */
    bool lent;      /* `at` is the room of buf_on */
    bool failed;    /* something did not fit, or memory ran out */
    bool too_large; /* it failed for `max`, not for memory */
};

#define BUF_AUTO __attribute__((cleanup(buf_fini)))

/* An empty buffer that holds at most `max` bytes; allocates nothing. */
static inline struct buf buf_make(size_t max)
{
    return (struct buf){.max = max};
}

/* The same, whose first `size` bytes (one is for a NUL) lie in `room`, the caller's memory, which
 * must outlive its use. `room` NULL: buf_make. */
static inline struct buf buf_on(void *room, size_t size, size_t max)
{
    size_t cap = size - 1 < max ? size - 1 : max;
    return (struct buf){.at = room, .cap = room ? cap : 0, .max = max, .lent = room};
}

void buf_fini(struct buf *buf);

/* Empties it and clears the failure; keeps the storage. */
void buf_clear(struct buf *buf);

static inline bool buf_ok(const struct buf *buf)
{
    return !buf->failed;
}

static inline struct slice buf_slice(const struct buf *buf)
{
    return slice_make(buf->at, buf->len);
}

/* Makes room for `n` more bytes and returns where they go (write, then buf_added); NULL: failed. */
char *buf_room(struct buf *buf, size_t n);

/* Says that `n` bytes were written at what buf_room returned. */
void buf_added(struct buf *buf, size_t n);

/* As buf_add, where the storage has to grow or the buf has failed. */
void buf_add_growing(struct buf *buf, const void *at, size_t n);

/* Appends bytes; on failure: buf_ok. Inlined: heads and log lines are made of a hundred of these.
 */
static inline void buf_add(struct buf *buf, const void *at, size_t n)
{
    if (__builtin_expect(buf->failed || n == 0 || n > buf->cap - buf->len, 0)) {
        buf_add_growing(buf, at, n);
        return;
    }
    memcpy(buf->at + buf->len, at, n);
    buf->len += n;
}

static inline void buf_add_slice(struct buf *buf, struct slice s)
{
    buf_add(buf, s.at, s.len);
}

static inline void buf_add_char(struct buf *buf, char c)
{
    buf_add(buf, &c, 1);
}

static inline void buf_add_str(struct buf *buf, const char *string)
{
    buf_add(buf, string, strlen(string));
}

/* Appends text: decimal numbers, printf. */
void buf_add_u64(struct buf *buf, uint64_t value);
void buf_add_i64(struct buf *buf, int64_t value);
void buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Drops the first `n` bytes, moving the rest down. */
void buf_drop(struct buf *buf, size_t n);

/* Cuts to `len` bytes (len <= buf->len). */
void buf_cut(struct buf *buf, size_t len);

/* Gives the storage away (mem_free), NUL-terminated; NULL when it failed. Leaves buf empty. */
char *buf_take(struct buf *buf);

#endif
