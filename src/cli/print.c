/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print.h"

#include "base/utf8.h"

void print_escaped(struct buf *buf, struct slice text)
{
    while (text.len > 0) {
        size_t length = utf8_length(text);
        struct slice character = slice_make(text.at, length > 0 ? length : 1);
        text = slice_skip(text, character.len);
        if (character.at[0] == '\\') {
            buf_add_str(buf, "\\\\");
        } else if (length > 0 && !utf8_is_hidden(character)) {
            buf_add_slice(buf, character);
        } else {
            for (size_t i = 0; i < character.len; i++)
                buf_printf(buf, "\\x%02x", (unsigned char)character.at[i]);
        }
    }
}
