/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The body of pawl's own responses: application/problem+json (RFC 9457) with the members of
 * contract section 5. Pure: it only writes.
 */
#ifndef PAWL_CORE_PROBLEM_H
#define PAWL_CORE_PROBLEM_H

#include "base/buf.h"
#include "core/errors.h"

#define POLICY_PATH "/.well-known/idempotency"

struct problem {
    enum error error;
    int status;          /* of the response; the table's unless the rule says otherwise */
    struct slice detail; /* one sentence about this case; may be empty */
    struct slice key;    /* idempotency key as shown; `.at` NULL: not known */
    const char *title;   /* the table's, unless this case asks for another; lives for ever */
    const char *hint;    /* the same */
    bool retryable;      /* as the table, unless the rule's policy makes it otherwise */
    bool safe_new_key;
    const char *state;           /* "pending", "unknown", ...; NULL: no `operation` member */
    int64_t attempt;             /* of `operation` */
    int64_t started_at;          /* wall-clock microseconds; written as ISO 8601 UTC */
    int64_t lease_left_ms;       /* of `operation`; negative: no lease */
    int first_status;            /* of the first response (410 rows, duplicate); 0: not known */
    struct slice first_location; /* its Location; may be empty */
    int64_t first_at;            /* wall-clock microseconds, when it was begun; 0: not said */
    int64_t window_ends_at; /* from then on the key counts as new; 0: not said, CLOCK_NEVER: null */
    const char *instance;   /* a URI of this occurrence, which the log line has, too; NULL: none */
    struct slice media_type; /* of the body, if it is another one than problem_write's */
    struct slice base;       /* `public_url`; empty: links are relative */
};

/* A problem with the table's status, retryable and safe_new_key. */
struct problem problem_of(enum error error);

/* Makes the hint of a doubt that of a request which no record protects: whoever repeats it may do
 * it twice. */
void problem_warn_unprotected(struct problem *problem);

/* Makes what a key lacks (KEY_SOURCE_MISSING, KEY_MALFORMED) what a once value lacks. */
void problem_name_once(struct problem *problem);

/* Appends the JSON body. */
void problem_write(const struct problem *problem, struct buf *buf);

/* Appends the header lines that go with it: Content-Type, Error-Code, Link (rel="describedby"),
 * Cache-Control: no-store, X-Should-Retry, Stripe-Should-Retry: false where no retry heals, and
 * what RFC 9110 asks for with the status (15.5.6, 15.5.16). */
void problem_write_fields(const struct problem *problem, struct buf *buf);

#endif
