/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/utf8.h"

#include "base/check.h"

static bool is_utf8_continuation(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

/* The range of the second byte: narrower after E0 (overlong), ED (surrogates), F0 (overlong) and F4
 * (above U+10FFFF). */
static bool second_fits(unsigned char lead, unsigned char second)
{
    unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    return second >= low && second <= high;
}

static size_t length_by_lead(unsigned char lead)
{
    if (lead < 0x80)
        return 1;
    if (lead < 0xC2 || lead > 0xF4)
        return 0;
    return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

size_t utf8_length(struct slice s)
{
    if (s.len == 0)
        return 0;
    unsigned char lead = (unsigned char)s.at[0];
    size_t n = length_by_lead(lead);
    if (n <= 1)
        return n;
    if (n > s.len || !second_fits(lead, (unsigned char)s.at[1]))
        return 0;
    for (size_t i = 2; i < n; i++) {
        if (!is_utf8_continuation(s.at[i]))
            return 0;
    }
    return n;
}

bool utf8_valid(struct slice s)
{
    while (s.len > 0) {
        size_t n = utf8_length(s);
        if (n == 0)
            return false;
        s = slice_skip(s, n);
    }
    return true;
}

uint32_t utf8_code(const char *at, size_t n)
{
    uint32_t code = (unsigned char)at[0] & (n == 1 ? 0x7F : 0x7F >> n);
    for (size_t i = 1; i < n; i++)
        code = code << 6 | ((unsigned char)at[i] & 0x3F);
    return code;
}

bool utf8_is_in(uint32_t code, const struct utf8_range *ranges, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    return false;
}

bool utf8_is_hidden(struct slice character)
{
    static const struct utf8_range ranges[] = {{0, 0x1F},        {0x7F, 0x9F},
                                               {0x200B, 0x200F}, {0x2028, 0x202E},
                                               {0x2060, 0x206F}, {0xFEFF, 0xFEFF}};
    return UTF8_IS_IN(utf8_code(character.at, character.len), ranges);
}

size_t utf8_encode(uint32_t code, char ret_bytes[UTF8_LENGTH_MAX])
{
    CHECK(code <= 0x10FFFF);
    if (code < 0x80) {
        ret_bytes[0] = (char)code;
        return 1;
    }
    size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--) {
        ret_bytes[i] = (char)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    ret_bytes[0] = (char)((n == 2 ? 0xC0 : n == 3 ? 0xE0 : 0xF0) | code);
    return n;
}

/* U+10000 and above are surrogate pairs in UTF-16 (D800..DFFF), which sort below U+E000..U+FFFF. In
 * UTF-8 these have the leads F0..F4 and EE, EF; no continuation byte reaches EE, so the first byte
 * that differs decides. */
static int utf16_rank(char c)
{
    int byte = (unsigned char)c;
    return byte == 0xEE || byte == 0xEF ? byte + 0x10 : byte;
}

int utf8_compare_as_utf16(struct slice a, struct slice b)
{
    size_t shorter = a.len < b.len ? a.len : b.len;
    size_t i = 0;
    while (i < shorter && a.at[i] == b.at[i])
        i++;
    if (i < shorter)
        return utf16_rank(a.at[i]) - utf16_rank(b.at[i]);
    return a.len == b.len ? 0 : a.len < b.len ? -1 : 1;
}
