/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sqlite/key_run.h"

#include "base/mem.h"
#include <string.h>

bool key_run_init(struct key_run *run)
{
    *run = (struct key_run){
        .buckets = mem_zalloc(KEY_RUN_BUCKETS, sizeof *run->buckets),
        .entries = mem_alloc(KEY_RUN_MAX * sizeof *run->entries),
    };
    if (run->buckets && run->entries)
        return true;
    key_run_fini(run);
    return false;
}

void key_run_fini(struct key_run *run)
{
    mem_free(run->buckets);
    mem_free(run->entries);
    *run = (struct key_run){0};
}

void key_run_clear(struct key_run *run)
{
    if (run->n > 0)
        memset(run->buckets, 0, KEY_RUN_BUCKETS * sizeof *run->buckets);
    run->n = 0;
}

static size_t bucket_of(const unsigned char *key)
{
    return (size_t)key[0] << 8 | key[1];
}

const struct key_run_entry *key_run_first(const struct key_run *run, size_t bucket)
{
    uint32_t at = run->buckets[bucket];
    return at ? &run->entries[at - 1] : NULL;
}

const struct key_run_entry *key_run_next(const struct key_run *run,
                                         const struct key_run_entry *entry)
{
    return entry->next ? &run->entries[entry->next - 1] : NULL;
}

static const struct key_run_entry *find(const struct key_run *run, const unsigned char *key)
{
    const struct key_run_entry *entry = key_run_first(run, bucket_of(key));
    while (entry && memcmp(entry->key, key, KEY_RUN_KEY_SIZE) != 0)
        entry = key_run_next(run, entry);
    return entry;
}

bool key_run_find(const struct key_run *run, const unsigned char *key, int64_t *ret_row)
{
    const struct key_run_entry *entry = find(run, key);
    if (!entry)
        return false;
    *ret_row = entry->row;
    return true;
}

bool key_run_set(struct key_run *run, const unsigned char *key, int64_t row)
{
    const struct key_run_entry *known = find(run, key);
    if (known) {
        run->entries[known - run->entries].row = row;
        return true;
    }
    if (run->n == KEY_RUN_MAX)
        return false;
    uint32_t *bucket = &run->buckets[bucket_of(key)];
    struct key_run_entry *entry = &run->entries[run->n++];
    memcpy(entry->key, key, KEY_RUN_KEY_SIZE);
    entry->row = row;
    entry->next = *bucket;
    *bucket = (uint32_t)run->n;
    return true;
}
