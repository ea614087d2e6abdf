/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/percent.h"

bool percent_starts(struct slice text, char *ret_byte)
{
    int high = text.len >= PERCENT_SIZE && text.at[0] == '%' ? hex_digit(text.at[1]) : -1;
    int low = high >= 0 ? hex_digit(text.at[2]) : -1;
    if (low >= 0)
        *ret_byte = (char)(high << 4 | low);
    return low >= 0;
}

bool percent_is_valid(struct slice text)
{
    char byte;
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] == '%' && !percent_starts(slice_skip(text, i), &byte))
            return false;
    return true;
}

char percent_take(struct slice *text, bool plus)
{
    char byte = text->at[0] == '+' && plus ? ' ' : text->at[0];
    bool escaped = percent_starts(*text, &byte);
    *text = slice_skip(*text, escaped ? PERCENT_SIZE : 1);
    return byte;
}

struct slice percent_decode(struct slice text, bool plus, struct arena *arena)
{
    char *decoded = arena_alloc(arena, text.len);
    size_t len = 0;
    while (decoded && text.len > 0)
        decoded[len++] = percent_take(&text, plus);
    return slice_make(decoded, len);
}

bool percent_spells(struct slice spelled, bool plus, struct slice text)
{
    while (spelled.len > 0 && text.len > 0) {
        if (percent_take(&spelled, plus) != text.at[0])
            return false;
        text = slice_skip(text, 1);
    }
    return spelled.len == 0 && text.len == 0;
}

void percent_write(char byte, char ret_escape[PERCENT_SIZE])
{
    static const char digits[] = "0123456789ABCDEF";
    ret_escape[0] = '%';
    ret_escape[1] = digits[(unsigned char)byte >> 4];
    ret_escape[2] = digits[(unsigned char)byte & 15];
}
