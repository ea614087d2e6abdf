/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keys: records as operators look at them and settle them, for `pawl keys` and the admin listener
 * alike: lists, JSON, and what came of an act. core/record.h decides whether an act may be done.
 */
#ifndef PAWL_ENGINE_KEYS_H
#define PAWL_ENGINE_KEYS_H

#include "base/arena.h"
#include "base/log.h"
#include "core/origin.h"
#include "engine/engine.h"

#define KEYS_TOKEN_MOST ((INT64_C(1) << 53) - 1)
#define KEYS_PATIENCE_US (10 * CLOCK_US_PER_S) /* for one operation of the store */

/* ---- lists: keys_list.c ---- */

/* What operators and store_counts call the status of a record. */
enum keys_status {
    KEYS_ANY,
    KEYS_PENDING,  /* somebody runs it, or did until the lease lapsed */
    KEYS_RELEASED, /* pending, and nobody runs it */
    KEYS_COMPLETE,
    KEYS_FAILED,
    KEYS_UNKNOWN,
};

/* The words for them, from KEYS_PENDING on, divided by '|'. */
#define KEYS_STATUS_NAMES "pending|released|complete|failed|unknown"

/* Which records. Slices: `.at` NULL: any. */
struct keys_wanted {
    struct slice tenant; /* or, where no record has it, the hash that log lines have for it */
    struct slice rule;
    struct slice key;  /* the record's, or one bound to it */
    struct slice once; /* as stored; or with its %XX decoded, where none has it, or it has a '%' */
    enum keys_status status;
    bool lapsed;   /* only those */
    int64_t after; /* row ids above this one */
    size_t limit;
    size_t scans; /* the store is asked at most so often, each time for a few milliseconds; 0: until
                     its end */
};

/* One record, its texts copied. */
struct keys_row {
    struct keys_row *next;
    struct store_row store;
    enum record_lease lease;
};

/* Records as listed, oldest first. */
struct keys_found {
    struct arena arena;
    struct keys_row *first;
    struct keys_row *last;
    size_t n;
    int64_t after; /* the slice being listed has ids above this one */
    int64_t next;  /* row id after which to go on; 0: the end was reached */
    bool no_memory;
    const struct keys_wanted *wanted; /* while listing */
    struct slice secret;              /* of the store, to hash tenants with; `.at` NULL: it picks
                                         tenant and once value itself */
};
#define KEYS_FOUND_AUTO __attribute__((cleanup(keys_found_fini)))

/* Gives the copies back. Accepts what is all zero. */
void keys_found_fini(struct keys_found *found);

/* Drops all but the first `n` rows; nothing is added any more. */
void keys_found_cut(struct keys_found *found, size_t n);

/* Lists; `*ret_found` is to be given back whatever the result. STORE_NO_MEMORY: too much at once.
 */
enum store_status keys_list(struct store *store, const struct keys_wanted *wanted,
                            struct parker *parker, struct keys_found *ret_found);

/* What to say of an operation that was not applied; NULL: it was. */
const char *keys_status_text(enum store_status status);

/* ---- one record: keys_json.c ---- */

/* A record as it stands at `now`, and the answer that is kept (NULL: none). */
struct keys_view {
    const struct store_row *row;
    const struct record *record;
    enum record_lease lease;
    int64_t now;
    const struct outcome *outcome;
    struct slice secret; /* of the store */
};

/* What log lines have in place of the tenant; empty without one. */
struct slice keys_tenant_hash(const struct keys_view *view, char ret_hex[LOG_KEYED_SIZE]);

/* Which request claimed it last. False: its outcome is known, or that was never stored. */
bool keys_origin(const struct keys_view *view, struct origin *ret_origin);

/* A pending record's "live", "lapsed" or "released"; of others NULL. */
const char *keys_lease_name(const struct keys_view *view);

/* As the config calls it: "hold", "retry", "probe". */
const char *keys_policy_name(enum record_unknown policy);

/* Microseconds from `now` until `then`, not below 0. */
int64_t keys_left(int64_t now, int64_t then);

/* The same in seconds, rounded up. */
int64_t keys_seconds_left(int64_t now, int64_t then);

/* Appends one JSON object; `whole` adds what only a look at one record tells. */
void keys_add_json(struct buf *buf, const struct keys_view *view, bool whole);

/* ---- acts: keys_act.c ---- */

/* What became of a STORE_RESOLVE, STORE_RELEASE_SETTLED or STORE_FORGET that was applied. */
enum keys_end {
    KEYS_DONE,
    KEYS_SAME,  /* it was so already */
    KEYS_LATE,  /* it ended otherwise before */
    KEYS_STALE, /* the token is not the record's, or the record is gone */
    KEYS_EARLY, /* "it did not happen" cannot be known yet */
    KEYS_LIVE,  /* somebody is at it */
};

/* Says which, and appends a sentence for a person; `force` says how to insist ("use --force"). */
enum keys_end keys_describe(const struct store_op *op, const char *force, struct buf *what);

/* An outcome that an operator writes. */
struct keys_answer {
    int status; /* 200 to 599 */
    struct headers headers;
    struct slice body;
};

/* Makes it: a JSON body needs no Content-Type to be replayed as what it is. False: `problem` has
 * one sentence. */
bool keys_make_outcome(const struct keys_answer *answer, struct buf *problem,
                       struct outcome **ret_outcome);

/* How long after a forget a gateway may still answer from its cache: who tells "forgotten" waits
 * first. Microseconds. */
#define KEYS_CACHES_US (100 * CLOCK_US_PER_MS)

#endif
