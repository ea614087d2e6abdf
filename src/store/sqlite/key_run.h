/* SPDX-License-Identifier: Apache-2.0 */
/*
 * key_run: what a stretch of the key log says: which row a key names, or that it names none any
 * more. Memory alone, all of it taken at the start (2.5 MiB, touched as keys come), so that no
 * key is refused for want of it.
 *
 * Buckets by the first two bytes of the key: they are those of a keyed hash, so buckets stay small,
 * nobody can make them large, and in order they give the keys in the order of a B-tree. Where few
 * keys are usual, several buckets share a chain: each page of chains that is touched costs a
 * command that runs for milliseconds a page fault or two.
 * Keys are KEY_RUN_KEY_SIZE bytes, rows are row ids (0: none any more).
 */
#ifndef PAWL_STORE_KEY_RUN_H
#define PAWL_STORE_KEY_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEY_RUN_KEY_SIZE 16
#define KEY_RUN_BUCKETS 65536
#define KEY_RUN_USUAL 65536                /* keys, at which a run is closed */
#define KEY_RUN_MAX (KEY_RUN_USUAL + 8192) /* a run is closed after a batch, never within one */

struct key_run_entry {
    unsigned char key[KEY_RUN_KEY_SIZE];
    int64_t row;
    uint32_t next; /* in its chain: index + 1; 0: the last one */
};

struct key_run {
    struct key_run_entry *entries; /* KEY_RUN_MAX, and behind them the chains */
    uint32_t *chains;              /* index + 1 of the newest; 0: none */
    size_t n_chains;               /* a power of two */
    size_t n;
};

/* `usual`: keys for which it is made; any number fits up to KEY_RUN_MAX. False: no memory. */
bool key_run_init(struct key_run *run, size_t usual);
/* Accepts one of zeros. */
void key_run_fini(struct key_run *run);
void key_run_clear(struct key_run *run);

/* False: this run says nothing of the key. `*ret_row`: 0 when it names none any more. */
bool key_run_find(const struct key_run *run, const unsigned char *key, int64_t *ret_row);

/* From now on the key names `row`. False: the run is full. */
bool key_run_set(struct key_run *run, const unsigned char *key, int64_t row);

/* The first entry of a bucket, and the one after; NULL: that was the last. */
const struct key_run_entry *key_run_first(const struct key_run *run, size_t bucket);
const struct key_run_entry *key_run_next(const struct key_run *run,
                                         const struct key_run_entry *entry);

#endif
