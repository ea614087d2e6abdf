/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print.h"

#include "base/utf8.h"

/* What a terminal acts on: C0, DEL, C1, and the marks that reorder text or are not seen. */
static bool is_hidden(struct slice character)
{
    static const struct utf8_range ranges[] = {{0, 0x1F},        {0x7F, 0x9F},
                                               {0x200B, 0x200F}, {0x2028, 0x202E},
                                               {0x2060, 0x206F}, {0xFEFF, 0xFEFF}};
    return UTF8_IS_IN(utf8_code(character.at, character.len), ranges);
}

void print_escaped(struct buf *buf, struct slice text)
{
    while (text.len > 0) {
        size_t length = utf8_length(text);
        struct slice character = slice_make(text.at, length > 0 ? length : 1);
        text = slice_skip(text, character.len);
        if (character.at[0] == '\\') {
            buf_add_str(buf, "\\\\");
        } else if (length > 0 && !is_hidden(character)) {
            buf_add_slice(buf, character);
        } else {
            for (size_t i = 0; i < character.len; i++)
                buf_printf(buf, "\\x%02x", (unsigned char)character.at[i]);
        }
    }
}
