/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "base/json_scan.h"
#include "base/utf8.h"

/* The letter of a two-character escape, or '\0'. */
static char escape_letter(char c)
{
    switch (c) {
    case '"':
    case '\\':
        return c;
    case '\b':
        return 'b';
    case '\t':
        return 't';
    case '\n':
        return 'n';
    case '\f':
        return 'f';
    case '\r':
        return 'r';
    default:
        return '\0';
    }
}

static void add_escape(struct buf *buf, char c)
{
    static const char digits[] = "0123456789abcdef";
    char letter = escape_letter(c);
    buf_add_char(buf, '\\');
    if (letter) {
        buf_add_char(buf, letter);
        return;
    }
    buf_add_str(buf, "u00");
    buf_add_char(buf, digits[(unsigned char)c >> 4]);
    buf_add_char(buf, digits[(unsigned char)c & 0xF]);
}

void json_add_canonical_string(struct buf *buf, struct slice s)
{
    buf_add_char(buf, '"');
    while (s.len > 0) {
        size_t n = json_unescaped_length(s);
        if (n > 0)
            buf_add(buf, s.at, n);
        s = slice_skip(s, n);
        if (s.len == 0)
            break;
        add_escape(buf, s.at[0]);
        s = slice_skip(s, 1);
    }
    buf_add_char(buf, '"');
}

/* The code point of two or three bytes of UTF-8; 0 of any other number. */
static unsigned code_point(const char *at, size_t n)
{
    unsigned first = (unsigned char)at[0];
    if (n == 2)
        return (first & 0x1F) << 6 | ((unsigned char)at[1] & 0x3F);
    if (n != 3)
        return 0;
    return (first & 0x0F) << 12 | ((unsigned)at[1] & 0x3F) << 6 | ((unsigned)at[2] & 0x3F);
}

/* What a terminal obeys, or shows so that a line reads otherwise than it is: C1 controls, line and
 * paragraph separators, marks that change the direction of writing. */
static bool misleads(unsigned code)
{
    static const struct {
        unsigned first, last;
    } ranges[] = {
        {0x80, 0x9F}, {0x61C, 0x61C}, {0x200E, 0x200F}, {0x2028, 0x202E}, {0x2066, 0x2069}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    return false;
}

bool json_is_legible(struct slice s)
{
    while (s.len > 0) {
        size_t n = utf8_length(s);
        bool control = (unsigned char)s.at[0] < ' ' || s.at[0] == 0x7F;
        if (n == 0 || control || (n > 1 && misleads(code_point(s.at, n))))
            return false;
        s = slice_skip(s, n);
    }
    return true;
}

/* One character, or one byte of what is not UTF-8; returns how many bytes it took. */
static size_t add_character(struct buf *buf, struct slice s)
{
    size_t n = utf8_length(s);
    unsigned code = n > 1 ? code_point(s.at, n) : 0;
    if (n == 0)
        buf_add_str(buf, "\\ufffd");
    else if (misleads(code))
        buf_printf(buf, "\\u%04x", code);
    else if (json_must_escape(s.at[0]) || s.at[0] == 0x7F)
        add_escape(buf, s.at[0]);
    else
        buf_add(buf, s.at, n);
    return n ? n : 1;
}

void json_add_string(struct buf *buf, struct slice s)
{
    buf_add_char(buf, '"');
    while (s.len > 0) {
        size_t plain = json_plain_length(s);
        buf_add(buf, s.at, plain);
        s = slice_skip(s, plain);
        if (s.len > 0)
            s = slice_skip(s, add_character(buf, s));
    }
    buf_add_char(buf, '"');
}

void json_add_name(struct buf *buf, const char *name)
{
    char last = buf->len > 0 ? buf->at[buf->len - 1] : '{';
    if (last != '{' && last != '[')
        buf_add_char(buf, ',');
    buf_add_char(buf, '"');
    buf_add_str(buf, name);
    buf_add_str(buf, "\":");
}

void json_add_text(struct buf *buf, const char *name, struct slice value)
{
    json_add_name(buf, name);
    json_add_string(buf, value);
}

void json_add_i64(struct buf *buf, const char *name, int64_t value)
{
    json_add_name(buf, name);
    buf_add_i64(buf, value);
}

void json_add_bool(struct buf *buf, const char *name, bool value)
{
    json_add_name(buf, name);
    buf_add_str(buf, value ? "true" : "false");
}
