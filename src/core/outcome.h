/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outcome: the final response of an operation, kept for replay. Reference-counted: the owner, the
 * cache and a thousand waiting duplicates share one. What it says never changes.
 *
 * `fields` are header lines ready for the wire ("Name: value\r\n" each, in the first response's
 * order), already filtered by outcome_keep_fields.
 *
 * A store keeps the body packed (base/compress/compress.h) where that is smaller. It neither packs
 * nor unpacks: both take 1 to 4 ms a MiB, and everybody waits for its one thread.
 *
 *      outcome_new, outcome_pack -> finish -> outcome_drop_packed         its owner
 *      outcome_new_packed -> shared -> outcome_unpack -> its body is sent  store; whoever sends it
 */
#ifndef PAWL_CORE_OUTCOME_H
#define PAWL_CORE_OUTCOME_H

#include "base/buf.h"
#include "base/compress/compress.h"
#include "base/headers.h"
#include "base/thread.h"
#include <stdatomic.h>

#define OUTCOME_BODY_MAX ((size_t)1024 * 1024 * 1024) /* unpacked */

struct outcome {
    atomic_int refs;
    atomic_int holders;    /* outcome_hold */
    int status;            /* HTTP status */
    bool failed;           /* kept as `failed` */
    struct slice fields;   /* header lines */
    struct slice body;     /* `.at` NULL with a length: to be unpacked first */
    struct slice location; /* the response's Location, the seeds' result_ref; may be empty */
    struct mutex mutex;    /* one unpacks, the others wait for it */
    struct buf packed;     /* mutex: the body as a store keeps it; empty: it keeps it as it is */
    struct buf unpacked;   /* mutex: storage of a body that was packed */
    char storage[];
};

/* Copies everything into one allocation; one reference is the caller's. NULL: no memory. */
struct outcome *outcome_new(int status, bool failed, struct slice fields, struct slice body);

/* The same of a body that a store kept packed. It says its size (outcome_unpacked_size), and no
 * more before outcome_unpack. */
struct outcome *outcome_new_packed(int status, bool failed, struct slice fields,
                                   struct slice packed);

/* How many bytes a packed body has; of one that is damaged 1, which outcome_unpack does not find.
 */
size_t outcome_unpacked_size(struct slice packed);

/* Packs the body for the store, by its owner and before anybody shares it: where it is longer than
 * 1 KiB (contract section 5) and becomes smaller. Without memory it is kept as it is: it must be
 * stored. */
void outcome_pack(struct outcome *outcome, struct compress *compress);

/* Drops the packed form of a body that is there. From any thread. */
void outcome_drop_packed(struct outcome *outcome);

enum outcome_unpacked {
    OUTCOME_UNPACKED, /* the body is there */
    OUTCOME_NO_MEMORY,
    OUTCOME_DAMAGED, /* it is not what was packed; send nothing */
};

/* Unpacks the body unless it is there, once for however many callers. From any thread. */
enum outcome_unpacked outcome_unpack(struct outcome *outcome, struct compress *compress);

struct outcome *outcome_ref(struct outcome *outcome);
/* Accepts NULL. */
void outcome_unref(struct outcome *outcome);

/* Counts it in `*held` while it is held, once however many hold it; true: it is counted from now
 * on. Every hold ends by a drop, before the reference does. From any thread. */
bool outcome_hold(struct outcome *outcome, atomic_ullong *held);
void outcome_drop(struct outcome *outcome, atomic_ullong *held);

/* Same status, fields and body. Bodies of which one is packed are compared as they are packed, and
 * may then be called different though they are the same. */
bool outcome_eq(struct outcome *a, struct outcome *b);

/* Bytes it holds in memory, once its body is unpacked and no packed form is left. */
size_t outcome_size(const struct outcome *outcome);

#define OUTCOME_KEEPS_COOKIES 1U
#define OUTCOME_IS_DECODED 2U /* the body has another form than these headers say */

/* Appends the lines of an upstream's response that are kept and replayed (contract section 5): not
 * the hop-by-hop ones, Date, Content-Length, Set-Cookie (unless `how` has OUTCOME_KEEPS_COOKIES),
 * WWW-Authenticate, Authorization, Authentication-Info, Proxy-*, Access-Control-*,
 * Idempotency-Status, Idempotent-Replayed, Error-Code (unless its value is PROVIDER.duplicate),
 * Trailer; with OUTCOME_IS_DECODED none that is about the body's bytes either. */
void outcome_keep_fields(const struct headers *headers, unsigned how, struct buf *buf);

/* Appends those of the kept lines that are true of another body, too: neither an ETag nor a digest
 * or a signature. */
void outcome_keep_others(struct slice fields, struct buf *buf);

/* The value of the first line `name` among `fields`; `.at` NULL: none. */
struct slice outcome_field(struct slice fields, struct slice name);

#endif
