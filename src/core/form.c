/* SPDX-License-Identifier: Apache-2.0 */
#include "core/form.h"

#include "base/check.h"

/* The byte of the escape at the start of `s`, or -1. */
static int escaped_byte(struct slice s)
{
    if (s.len < 3)
        return -1;
    int high = hex_digit(s.at[1]);
    int low = hex_digit(s.at[2]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

bool form_valid(struct slice bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        if (bytes.at[i] == '%' && escaped_byte(slice_skip(bytes, i)) < 0)
            return false;
    }
    return true;
}

/* Takes one decoded byte off a valid encoded text. */
static char take_byte(struct slice *text)
{
    char c = text->at[0];
    size_t n = 1;
    if (c == '+') {
        c = ' ';
    } else if (c == '%') {
        int byte = escaped_byte(*text);
        CHECK(byte >= 0);
        c = (char)byte;
        n = 3;
    }
    *text = slice_skip(*text, n);
    return c;
}

/* Takes the next pair off `rest`, still encoded; value.at is NULL without '='. Empty pairs do not
 * count. False at the end. */
static bool take_pair(struct slice *rest, struct slice *ret_name, struct slice *ret_value)
{
    while (rest->len > 0) {
        struct slice pair;
        *rest = slice_cut(*rest, '&', &pair);
        if (pair.len == 0)
            continue;
        *ret_value = slice_cut(pair, '=', ret_name);
        return true;
    }
    return false;
}

static bool is_plain(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c != '\0' && strchr("*-._", c));
}

static void add_byte(struct buf *buf, char c)
{
    static const char digits[] = "0123456789ABCDEF";
    if (is_plain(c)) {
        buf_add_char(buf, c);
    } else if (c == ' ') {
        buf_add_char(buf, '+');
    } else {
        char escape[] = {'%', digits[(unsigned char)c >> 4], digits[(unsigned char)c & 0xF]};
        buf_add(buf, escape, sizeof(escape));
    }
}

static void add_encoded(struct buf *buf, struct slice text)
{
    while (text.len > 0)
        add_byte(buf, take_byte(&text));
}

bool form_add_canonical(struct canonical *canonical, struct slice bytes)
{
    struct slice name;
    struct slice value;
    for (bool first = true; take_pair(&bytes, &name, &value); first = false) {
        if (!first)
            buf_add_char(canonical->buf, '&');
        add_encoded(canonical->buf, name);
        if (value.at) {
            buf_add_char(canonical->buf, '=');
            add_encoded(canonical->buf, value);
        }
        if (!canonical_step(canonical))
            return false;
    }
    return buf_ok(canonical->buf);
}

static bool spells(struct slice encoded, struct slice name)
{
    for (size_t i = 0; i < name.len; i++) {
        if (encoded.len == 0 || take_byte(&encoded) != name.at[i])
            return false;
    }
    return encoded.len == 0;
}

static struct slice decode(struct slice encoded, struct arena *arena)
{
    char *text = arena_alloc(arena, encoded.len);
    size_t len = 0;
    if (!text)
        return slice_make(NULL, 0);
    while (encoded.len > 0)
        text[len++] = take_byte(&encoded);
    return slice_make(text, len);
}

struct slice form_value(struct slice bytes, struct slice name, struct arena *arena)
{
    struct slice found;
    struct slice value;
    while (take_pair(&bytes, &found, &value)) {
        if (spells(found, name))
            return decode(value, arena);
    }
    return slice_make(NULL, 0);
}
