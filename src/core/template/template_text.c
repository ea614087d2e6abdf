/* SPDX-License-Identifier: Apache-2.0 */
/* Compiling texts that are filled in: sources among braces of other languages. */
#include "base/text/ascii.h"
#include "core/template/template_priv.h"

/* Whether the '{' at the start begins a source. `ret_written` gets what is between the braces. What
 * no source holds ends the search: each byte is looked at once. */
static bool starts_placeholder(struct slice text, struct slice *ret_written)
{
    size_t end = 1;
    bool is_pointer = text.len > 1 && text.at[1] == '/';
    const char *const ends = is_pointer ? "\"'{}" : " \"'{}";
    while (end < text.len && !ascii_is_control(text.at[end]) && !strchr(ends, text.at[end]))
        end++;
    struct slice written = slice_make(text.at + 1, end - 1);
    if (end == text.len || text.at[end] != '}' || !template_is_placeholder(written))
        return false;
    *ret_written = written;
    return true;
}

static bool is_doubled(struct slice text)
{
    return text.len >= 2 && text.at[0] == '{' && text.at[1] == '{';
}

/* How many bytes at the start are one literal; `ret_doubled` gets how many of them are to drop. */
static size_t literal_length(struct slice text, size_t *ret_doubled)
{
    size_t at = 0, doubled = 0;
    struct slice written;
    while (at < text.len) {
        struct slice rest = slice_skip(text, at);
        bool twice = is_doubled(rest);
        if (!twice && rest.at[0] == '{' && starts_placeholder(rest, &written))
            break;
        at += twice ? 2 : 1;
        doubled += twice;
    }
    *ret_doubled = doubled;
    return at;
}

/* `written` with one '{' for each two. */
static struct slice halve_braces(struct arena *arena, struct slice written, size_t doubled)
{
    char *text = arena_alloc(arena, written.len - doubled);
    size_t len = 0;
    if (!text)
        return slice_make(NULL, 0);
    while (written.len > 0) {
        text[len++] = written.at[0];
        written = slice_skip(written, is_doubled(written) ? 2 : 1);
    }
    return slice_make(text, len);
}

static bool read_literal(struct template_compiler *compiler, struct slice *rest)
{
    size_t doubled;
    struct slice written = slice_first(*rest, literal_length(*rest, &doubled));
    struct template_part part = {.source = TEMPLATE_LITERAL, .text = written, .written = written};
    *rest = slice_skip(*rest, written.len);
    if (doubled > 0)
        part.text = halve_braces(compiler->arena, written, doubled);
    if (!part.text.at)
        return template_refuse(compiler, "out of memory");
    return template_add_part(compiler, &part);
}

bool template_read_text(struct template_compiler *compiler, struct slice text)
{
    struct slice written;
    struct template_part part;
    if (slice_find(text, '\0') >= 0)
        return template_refuse(compiler, "a text has no NUL byte");
    while (text.len > 0) {
        if (text.at[0] != '{' || is_doubled(text) || !starts_placeholder(text, &written)) {
            if (!read_literal(compiler, &text))
                return false;
            continue;
        }
        if (!template_read_source(compiler, written, &part) || !template_add_part(compiler, &part))
            return false;
        text = slice_skip(text, written.len + 2);
    }
    return true;
}
