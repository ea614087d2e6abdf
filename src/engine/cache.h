/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache: recent outcomes in memory, so that a replay asks no disk. Thread-safe.
 *
 * An entry counts while the record it copies is known to be unchanged: final records change only by
 * expiry (kept with the entry) and by forget (counted by the store: an entry remembers the count it
 * was made under). Bounded in bytes; the least recently used leave first.
 */
#ifndef PAWL_ENGINE_CACHE_H
#define PAWL_ENGINE_CACHE_H

#include "core/outcome.h"
#include "core/record.h"

struct cache;

/* 0 bytes: it keeps nothing. NULL: no memory. */
struct cache *cache_new(uint64_t max_bytes);

/* Another bound from now on; what is too much leaves at once. */
void cache_limit(struct cache *cache, uint64_t max_bytes);

/* Accepts NULL. */
void cache_free(struct cache *cache);

/* What an entry is compared by. */
struct cache_key {
    struct digest key_hash;
    struct digest payload_hash;
    struct digest target_hash;
    struct slice recipe;
};

/* What an entry holds of its record: store times. */
struct cached {
    struct outcome *outcome;
    int64_t row;
    int64_t attempts;
    int64_t created_at;
    int64_t completed_at;
    int64_t expires_at;
    int64_t gone_at;
};

/* Keeps a copy, and one more reference to the outcome. Without memory, or larger than an eighth of
 * the cache, it just is not kept. */
void cache_put(struct cache *cache, const struct cache_key *key, const struct cached *cached,
               int64_t forgets);

/* True when key, hashes and recipe are the same, the entry was put under `forgets`, and has not
 * expired: `ret_cached` gets it, with a reference to the outcome that is the caller's. */
bool cache_get(struct cache *cache, const struct cache_key *key, int64_t now, int64_t forgets,
               struct cached *ret_cached);

#endif
