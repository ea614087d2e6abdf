/* SPDX-License-Identifier: Apache-2.0 */
#include "config/complaints.h"
#include "base/buf.h"
#include "base/check.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define TEXT_MAX 1024
#define KEY_SHOWN_MAX 64
#define ARENA_MAX (COMPLAINTS_MAX * (TEXT_MAX + 512))
#define PRINT_MAX (256 * 1024)
static_assert(KEY_SHOWN_MAX + 2 < TEXT_MAX, "behind the key there is room for a text");

void complaints_init(struct complaints *complaints, const char *path)
{
    *complaints = (struct complaints){.path = path, .arena = arena_make(ARENA_MAX)};
}

void complaints_fini(struct complaints *complaints)
{
    arena_fini(&complaints->arena);
}

static bool has_complaint(const struct complaints *complaints, struct place place,
                          struct slice text)
{
    for (size_t i = 0; i < complaints->n; i++) {
        const struct complaint *other = &complaints->at[i];
        if (other->place.line == place.line && other->place.column == place.column &&
            slice_eq(other->text, text))
            return true;
    }
    return false;
}

/* A complaint is one line, whatever the file held: names come as they were written. */
static void make_printable(char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            text[i] = '?';
}

static void add_complaint(struct complaints *complaints, struct place place, struct slice text)
{
    CHECK(place.line > 0 && place.column > 0);
    if (has_complaint(complaints, place, text))
        return;
    if (complaints->n == COMPLAINTS_MAX) {
        complaints->more++;
        return;
    }
    /* Without memory for its text a complaint still counts; complaints_print then has none either.
     */
    complaints->at[complaints->n++] =
        (struct complaint){place, arena_copy(&complaints->arena, text)};
}

void complaints_add_list(struct complaints *complaints, struct place place, struct slice key,
                         const char *format, va_list args)
{
    char text[TEXT_MAX];
    if (key.len == 0)
        key = SLICE("(no name)");
    size_t n = key.len < KEY_SHOWN_MAX ? key.len : KEY_SHOWN_MAX;
    memcpy(text, key.at, n); /* not by printf: it may hold a NUL */
    memcpy(text + n, ": ", 2);
    n += 2;
    n += (size_t)vsnprintf(text + n, sizeof text - n, format, args);
    size_t len = n < sizeof text ? n : sizeof text - 1;
    make_printable(text, len);
    add_complaint(complaints, place, slice_make(text, len));
}

void complaints_add(struct complaints *complaints, struct place place, struct slice key,
                    const char *format, ...)
{
    va_list args;
    va_start(args, format);
    complaints_add_list(complaints, place, key, format, args);
    va_end(args);
}

static int by_place(const void *left, const void *right)
{
    const struct place *a = &((const struct complaint *)left)->place;
    const struct place *b = &((const struct complaint *)right)->place;
    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    return a->column < b->column ? -1 : a->column > b->column;
}

char *complaints_print(struct complaints *complaints)
{
    BUF_AUTO struct buf buf = buf_make(PRINT_MAX);
    CHECK(complaints->more == 0 || complaints->n == COMPLAINTS_MAX);
    if (complaints->arena.failed)
        return NULL;
    qsort(complaints->at, complaints->n, sizeof complaints->at[0], by_place);
    for (size_t i = 0; i < complaints->n; i++) {
        const struct complaint *one = &complaints->at[i];
        buf_printf(&buf, "%s:%zu:%zu: ", complaints->path, one->place.line, one->place.column);
        buf_add_slice(&buf, one->text);
        buf_add_char(&buf, '\n');
    }
    if (complaints->more)
        buf_printf(&buf, "%s: %zu more\n", complaints->path, complaints->more);
    return buf_take(&buf);
}
