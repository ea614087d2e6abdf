/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"

#define GROUP 3 /* bytes that become four digits */

void base64_add(struct buf *buf, struct slice bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes.len; i += GROUP) {
        size_t n = bytes.len - i < GROUP ? bytes.len - i : GROUP;
        uint32_t bits = 0;
        for (size_t j = 0; j < GROUP; j++)
            bits = bits << 8 | (j < n ? (unsigned char)bytes.at[i + j] : 0);
        for (size_t j = 0; j <= GROUP; j++)
            buf_add_char(buf, j <= n ? digits[bits >> (18 - 6 * j) & 63] : '=');
    }
}
