/* SPDX-License-Identifier: Apache-2.0 */
#include "core/template_text.h"
#include "base/check.h"
#include "base/digest.h"

static bool is_unreserved(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '.' ||
           c == '_' || c == '~' || c == '-';
}

/* How many bytes at the front of `rest` (not empty) stay as they are; 0: the first is encoded. */
static size_t stays(enum template_spelling spelling, struct slice rest)
{
    char c = rest.at[0];
    char decoded;
    if (is_unreserved(c))
        return 1;
    if (spelling == TEMPLATE_SPELL_KEY)
        return c == '/' || c == '@' || c == '+';
    if (spelling == TEMPLATE_SPELL_URL)
        return 0;
    if (c == '%' && rest.len >= 3 && hex_decode(slice_make(rest.at + 1, 2), &decoded, 1))
        return 3;
    return spelling == TEMPLATE_SPELL_QUERY && c == '+';
}

bool template_text_separates(struct slice literal, bool url)
{
    for (size_t i = 0; i < literal.len; i++) {
        char c = literal.at[i];
        bool in_values =
            url ? is_unreserved(c) || c == '+' : stays(TEMPLATE_SPELL_KEY, slice_make(&c, 1)) > 0;
        if (c != '%' && !in_values)
            return true;
    }
    return false;
}

size_t template_text_spell(enum template_spelling spelling, struct slice *value, char *ret_text,
                           size_t room)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t n = 0;
    CHECK(room >= TEMPLATE_SPELLED_MAX);
    while (value->len > 0 && room - n >= TEMPLATE_SPELLED_MAX) {
        size_t same = stays(spelling, *value);
        if (same > 0) {
            memcpy(ret_text + n, value->at, same);
            n += same;
            *value = slice_skip(*value, same);
            continue;
        }
        unsigned char c = (unsigned char)value->at[0];
        ret_text[n++] = '%';
        ret_text[n++] = digits[c >> 4];
        ret_text[n++] = digits[c & 15];
        *value = slice_skip(*value, 1);
    }
    return n;
}

size_t template_text_length(enum template_spelling spelling, struct slice value)
{
    size_t n = 0;
    while (value.len > 0) {
        size_t same = stays(spelling, value);
        n += same ? same : TEMPLATE_SPELLED_MAX;
        value = slice_skip(value, same ? same : 1);
    }
    return n;
}
