/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sqlite/key_filter.h"

#include "base/mem.h"
#include <string.h>

#define BLOCK_WORDS 8
#define BLOCK_BYTES (BLOCK_WORDS * sizeof(uint64_t))
#define PROBES 6
#define PROBE_BITS 9 /* which of the 512 of a block */
#define BITS_A_KEY 12

bool key_filter_start(struct key_filter *filter, size_t keys)
{
    key_filter_fini(filter);
    size_t room = keys + keys / 2 > KEY_FILTER_ROOM_LEAST ? keys + keys / 2 : KEY_FILTER_ROOM_LEAST;
    size_t blocks = room / (BLOCK_BYTES * 8 / BITS_A_KEY);
    if (blocks > KEY_FILTER_BYTES_MAX / BLOCK_BYTES)
        blocks = KEY_FILTER_BYTES_MAX / BLOCK_BYTES;
    uint64_t *words = mem_zalloc(blocks, BLOCK_BYTES);
    if (!words)
        return false;
    *filter = (struct key_filter){.words = words, .blocks = blocks, .room = room};
    return true;
}

void key_filter_fini(struct key_filter *filter)
{
    mem_free(filter->words);
    *filter = (struct key_filter){0};
}

static uint64_t *block_of(const struct key_filter *filter, const unsigned char *key)
{
    uint64_t share = 0; /* of 2^64, and so of the blocks: in the order of the keys, like a scan */
    for (size_t i = 0; i < sizeof share; i++)
        share = share << 8 | key[i];
    size_t block = (size_t)((unsigned __int128)share * filter->blocks >> 64);
    return filter->words + block * BLOCK_WORDS;
}

static uint64_t bits_of(const unsigned char *key)
{
    uint64_t bits;
    memcpy(&bits, key + sizeof bits, sizeof bits);
    return bits;
}

void key_filter_add(struct key_filter *filter, const unsigned char *key)
{
    if (!filter->words)
        return;
    uint64_t *block = block_of(filter, key), bits = bits_of(key);
    for (int i = 0; i < PROBES; i++, bits >>= PROBE_BITS)
        block[bits >> 6 & (BLOCK_WORDS - 1)] |= UINT64_C(1) << (bits & 63);
    filter->added++;
}

bool key_filter_may_hold(const struct key_filter *filter, const unsigned char *key)
{
    if (!filter->whole)
        return true;
    const uint64_t *block = block_of(filter, key);
    uint64_t bits = bits_of(key);
    for (int i = 0; i < PROBES; i++, bits >>= PROBE_BITS)
        if ((block[bits >> 6 & (BLOCK_WORDS - 1)] >> (bits & 63) & 1) == 0)
            return false;
    return true;
}
