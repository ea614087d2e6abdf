/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print.h"

#include "base/utf8.h"

/* What no terminal acts on: neither C0, DEL, C1, nor the marks that reorder text or are not seen
 * (U+200B-200F, U+2028-202E, U+2060-206F, U+FEFF). */
static bool is_plain(struct slice character)
{
    const unsigned char *at = (const unsigned char *)character.at;
    if (character.len == 1)
        return at[0] >= 0x20 && at[0] < 0x7F;
    if (character.len == 2)
        return at[0] != 0xC2 || at[1] >= 0xA0;
    if (character.len != 3)
        return true;
    bool joined = at[0] == 0xE2 && at[1] == 0x80 &&
                  ((at[2] >= 0x8B && at[2] <= 0x8F) || (at[2] >= 0xA8 && at[2] <= 0xAE));
    bool hidden = at[0] == 0xE2 && at[1] == 0x81 && at[2] >= 0xA0 && at[2] <= 0xAF;
    bool mark = at[0] == 0xEF && at[1] == 0xBB && at[2] == 0xBF;
    return !joined && !hidden && !mark;
}

void print_escaped(struct buf *buf, struct slice text)
{
    while (text.len > 0) {
        size_t length = utf8_length(text);
        struct slice character = slice_make(text.at, length > 0 ? length : 1);
        text = slice_skip(text, character.len);
        if (character.at[0] == '\\') {
            buf_add_str(buf, "\\\\");
        } else if (length > 0 && is_plain(character)) {
            buf_add_slice(buf, character);
        } else {
            for (size_t i = 0; i < character.len; i++)
                buf_printf(buf, "\\x%02x", (unsigned char)character.at[i]);
        }
    }
}
