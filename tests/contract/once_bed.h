/* SPDX-License-Identifier: Apache-2.0 */
/* Begins that bring a once value, for the tests of `once` (contract section 3). */
#ifndef PAWL_TESTS_ONCE_BED_H
#define PAWL_TESTS_ONCE_BED_H

#include "store_bed.h"

#include "base/mem.h"
#include "engine/engine.h"

#define ONCE_TTL (2 * TTL)
#define RULE SLICE("rule")
#define TENANT SLICE("tenant")
#define KEYLESS 7000

enum { HASHES = 16 }; /* begins of one test that are under way */

/* How the rule of a begin is written. */
struct sort {
    enum record_unknown unknown;
    bool replay;
    bool acknowledge;
    bool any_payload;
};

static const struct sort rejects = {.unknown = RECORD_UNKNOWN_HOLD};
static const struct sort replays = {.unknown = RECORD_UNKNOWN_HOLD, .replay = true};
static const struct sort retries = {.unknown = RECORD_UNKNOWN_RETRY, .replay = true};
static const struct sort probes = {.unknown = RECORD_UNKNOWN_PROBE, .replay = true};

/* Constants: the committer reads the texts of one begin while the next is made. */
static inline struct slice text_of(uint64_t value)
{
    static const char *const texts[] = {"pay_0", "pay_1", "pay_2", "pay_3", "pay_4",
                                        "pay_5", "pay_6", "pay_7", "pay_8", "pay_9"};
    assert_true(value < sizeof texts / sizeof *texts);
    return slice_of(texts[value]);
}

static inline struct slice key_text(uint64_t key)
{
    static const char *const texts[] = {"key-0", "key-1", "key-2", "key-3", "key-4",
                                        "key-5", "key-6", "key-7", "key-8", "key-9"};
    return slice_of(texts[key % 10]);
}

/* The names of a value; as a key it is 1000 and its number. */
static inline const struct store_once *once_of(struct bed *bed, uint64_t value,
                                               const struct sort *sort)
{
    static struct store_once once[HASHES];
    static size_t next;
    struct store_once *one = &once[next++ % HASHES];
    const struct digest_key *key = store_digest_key(bed->store);
    *one = (struct store_once){.text = text_of(value),
                               .hash = store_once_hash(key, TENANT, RULE, text_of(value)),
                               .as_key = key_of(1000 + value),
                               .reject = !sort->replay && !sort->acknowledge,
                               .acknowledge = sort->acknowledge,
                               .any_payload = sort->any_payload};
    return one;
}

static inline struct store_op begin(struct bed *bed, uint64_t key, uint64_t value,
                                    const struct sort *sort)
{
    struct store_op op = begin_on(key);
    op.arrival.key = key_text(key);
    op.arrival.once = once_of(bed, value, sort);
    op.begin.unknown = sort->unknown;
    op.begin.once_ttl_us = ONCE_TTL;
    op.begin.once_replay = sort->replay;
    return op;
}

static inline void drop(struct store_op *op)
{
    outcome_unref(op->result.found);
    mem_free(op->result.found_recipe);
    mem_free(op->result.found_key);
}

static inline enum record_verdict ask(struct bed *bed, uint64_t key, uint64_t value,
                                      const struct sort *sort)
{
    struct store_op op = begin(bed, key, value, sort);
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
    drop(&op);
    return op.result.verdict;
}

/* A begin of another payload. */
static inline enum record_verdict ask_other(struct bed *bed, uint64_t key, uint64_t value,
                                            const struct sort *sort)
{
    struct store_op op = begin(bed, key, value, sort);
    op.begin.payload_hash.bytes[0] ^= 1;
    run(bed, &op);
    drop(&op);
    return op.result.verdict;
}

static inline int64_t take(struct bed *bed, uint64_t key, uint64_t value, const struct sort *sort)
{
    struct store_op op = begin(bed, key, value, sort);
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    assert_null(op.result.found_key);
    return op.result.record.token;
}

static inline struct store_op keyless(struct bed *bed, uint64_t value, const struct sort *sort)
{
    struct store_op op = begin(bed, KEYLESS + value, value, sort);
    struct store_once *once = (struct store_once *)(uintptr_t)op.arrival.once;
    once->keyless = true;
    return op;
}

#ifdef PAWL_HOOKS

static int64_t now;

static inline void advance(struct bed *bed, int64_t by)
{
    now += by;
    clock_test_set(now, now);
    look(bed, 1);
}

static inline void hold_clock(struct bed *bed)
{
    bed_close(bed);
    now = clock_wall_us();
    clock_test_set(now, now);
    bed->config.no_thread = true;
    bed_open(bed);
}

#endif

#endif
