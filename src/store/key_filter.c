/* SPDX-License-Identifier: Apache-2.0 */
#include "store/key_filter.h"

#include "base/mem.h"
#include <string.h>

#define BLOCK_WORDS 8
#define BLOCK_BYTES (BLOCK_WORDS * sizeof(uint64_t))
#define PROBES 6
#define PROBE_BITS 9 /* which of the 512 of a block */
#define BYTES_A_KEY 2

bool key_filter_start(struct key_filter *filter, size_t keys)
{
    key_filter_fini(filter);
    size_t room = keys > KEY_FILTER_ROOM_LEAST / 2 ? 2 * keys : KEY_FILTER_ROOM_LEAST;
    size_t blocks = 1;
    while (blocks * BLOCK_BYTES < room * BYTES_A_KEY && blocks * BLOCK_BYTES < KEY_FILTER_BYTES_MAX)
        blocks *= 2;
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
    uint64_t which;
    memcpy(&which, key, sizeof which);
    return filter->words + (which & (filter->blocks - 1)) * BLOCK_WORDS;
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
