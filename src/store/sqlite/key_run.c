/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sqlite/key_run.h"

#include "base/mem.h"
#include <string.h>

#define CHAINS_A_KEY 4

/* In one piece, which is so large that it comes from the kernel and is not cleared here. */
bool key_run_init(struct key_run *run, size_t usual)
{
    size_t n = 1, entries = KEY_RUN_MAX * sizeof *run->entries;
    while (n < CHAINS_A_KEY * usual && n < KEY_RUN_BUCKETS)
        n *= 2;
    *run = (struct key_run){.n_chains = n};
    run->entries = mem_zalloc(1, entries + n * sizeof *run->chains);
    if (run->entries)
        run->chains = (uint32_t *)(run->entries + KEY_RUN_MAX);
    return run->entries;
}

void key_run_fini(struct key_run *run)
{
    mem_free(run->entries);
    *run = (struct key_run){0};
}

void key_run_clear(struct key_run *run)
{
    if (run->n > 0)
        memset(run->chains, 0, run->n_chains * sizeof *run->chains);
    run->n = 0;
}

static size_t run_bucket_of(const unsigned char *key)
{
    return (size_t)key[0] << 8 | key[1];
}

static uint32_t *chain_of(const struct key_run *run, size_t bucket)
{
    return &run->chains[bucket & (run->n_chains - 1)];
}

static const struct key_run_entry *entry_at(const struct key_run *run, uint32_t at)
{
    return at ? &run->entries[at - 1] : NULL;
}

static const struct key_run_entry *skip_others(const struct key_run *run,
                                               const struct key_run_entry *entry, size_t bucket)
{
    while (entry && run_bucket_of(entry->key) != bucket)
        entry = entry_at(run, entry->next);
    return entry;
}

const struct key_run_entry *key_run_first(const struct key_run *run, size_t bucket)
{
    return skip_others(run, entry_at(run, *chain_of(run, bucket)), bucket);
}

const struct key_run_entry *key_run_next(const struct key_run *run,
                                         const struct key_run_entry *entry)
{
    return skip_others(run, entry_at(run, entry->next), run_bucket_of(entry->key));
}

static const struct key_run_entry *find_run_entry(const struct key_run *run,
                                                  const unsigned char *key)
{
    const struct key_run_entry *entry = entry_at(run, *chain_of(run, run_bucket_of(key)));
    while (entry && memcmp(entry->key, key, KEY_RUN_KEY_SIZE) != 0)
        entry = entry_at(run, entry->next);
    return entry;
}

bool key_run_find(const struct key_run *run, const unsigned char *key, int64_t *ret_row)
{
    const struct key_run_entry *entry = find_run_entry(run, key);
    if (!entry)
        return false;
    *ret_row = entry->row;
    return true;
}

bool key_run_set(struct key_run *run, const unsigned char *key, int64_t row)
{
    const struct key_run_entry *known = find_run_entry(run, key);
    if (known) {
        run->entries[known - run->entries].row = row;
        return true;
    }
    if (run->n == KEY_RUN_MAX)
        return false;
    uint32_t *chain = chain_of(run, run_bucket_of(key));
    struct key_run_entry *entry = &run->entries[run->n++];
    memcpy(entry->key, key, KEY_RUN_KEY_SIZE);
    entry->row = row;
    entry->next = *chain;
    *chain = (uint32_t)run->n;
    return true;
}
