/* SPDX-License-Identifier: Apache-2.0 */
/* What is said to be JSON, and whether it was cut off: without a tree, as it may be as long as a
 * response of a service. */
#include "base/json/json.h"
#include "base/json/json_scan.h"

/* What is open: a bit for each level, 1: an object. */
struct open {
    uint64_t objects[(JSON_DEPTH_MAX + 63) / 64];
    size_t depth;
};

static bool is_one_of(char c, const char *chars)
{
    return c != '\0' && strchr(chars, c);
}

static bool open_bracket(struct open *open, bool is_object)
{
    if (open->depth == JSON_DEPTH_MAX)
        return false;
    uint64_t bit = UINT64_C(1) << open->depth % 64, *word = &open->objects[open->depth / 64];
    *word = is_object ? *word | bit : *word & ~bit;
    open->depth++;
    return true;
}

static bool close_bracket(struct open *open, bool is_object)
{
    if (open->depth == 0)
        return false;
    open->depth--;
    return (open->objects[open->depth / 64] >> open->depth % 64 & 1) == is_object;
}

/* Behind the quote that opens it: up to the one that closes it. False: it has none, or a byte that
 * no string has; then the rest is empty only in the first case. */
static bool skip_json_string(struct slice *text)
{
    for (;;) {
        *text = slice_skip(*text, json_unescaped_length(*text));
        if (text->len == 0 || (*text->at != '"' && *text->at != '\\'))
            return false;
        bool closes = *text->at == '"';
        *text = slice_skip(*text, closes || text->len == 1 ? 1 : 2);
        if (closes)
            return true;
    }
}

/* One byte of structure. False: no JSON text goes on so. */
static bool cut_at_char(struct open *open, char c)
{
    switch (c) {
    case '{':
    case '[':
        return open_bracket(open, c == '{');
    case '}':
    case ']':
        return close_bracket(open, c == '}');
    default:
        return is_one_of(c, "0123456789+-.eEtrufalsn:, \t\r\n");
    }
}

bool json_is_cut(struct slice text)
{
    struct open open = {0};
    while (text.len > 0 && is_one_of(*text.at, " \t\r\n"))
        text = slice_skip(text, 1);
    while (text.len > 0) {
        char c = *text.at;
        text = slice_skip(text, 1);
        if (c == '"' && !skip_json_string(&text))
            return text.len == 0;
        if (c != '"' && !cut_at_char(&open, c))
            return false;
        if (open.depth == 0)
            return false; /* a whole value, or a number or a word, which may end anywhere */
    }
    return open.depth > 0;
}

bool json_is_type(struct slice media_type)
{
    struct slice suffix = SLICE("+json");
    struct slice major;
    struct slice minor = slice_cut(media_type, '/', &major);
    if (!slice_is_word(major, SLICE_TOKEN_MARKS) || !slice_is_word(minor, SLICE_TOKEN_MARKS))
        return false;
    return slice_eq_nocase(media_type, SLICE("application/json")) ||
           (minor.len > suffix.len &&
            slice_eq_nocase(slice_skip(minor, minor.len - suffix.len), suffix));
}

bool json_is_body_of(const struct headers *headers)
{
    const struct header *line = headers_find(headers, SLICE("Content-Type"));
    struct slice type = SLICE("");
    if (line)
        (void)slice_cut(line->value, ';', &type);
    return json_is_type(slice_trim(type)) && !headers_find(headers, SLICE("Content-Encoding"));
}
