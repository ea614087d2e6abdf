/* SPDX-License-Identifier: Apache-2.0 */
/*
 * key_filter: whether a key may be in the index. A Bloom filter in blocks of one cache line: "no"
 * is certain, "yes" is wrong for about one new key in a hundred. It saves a new key the look at a
 * random page. Keys are taken in and never out; an owner makes it anew once `room` were added.
 *
 *      none --key_filter_start--> partial --(its owner has shown it all keys: `whole`)--> whole
 *
 * Keys are KEY_RUN_KEY_SIZE bytes of a keyed hash: their bits are taken as they are.
 */
#ifndef PAWL_STORE_KEY_FILTER_H
#define PAWL_STORE_KEY_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEY_FILTER_ROOM_LEAST ((size_t)1 << 20) /* keys */
#define KEY_FILTER_BYTES_MAX ((size_t)16 << 20) /* more keys than fit make "yes" wrong oftener */

struct key_filter {
    uint64_t *words;
    size_t blocks;
    size_t room; /* keys it was made for */
    size_t added;
    bool whole; /* every key of the store was added: what it lacks is not there */
};

/* Makes an empty one, partial, for `keys` keys and half as many again. False: no memory, there is
 * none. */
bool key_filter_start(struct key_filter *filter, size_t keys);
/* Accepts one of zeros; there is none afterwards. */
void key_filter_fini(struct key_filter *filter);

/* Takes in a key; nothing when there is no filter. */
void key_filter_add(struct key_filter *filter, const unsigned char *key);

/* False: the index does not hold it. */
bool key_filter_may_hold(const struct key_filter *filter, const unsigned char *key);

#endif
