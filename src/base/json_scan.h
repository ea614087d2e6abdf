/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a string's bytes stop standing for themselves, eight at a time: nearly always at its end.
 */
#ifndef PAWL_BASE_JSON_SCAN_H
#define PAWL_BASE_JSON_SCAN_H

#include "base/slice.h"

#define JSON_EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* The first byte lowest, whatever the machine. */
static inline uint64_t json_word(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

/* Bit 7 of each byte that JSON writes as an escape: controls, '"', the backslash. A borrow may mark
 * a byte above one of those as well: only the lowest mark counts. */
static inline uint64_t json_marks(uint64_t word)
{
    return ((word - JSON_EACH(0x20)) | ((word ^ JSON_EACH('"')) - JSON_EACH(1)) |
            ((word ^ JSON_EACH('\\')) - JSON_EACH(1))) &
           ~word & JSON_EACH(0x80);
}

static inline bool json_must_escape(char c)
{
    return (unsigned char)c < 0x20 || c == '"' || c == '\\';
}

/* How many bytes at the start need no escape. */
static inline size_t json_unescaped_length(struct slice s)
{
    size_t n = 0;
    for (; s.len - n >= sizeof(uint64_t); n += sizeof(uint64_t)) {
        uint64_t marks = json_marks(json_word(s.at + n));
        if (marks)
            return n + (size_t)__builtin_ctzll(marks) / 8;
    }
    while (n < s.len && !json_must_escape(s.at[n]))
        n++;
    return n;
}

/* How many bytes at the start are ASCII as well, and no DEL. */
static inline size_t json_plain_length(struct slice s)
{
    size_t n = 0;
    for (; s.len - n >= sizeof(uint64_t); n += sizeof(uint64_t)) {
        uint64_t word = json_word(s.at + n);
        uint64_t marks = json_marks(word) | ((word | (word + JSON_EACH(1))) & JSON_EACH(0x80));
        if (marks)
            return n + (size_t)__builtin_ctzll(marks) / 8;
    }
    while (n < s.len && !json_must_escape(s.at[n]) && (unsigned char)s.at[n] < 0x7F)
        n++;
    return n;
}

#endif
