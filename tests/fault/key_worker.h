/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that works on a store beside others, while its calls, allocations and disk fail, or
 * until it is killed in the middle of a write. It carries out the orders on its desk, memory that
 * it shares with who gives them, in one batch.
 */
#ifndef PAWL_TESTS_KEY_WORKER_H
#define PAWL_TESTS_KEY_WORKER_H

#include "store/store.h"

#define SECOND CLOCK_US_PER_S
#define EPOCH (INT64_C(1700000000) * SECOND)
#define KEYS 100
#define ORDERS_MAX (2 * KEYS)
#define NONE UINT32_MAX

enum harm { HARM_NONE, HARM_FULL, HARM_IO, HARM_MEMORY, HARM_SQLITE_MEMORY, HARM_KILL };

/* One operation, and what its owner was told. */
struct order {
    enum store_op_kind kind;
    unsigned key;
    unsigned former; /* begin: NONE, or the key's former name */
    int64_t token;
    int64_t ttl_us;
    bool told;
    enum record_verdict verdict;
    enum record_write write;
    struct record record;
    int64_t at;        /* store time */
    bool under_former; /* begin: the record stands there */
};

struct desk {
    struct order orders[ORDERS_MAX];
    size_t n;
    enum harm harm;
    long harm_at;
    size_t key_run;
    bool close_after;
    int64_t now;
};

/* Half of them differ in nothing but the last of the bytes that the index has. */
struct digest key_hash(unsigned key);

/* In a process of its own, that has opened nothing: reads a byte `from` its driver, carries out
 * what is on the desk, writes the byte `to` it; until the driver hangs up. Does not return. */
void work(struct desk *desk, const char *path, int from, int to);

#endif
