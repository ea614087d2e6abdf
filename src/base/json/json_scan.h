/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a string's bytes stop standing for themselves, eight at a time: nearly always at its end.
 */
#ifndef PAWL_BASE_JSON_SCAN_H
#define PAWL_BASE_JSON_SCAN_H

#include "base/slice.h"
#include "base/text/word.h"

/* Marks what JSON writes as an escape: controls, '"', the backslash. */
static inline uint64_t json_marks(uint64_t word)
{
    return word_below(word, 0x20) | word_is(word, '"') | word_is(word, '\\');
}

/* Escapes of two characters: the letter behind the backslash, and what it stands for. */
static const char json_escapes[][2] = {{'"', '"'},  {'\\', '\\'}, {'/', '/'},  {'b', '\b'},
                                       {'f', '\f'}, {'n', '\n'},  {'r', '\r'}, {'t', '\t'}};
#define JSON_N_ESCAPES COUNT_OF(json_escapes)

static inline bool json_must_escape(char c)
{
    return (unsigned char)c < 0x20 || c == '"' || c == '\\';
}

/* How many bytes at the start need no escape. */
static inline size_t json_unescaped_length(struct slice s)
{
    size_t n = 0;
    for (; s.len - n >= WORD_SIZE; n += WORD_SIZE) {
        uint64_t marks = json_marks(word_load(s.at + n));
        if (marks)
            return n + word_first(marks);
    }
    while (n < s.len && !json_must_escape(s.at[n]))
        n++;
    return n;
}

/* How many bytes at the start are ASCII as well, and no DEL. */
static inline size_t json_plain_length(struct slice s)
{
    size_t n = 0;
    for (; s.len - n >= WORD_SIZE; n += WORD_SIZE) {
        uint64_t word = word_load(s.at + n);
        uint64_t marks = json_marks(word) | ((word | (word + WORD_EACH(1))) & WORD_EACH(0x80));
        if (marks)
            return n + word_first(marks);
    }
    while (n < s.len && !json_must_escape(s.at[n]) && (unsigned char)s.at[n] < 0x7F)
        n++;
    return n;
}

#endif
