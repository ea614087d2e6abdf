/* SPDX-License-Identifier: Apache-2.0 */
#include "core/request/key_header.h"
#include "core/web/structured.h"

/* RFC 9651 4.2: an Item, of which the parameters are checked and left behind. */
static enum key_header read_quoted_key(struct slice value, struct arena *arena,
                                       struct slice *ret_key)
{
    struct slice inside;
    bool escaped;
    if (!structured_string(&value, &inside, &escaped) || !structured_parameters(&value) ||
        value.len > 0)
        return KEY_HEADER_MALFORMED;
    struct slice key = escaped ? structured_unescape(inside, arena) : inside;
    if (!key.at)
        return KEY_HEADER_NO_MEMORY;
    if (key.len == 0)
        return KEY_HEADER_EMPTY;
    if (key.len > KEY_TEXT_MAX)
        return KEY_HEADER_TOO_LONG;
    *ret_key = key;
    return KEY_HEADER_OK;
}

static enum key_header read_bare(struct slice value, struct slice *ret_key)
{
    for (size_t i = 0; i < value.len; i++) {
        char c = value.at[i];
        if (c < 0x21 || c > 0x7E || c == '"' || c == ',')
            return KEY_HEADER_MALFORMED;
    }
    if (value.len > KEY_TEXT_MAX)
        return KEY_HEADER_TOO_LONG;
    *ret_key = value;
    return KEY_HEADER_OK;
}

enum key_header key_value_read(struct slice value, enum key_syntax syntax, struct arena *arena,
                               struct slice *ret_key)
{
    while (value.len > 0 && value.at[0] == ' ')
        value = slice_skip(value, 1);
    while (value.len > 0 && value.at[value.len - 1] == ' ')
        value.len--;
    if (value.len == 0)
        return KEY_HEADER_EMPTY;
    if (value.at[0] == '"')
        return read_quoted_key(value, arena, ret_key);
    return syntax == KEY_SYNTAX_STRICT ? KEY_HEADER_MALFORMED : read_bare(value, ret_key);
}

static void add_key_byte(struct buf *buf, unsigned char c)
{
    if (c > ' ' && c <= '~')
        buf_printf(buf, "'%c'", c);
    else
        buf_printf(buf, c == ' ' ? "a space" : "0x%02X", c);
}

void key_value_explain(struct slice value, enum key_syntax syntax, struct buf *buf)
{
    struct slice text = slice_trim(value);
    bool is_string = text.len > 0 && text.at[0] == '"';
    size_t i = is_string ? 1 : 0;
    if (!is_string && syntax == KEY_SYNTAX_STRICT) {
        buf_add_str(buf, "; this route wants it in double quotes");
        return;
    }
    while (i < text.len && text.at[i] >= (is_string ? ' ' : '!') && text.at[i] <= '~' &&
           (is_string || (text.at[i] != '"' && text.at[i] != ',')))
        i++;
    if (i == text.len) {
        buf_add_str(buf, "; the closing quote is missing, or text follows it");
        return;
    }
    unsigned char c = (unsigned char)text.at[i];
    buf_printf(buf, "; byte %zu of it is ", i + 1);
    add_key_byte(buf, c);
    if (!is_string && (c == ' ' || c == ','))
        buf_add_str(buf, ", which only a quoted string may hold");
}

static bool goes_bare(struct slice text, enum key_forward forward, enum key_syntax syntax)
{
    struct slice same;
    if (forward == KEY_FORWARD_BARE)
        return text.len > 0 && read_bare(text, &same) == KEY_HEADER_OK;
    return forward == KEY_FORWARD_BY_SYNTAX && syntax == KEY_SYNTAX_LENIENT &&
           slice_is_word(text, "._~/@+:%-");
}

void key_value_write(struct slice text, enum key_forward forward, enum key_syntax syntax,
                     struct buf *buf)
{
    if (goes_bare(text, forward, syntax)) {
        buf_add_slice(buf, text);
        return;
    }
    buf_add_char(buf, '"');
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] == '"' || text.at[i] == '\\')
            buf_add_char(buf, '\\');
        buf_add_char(buf, text.at[i]);
    }
    buf_add_char(buf, '"');
}

enum key_forward key_spelling(struct slice text, enum key_forward forward, enum key_syntax syntax)
{
    return goes_bare(text, forward, syntax) ? KEY_FORWARD_BARE : KEY_FORWARD_QUOTED;
}

void key_value_write_as(struct slice text, enum key_forward sent, enum key_forward forward,
                        enum key_syntax syntax, struct buf *buf)
{
    bool other = sent != KEY_FORWARD_BY_SYNTAX && sent != key_spelling(text, forward, syntax);
    key_value_write(text, other ? sent : forward, syntax, buf);
}

enum key_header key_header_read(const struct headers *headers, struct slice name,
                                enum key_syntax syntax, struct arena *arena, struct slice *ret_key)
{
    if (headers_is_hop_by_hop(headers, name))
        return KEY_HEADER_HOP_BY_HOP;
    switch (headers_count(headers, name)) {
    case 0:
        return KEY_HEADER_ABSENT;
    case 1:
        return key_value_read(headers_find(headers, name)->value, syntax, arena, ret_key);
    default:
        return KEY_HEADER_REPEATED;
    }
}

const char *key_header_text(enum key_header result)
{
    static const char *const texts[] = {
        [KEY_HEADER_OK] = "the key is well-formed",
        [KEY_HEADER_ABSENT] = "the key is missing",
        [KEY_HEADER_REPEATED] = "the key was sent more than once",
        [KEY_HEADER_EMPTY] = "the key is empty",
        [KEY_HEADER_TOO_LONG] = "the key is longer than 255 bytes",
        [KEY_HEADER_MALFORMED] = "the key is not one well-formed value",
        [KEY_HEADER_HOP_BY_HOP] = "the key is a hop-by-hop header, as Connection names it",
        [KEY_HEADER_NO_MEMORY] = "there is no memory to read the key",
    };
    return texts[result];
}
