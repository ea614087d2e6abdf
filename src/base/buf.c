/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>

#define CAP_FIRST 256

/* Storage is always one byte longer than `cap`: the NUL of buf_take and of vsnprintf. */

void buf_fini(struct buf *buf)
{
    if (!buf->lent)
        mem_free(buf->at);
    *buf = buf_make(buf->max);
}

void buf_clear(struct buf *buf)
{
    buf->len = 0;
    buf->failed = false;
    buf->too_large = false;
}

static size_t next_cap(const struct buf *buf, size_t need)
{
    size_t cap = buf->cap < SIZE_MAX / 2 ? buf->cap * 2 : need;
    if (cap < CAP_FIRST)
        cap = CAP_FIRST;
    if (cap < need)
        cap = need;
    return cap > buf->max ? buf->max : cap;
}

static char *resize_buf(const struct buf *buf, size_t size)
{
    char *at = buf->lent ? mem_alloc(size) : mem_realloc(buf->at, size);
    if (at && buf->lent && buf->len)
        memcpy(at, buf->at, buf->len);
    return at;
}

static bool buf_grow(struct buf *buf, size_t n)
{
    if (n > buf->max - buf->len) {
        buf->failed = buf->too_large = true;
        return false;
    }
    size_t cap = next_cap(buf, buf->len + n);
    char *at = cap < SIZE_MAX ? resize_buf(buf, cap + 1) : NULL;
    if (!at) {
        buf->failed = true;
        return false;
    }
    buf->at = at;
    buf->cap = cap;
    buf->lent = false;
    return true;
}

char *buf_room(struct buf *buf, size_t n)
{
    CHECK(buf->len <= buf->cap);
    if (buf->failed)
        return NULL;
    if ((!buf->at || n > buf->cap - buf->len) && !buf_grow(buf, n))
        return NULL;
    return buf->at + buf->len;
}

void buf_added(struct buf *buf, size_t n)
{
    CHECK(!buf->failed && n <= buf->cap - buf->len);
    buf->len += n;
}

void buf_add_growing(struct buf *buf, const void *at, size_t n)
{
    char *room = n ? buf_room(buf, n) : NULL;
    if (!room)
        return;
    memcpy(room, at, n);
    buf_added(buf, n);
}

void buf_add_u64(struct buf *buf, uint64_t value)
{
    char digits[20];
    size_t first = sizeof digits;
    do {
        digits[--first] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    buf_add(buf, digits + first, sizeof digits - first);
}

void buf_add_i64(struct buf *buf, int64_t value)
{
    if (value < 0)
        buf_add_char(buf, '-');
    buf_add_u64(buf, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void buf_printf(struct buf *buf, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    CHECK(n >= 0);
    char *room = buf_room(buf, (size_t)n);
    if (room) {
        vsnprintf(room, (size_t)n + 1, format, again);
        buf_added(buf, (size_t)n);
    }
    va_end(again);
    va_end(args);
}

void buf_drop(struct buf *buf, size_t n)
{
    CHECK(n <= buf->len);
    buf->len -= n;
    if (n && buf->len)
        memmove(buf->at, buf->at + n, buf->len);
}

void buf_cut(struct buf *buf, size_t len)
{
    CHECK(len <= buf->len);
    buf->len = len;
}

char *buf_take(struct buf *buf)
{
    char *taken = buf_room(buf, 0);
    if (taken && buf->lent) {
        taken = mem_copy(buf->at, buf->len);
    } else if (taken) {
        *taken = '\0';
        taken = buf->at;
        buf->at = NULL;
    }
    buf_fini(buf);
    return taken;
}
