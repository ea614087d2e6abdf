/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/cache.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/thread.h"

#define BYTES_PER_BUCKET 512 /* an entry with a small body takes some 700: chains stay short */
#define LARGEST_SHARE 8      /* of the cache: a larger body would drive out too many others */
#define BUCKETS_LEAST ((size_t)64)
#define BUCKETS_MOST ((size_t)1 << 20)

struct entry {
    struct entry *bucket_next;
    struct entry *newer;
    struct entry *older;
    struct digest key_hash;
    struct digest payload_hash;
    struct digest target_hash;
    struct cached cached; /* with a reference to the outcome */
    int64_t forgets;
    size_t recipe_len;
    char recipe[];
};

struct cache {
    struct mutex mutex;
    struct entry **buckets;
    size_t n_buckets;
    struct entry *newest;
    struct entry *oldest;
    uint64_t bytes;
    atomic_ullong max_bytes;
};

static size_t buckets_for(uint64_t max_bytes)
{
    size_t n = BUCKETS_LEAST;
    while (n < BUCKETS_MOST && (uint64_t)n * BYTES_PER_BUCKET < max_bytes)
        n *= 2;
    return n;
}

struct cache *cache_new(uint64_t max_bytes)
{
    size_t n = buckets_for(max_bytes);
    struct cache *cache = mem_zalloc(1, sizeof *cache);
    struct entry **buckets = mem_zalloc(n, sizeof *buckets);
    if (!cache || !buckets) {
        mem_free(cache);
        mem_free(buckets);
        return NULL;
    }
    mutex_init(&cache->mutex);
    cache->buckets = buckets;
    cache->n_buckets = n;
    atomic_init(&cache->max_bytes, max_bytes);
    return cache;
}

static struct entry **cache_bucket_of(struct cache *cache, const struct digest *key_hash)
{
    uint64_t word;
    memcpy(&word, key_hash->bytes, sizeof word);
    return &cache->buckets[word & (cache->n_buckets - 1)];
}

static struct entry *find_entry(struct cache *cache, const struct digest *key_hash)
{
    struct entry *entry = *cache_bucket_of(cache, key_hash);
    while (entry && !digest_eq(&entry->key_hash, key_hash))
        entry = entry->bucket_next;
    return entry;
}

static size_t entry_bytes(const struct entry *entry)
{
    return sizeof *entry + entry->recipe_len + outcome_size(entry->cached.outcome);
}

static void unlink_use(struct cache *cache, struct entry *entry)
{
    *(entry->newer ? &entry->newer->older : &cache->newest) = entry->older;
    *(entry->older ? &entry->older->newer : &cache->oldest) = entry->newer;
}

static void link_newest(struct cache *cache, struct entry *entry)
{
    entry->newer = NULL;
    entry->older = cache->newest;
    *(cache->newest ? &cache->newest->newer : &cache->oldest) = entry;
    cache->newest = entry;
}

static void drop_entry(struct cache *cache, struct entry *entry)
{
    struct entry **link = cache_bucket_of(cache, &entry->key_hash);
    while (*link != entry)
        link = &(*link)->bucket_next;
    *link = entry->bucket_next;
    unlink_use(cache, entry);
    cache->bytes -= entry_bytes(entry);
    outcome_unref(entry->cached.outcome);
    mem_free(entry);
}

/* Puts everything into `buckets` and returns the old ones. */
static struct entry **move_to_buckets(struct cache *cache, struct entry **buckets, size_t n)
{
    struct entry **old = cache->buckets;
    cache->buckets = buckets;
    cache->n_buckets = n;
    for (struct entry *entry = cache->oldest; entry; entry = entry->newer) {
        struct entry **bucket = cache_bucket_of(cache, &entry->key_hash);
        entry->bucket_next = *bucket;
        *bucket = entry;
    }
    return old;
}

void cache_limit(struct cache *cache, uint64_t max_bytes)
{
    size_t n = buckets_for(max_bytes);
    struct entry **buckets = mem_zalloc(n, sizeof *buckets);
    mutex_lock(&cache->mutex);
    atomic_store(&cache->max_bytes, max_bytes);
    while (cache->bytes > max_bytes)
        drop_entry(cache, cache->oldest);
    /* Without memory the chains are just longer, or more are empty. */
    if (buckets)
        buckets = move_to_buckets(cache, buckets, n);
    mutex_unlock(&cache->mutex);
    mem_free(buckets);
}

void cache_free(struct cache *cache)
{
    if (!cache)
        return;
    while (cache->oldest)
        drop_entry(cache, cache->oldest);
    CHECK(cache->bytes == 0);
    mutex_fini(&cache->mutex);
    mem_free(cache->buckets);
    mem_free(cache);
}

static struct entry *entry_new(const struct cache_key *key, const struct cached *cached)
{
    struct entry *entry = mem_alloc(sizeof *entry + key->recipe.len);
    if (!entry)
        return NULL;
    *entry = (struct entry){.key_hash = key->key_hash,
                            .payload_hash = key->payload_hash,
                            .target_hash = key->target_hash,
                            .cached = *cached,
                            .recipe_len = key->recipe.len};
    outcome_ref(cached->outcome);
    memcpy(entry->recipe, key->recipe.at, key->recipe.len);
    return entry;
}

static void add_cache_entry(struct cache *cache, struct entry *entry)
{
    struct entry **bucket = cache_bucket_of(cache, &entry->key_hash);
    entry->bucket_next = *bucket;
    *bucket = entry;
    link_newest(cache, entry);
    cache->bytes += entry_bytes(entry);
    while (cache->bytes > atomic_load(&cache->max_bytes))
        drop_entry(cache, cache->oldest);
}

void cache_put(struct cache *cache, const struct cache_key *key, const struct cached *cached,
               int64_t forgets)
{
    uint64_t max_bytes = atomic_load(&cache->max_bytes);
    if (max_bytes == 0)
        return;
    size_t size = sizeof(struct entry) + key->recipe.len + outcome_size(cached->outcome);
    struct entry *entry = size <= max_bytes / LARGEST_SHARE ? entry_new(key, cached) : NULL;
    if (entry)
        entry->forgets = forgets;
    mutex_lock(&cache->mutex);
    struct entry *old = find_entry(cache, &key->key_hash);
    if (old)
        drop_entry(cache, old);
    if (entry)
        add_cache_entry(cache, entry);
    mutex_unlock(&cache->mutex);
}

static bool is_same_entry(const struct entry *entry, const struct cache_key *key)
{
    return digest_eq(&entry->payload_hash, &key->payload_hash) &&
           digest_eq(&entry->target_hash, &key->target_hash) &&
           slice_eq(slice_make(entry->recipe, entry->recipe_len), key->recipe);
}

bool cache_get(struct cache *cache, const struct cache_key *key, int64_t now, int64_t forgets,
               struct cached *ret_cached)
{
    bool found = false;
    if (atomic_load(&cache->max_bytes) == 0)
        return false;
    mutex_lock(&cache->mutex);
    struct entry *entry = find_entry(cache, &key->key_hash);
    if (entry && (entry->forgets != forgets || now >= entry->cached.expires_at)) {
        drop_entry(cache, entry);
        entry = NULL;
    }
    if (entry && is_same_entry(entry, key)) {
        unlink_use(cache, entry);
        link_newest(cache, entry);
        outcome_ref(entry->cached.outcome);
        *ret_cached = entry->cached;
        found = true;
    }
    mutex_unlock(&cache->mutex);
    return found;
}
