/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The demo's ledger: what was really done, one JSON line an effect, in the order it was done.
 *
 *   {"id":"rf_000001","kind":"refund","key":"k1","charge_id":"ch_1","amount":500,"at":"2026-..."}
 *
 * It counts effects and does not look for duplicates: two appends under one key are
 * two entries. Kept in memory too; one process at a time holds the file. Not thread-safe but for
 * ledger_sync.
 */
#ifndef PAWL_DEMO_LEDGER_H
#define PAWL_DEMO_LEDGER_H

#include "base/buf.h"

#define LEDGER_ENTRIES_MAX ((size_t)1000 * 1000)
#define LEDGER_FILE_MAX ((size_t)512 * 1024 * 1024)
#define LEDGER_AMOUNT_MAX (UINT64_C(1) << 53)

/* Kind, its name in the file, what its ids start with, where it says what it is about. */
#define LEDGER_KINDS(X)                                                                            \
    X(REFUND, "refund", "rf_", "/charge_id")                                                       \
    X(PAYMENT, "payment", "py_", "/order_id")

enum ledger_kind {
#define X(name, text, prefix, subject) LEDGER_##name,
    LEDGER_KINDS(X)
#undef X
        LEDGER_KIND_COUNT
};

struct ledger_entry {
    enum ledger_kind kind;
    uint64_t number;   /* of its kind, from 1 */
    struct slice key;  /* `at` NULL: none was given */
    struct slice line; /* as in the file, without the newline */
    struct ledger_entry *next;
};

struct ledger;

/* Opens or creates the file and reads what it holds. A last line without a newline was never
 * answered for and is cut off. NULL: `problem` gets one line of text. */
struct ledger *ledger_open(const char *path, struct buf *problem);

/* Accepts NULL. */
void ledger_close(struct ledger *ledger);

/* Points at the member that says what an effect of that kind is about. */
struct slice ledger_subject(enum ledger_kind kind);

/* Appends the id text of a number, such as rf_000001. */
void ledger_add_id(struct buf *buf, enum ledger_kind kind, uint64_t number);

/* Reads an id text of that kind. */
bool ledger_read_id(enum ledger_kind kind, struct slice id, uint64_t *ret_number);

struct ledger_order {
    enum ledger_kind kind;
    struct slice key; /* `at` NULL: none */
    struct slice subject;
    uint64_t amount;
    int64_t at_us; /* wall clock */
};

/* Does the effect: writes the line. NULL: the ledger is full, or it could not be written (then
 * there is no effect). Durable after ledger_sync. */
const struct ledger_entry *ledger_append(struct ledger *ledger, const struct ledger_order *order);

/* Forces what was appended to the disk. Blocks; any thread. */
bool ledger_sync(const struct ledger *ledger);

/* The first entry made under that key, or NULL. */
const struct ledger_entry *ledger_by_key(const struct ledger *ledger, enum ledger_kind kind,
                                         struct slice key);

/* The entry of that number, or NULL. */
const struct ledger_entry *ledger_by_number(const struct ledger *ledger, enum ledger_kind kind,
                                            uint64_t number);

/* All entries, in the order they were made; NULL: there is none. */
const struct ledger_entry *ledger_first(const struct ledger *ledger);

#endif
