/* SPDX-License-Identifier: Apache-2.0 */
#include "base/headers.h"
#include "base/json/json.h"
#include "base/json/json_scan.h"
#include "base/text/ascii.h"
#include "base/text/utf8.h"
#include "base/time/timestamp.h"

/* The letter of a two-character escape, or '\0'. */
static char escape_letter(char c)
{
    for (size_t i = 0; i < JSON_N_ESCAPES; i++)
        if (json_escapes[i][1] == c)
            return json_escapes[i][0];
    return '\0';
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

/* What a terminal obeys, or shows so that a line reads otherwise than it is: C1 controls, line and
 * paragraph separators, marks that change the direction of writing. */
static bool code_misleads(uint32_t code)
{
    static const struct utf8_range ranges[] = {
        {0x80, 0x9F}, {0x61C, 0x61C}, {0x200E, 0x200F}, {0x2028, 0x202E}, {0x2066, 0x2069}};
    return UTF8_IS_IN(code, ranges);
}

bool json_is_legible(struct slice s)
{
    while (s.len > 0) {
        size_t n = utf8_length(s);
        if (n == 0 || ascii_is_control(s.at[0]) || code_misleads(utf8_code(s.at, n)))
            return false;
        s = slice_skip(s, n);
    }
    return true;
}

/* One character, or one byte of what is not UTF-8; returns how many bytes it took. */
static size_t add_character(struct buf *buf, struct slice s)
{
    size_t n = utf8_length(s);
    uint32_t code = n > 0 ? utf8_code(s.at, n) : 0;
    if (n == 0)
        buf_add_str(buf, "\\ufffd");
    else if (code_misleads(code))
        buf_printf(buf, "\\u%04x", code);
    else if (json_must_escape(s.at[0]) || s.at[0] == 0x7F)
        add_escape(buf, s.at[0]);
    else
        buf_add(buf, s.at, n);
    return n ? n : 1;
}

void json_add_content(struct buf *buf, struct slice s)
{
    while (s.len > 0) {
        size_t plain = json_plain_length(s);
        buf_add(buf, s.at, plain);
        s = slice_skip(s, plain);
        if (s.len > 0)
            s = slice_skip(s, add_character(buf, s));
    }
}

void json_add_string(struct buf *buf, struct slice s)
{
    buf_add_char(buf, '"');
    json_add_content(buf, s);
    buf_add_char(buf, '"');
}

void json_next_item(struct buf *buf)
{
    char last = buf->len > 0 ? buf->at[buf->len - 1] : '{';
    if (last != '{' && last != '[')
        buf_add_char(buf, ',');
}

void json_add_name(struct buf *buf, const char *name)
{
    json_next_item(buf);
    buf_add_char(buf, '"');
    buf_add_str(buf, name);
    buf_add_str(buf, "\":");
}

void json_open(struct buf *buf, const char *name, char bracket)
{
    json_add_name(buf, name);
    buf_add_char(buf, bracket);
}

void json_add_null(struct buf *buf, const char *name)
{
    json_add_name(buf, name);
    buf_add_str(buf, "null");
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

void json_add_known_text(struct buf *buf, const char *name, struct slice value)
{
    if (value.len > 0)
        json_add_text(buf, name, value);
    else
        json_add_null(buf, name);
}

void json_add_known_i64(struct buf *buf, const char *name, int64_t value)
{
    if (value != 0)
        json_add_i64(buf, name, value);
    else
        json_add_null(buf, name);
}

void json_add_time(struct buf *buf, const char *name, int64_t us)
{
    json_open(buf, name, '"');
    if (us != 0 && timestamp_print(buf, us)) {
        buf_add_char(buf, '"');
        return;
    }
    buf_cut(buf, buf_ok(buf) ? buf->len - 1 : buf->len);
    buf_add_str(buf, "null");
}

/* ---- values ---- */

static const char *json_type_word(enum json_type type)
{
    return type == JSON_NULL ? "null" : type == JSON_TRUE ? "true" : "false";
}

void json_add_value(struct buf *buf, const struct json *json)
{
    bool is_object = json->type == JSON_OBJECT;
    switch (json->type) {
    case JSON_STRING:
        json_add_canonical_string(buf, json->text);
        return;
    case JSON_NUMBER:
        buf_add_slice(buf, json->text);
        return;
    case JSON_OBJECT:
    case JSON_ARRAY:
        buf_add_char(buf, is_object ? '{' : '[');
        for (const struct json *child = json->first; child; child = child->next) {
            if (is_object)
                json_add_canonical_string(buf, child->name);
            buf_add_str(buf, is_object ? ":" : "");
            json_add_value(buf, child);
            buf_add_str(buf, child->next ? "," : "");
        }
        buf_add_char(buf, is_object ? '}' : ']');
        return;
    default:
        buf_add_str(buf, json_type_word(json->type));
    }
}

void json_add_fields(struct buf *buf, const char *name, struct slice lines)
{
    struct slice field, value;
    json_open(buf, name, '[');
    while (fields_next(&lines, &field, &value)) {
        json_next_item(buf);
        buf_add_char(buf, '[');
        json_add_string(buf, field);
        buf_add_char(buf, ',');
        json_add_string(buf, value);
        buf_add_char(buf, ']');
    }
    buf_add_char(buf, ']');
}
