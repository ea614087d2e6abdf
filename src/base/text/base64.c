/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/base64.h"

#define GROUP 3 /* bytes that become four digits */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_add(struct buf *buf, struct slice bytes)
{
    for (size_t i = 0; i < bytes.len; i += GROUP) {
        size_t n = bytes.len - i < GROUP ? bytes.len - i : GROUP;
        uint32_t bits = 0;
        for (size_t j = 0; j < GROUP; j++)
            bits = bits << 8 | (j < n ? (unsigned char)bytes.at[i + j] : 0);
        for (size_t j = 0; j <= GROUP; j++)
            buf_add_char(buf, j <= n ? digits[bits >> (18 - 6 * j) & 63] : '=');
    }
}

static struct slice without_padding(struct slice text)
{
    for (int i = 0; i < 2 && text.len > 0 && text.len % 4 == (i == 0 ? 0 : 3); i++)
        if (text.at[text.len - 1] == '=')
            text.len--;
    return text;
}

bool base64_read(struct slice text, struct buf *bytes)
{
    text = without_padding(text);
    uint32_t bits = 0;
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++) {
        const char *digit = text.at[i] ? strchr(digits, text.at[i]) : NULL;
        if (!digit)
            return false;
        bits = bits << 6 | (uint32_t)(digit - digits);
        n += 6;
        if (n < 8)
            continue;
        n -= 8;
        buf_add_char(bytes, (char)(bits >> n));
        bits &= (1U << n) - 1;
    }
    return n < 6 && bits == 0 && buf_ok(bytes); /* all digits count, and no bit is left over */
}
