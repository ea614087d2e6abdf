/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/shell.h"

#include "base/text/utf8.h"
#include <string.h>

#define SAFE_MARKS "%+,-./:=@_^"

enum quoting {
    QUOTING_NONE,
    QUOTING_PLAIN,   /* '...' */
    QUOTING_ESCAPES, /* $'...' */
};

/* The first character of `text`, or its first byte, where that is no UTF-8. */
static struct slice first_of(struct slice text, bool *ret_shows)
{
    size_t length = utf8_length(text);
    struct slice character = slice_make(text.at, length > 0 ? length : 1);
    *ret_shows = length > 0 && !utf8_is_hidden(character);
    return character;
}

static enum quoting quoting_of(struct slice word)
{
    enum quoting quoting = word.len > 0 ? QUOTING_NONE : QUOTING_PLAIN;
    while (word.len > 0) {
        bool shows;
        struct slice character = first_of(word, &shows);
        if (!shows)
            return QUOTING_ESCAPES;
        if (character.len == 1 && !slice_is_word(character, SAFE_MARKS))
            quoting = QUOTING_PLAIN;
        word = slice_skip(word, character.len);
    }
    return quoting;
}

static void add_escaped(struct buf *buf, struct slice character, bool shows)
{
    static const char letters[] = "\n\t\r\\\'", names[] = "ntr\\'";
    const char *letter = character.len == 1 ? memchr(letters, character.at[0], 5) : NULL;
    if (letter) {
        buf_add_char(buf, '\\');
        buf_add_char(buf, names[letter - letters]);
    } else if (shows) {
        buf_add_slice(buf, character);
    } else {
        for (size_t i = 0; i < character.len; i++)
            buf_printf(buf, "\\x%02x", (unsigned char)character.at[i]);
    }
}

void shell_add_word(struct buf *buf, struct slice word)
{
    enum quoting quoting = quoting_of(word);
    if (quoting == QUOTING_NONE) {
        buf_add_slice(buf, word);
        return;
    }
    buf_add_str(buf, quoting == QUOTING_ESCAPES ? "$'" : "'");
    while (word.len > 0) {
        bool shows;
        struct slice character = first_of(word, &shows);
        if (quoting == QUOTING_ESCAPES)
            add_escaped(buf, character, shows);
        else if (character.at[0] == '\'')
            buf_add_str(buf, "'\\''");
        else
            buf_add_slice(buf, character);
        word = slice_skip(word, character.len);
    }
    buf_add_char(buf, '\'');
}

void shell_add_line(struct buf *buf, const char *const *words, size_t most)
{
    for (size_t i = 0, used = 0; words[i]; i++) {
        struct slice word = slice_of(words[i]);
        struct slice shown = slice_first(word, most - used);
        buf_add_str(buf, i > 0 ? " " : "");
        if (shown.len > 0 || word.len == 0)
            shell_add_word(buf, shown);
        used += shown.len;
        if (shown.len < word.len) {
            buf_add_str(buf, shown.len > 0 ? " ..." : "...");
            return;
        }
    }
}
