/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outcome: the final answer of an operation, kept for replay. Immutable and reference-counted: the
 * owner, the cache and a thousand waiting duplicates share one.
 *
 * `fields` are header lines ready for the wire ("Name: value\r\n" each, in the first answer's
 * order), already filtered by outcome_keep_fields.
 */
#ifndef PAWL_CORE_OUTCOME_H
#define PAWL_CORE_OUTCOME_H

#include "base/buf.h"
#include "base/headers.h"
#include <stdatomic.h>

struct outcome {
    atomic_int refs;
    atomic_int holders;  /* outcome_hold */
    int status;          /* HTTP status */
    bool failed;         /* kept as `failed` */
    struct slice fields; /* header lines */
    struct slice body;
    struct slice location; /* the answer's Location, the seeds' result_ref; may be empty */
    char storage[];
};

/* Copies everything into one allocation; one reference is the caller's. NULL: no memory. */
struct outcome *outcome_new(int status, bool failed, struct slice fields, struct slice body);

struct outcome *outcome_ref(struct outcome *outcome);
/* Accepts NULL. */
void outcome_unref(struct outcome *outcome);

/* Counts it in `*held` while it is held, once however many hold it; true: it is counted from now
 * on. Every hold ends by a drop, before the reference does. From any thread. */
bool outcome_hold(struct outcome *outcome, atomic_ullong *held);
void outcome_drop(struct outcome *outcome, atomic_ullong *held);

/* Same status, fields and body. */
bool outcome_eq(const struct outcome *a, const struct outcome *b);

/* Bytes it holds in memory. */
size_t outcome_size(const struct outcome *outcome);

/* Appends the lines of an upstream's answer that are kept and replayed (contract section 5): not
 * the hop-by-hop ones, Date, Content-Length, Set-Cookie (unless `keep_cookies`), WWW-Authenticate,
 * Authorization, Authentication-Info, Proxy-*, Access-Control-*, Idempotency-Status,
 * Idempotent-Replayed, Error-Code (unless its value is PROVIDER.duplicate), Trailer. */
void outcome_keep_fields(const struct headers *headers, bool keep_cookies, struct buf *buf);

/* The value of the first line `name` among `fields`; `.at` NULL: none. */
struct slice outcome_field(struct slice fields, struct slice name);

#endif
