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

/* NULL: no memory. */
struct cache *cache_new(uint64_t max_bytes);
/* Accepts NULL. */
void cache_free(struct cache *cache);

/* What an entry is compared by. */
struct cache_key {
    struct digest key_hash;
    struct digest payload_hash;
    struct digest target_hash;
    struct slice recipe;
};

/* Keeps `outcome` (one more reference). Without memory it just is not kept. */
void cache_put(struct cache *cache, const struct cache_key *key, struct outcome *outcome,
               int64_t expires_at, int64_t forgets);

/* The outcome (a reference of the caller's) when key, hashes and recipe are the same, it was put
 * under `forgets`, and has not expired; else NULL. */
struct outcome *cache_get(struct cache *cache, const struct cache_key *key, int64_t now,
                          int64_t forgets);

#endif
