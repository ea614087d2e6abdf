/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Eight bytes at once, to find the first that is none of the usual ones. Marks are bit 7 of each
 * byte; a borrow may mark a byte above a marked one as well: only the lowest mark counts.
 */
#ifndef PAWL_BASE_WORD_H
#define PAWL_BASE_WORD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WORD_SIZE sizeof(uint64_t)
#define WORD_EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* The first byte lowest, whatever the machine. */
static inline uint64_t word_load(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

/* Marks bytes below `limit` (at most 0x80). */
static inline uint64_t word_below(uint64_t word, unsigned char limit)
{
    return (word - WORD_EACH(limit)) & ~word & WORD_EACH(0x80);
}

/* Marks bytes that are `byte` (below 0x80). */
static inline uint64_t word_is(uint64_t word, unsigned char byte)
{
    return word_below(word ^ WORD_EACH(byte), 1);
}

/* Which byte the lowest mark is of. */
static inline size_t word_first(uint64_t marks)
{
    return (size_t)__builtin_ctzll(marks) / 8;
}

#endif
