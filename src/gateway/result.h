/* SPDX-License-Identifier: Apache-2.0 */
/*
 * result: what a request came to. One table: the Idempotency-Status of its response, which its log
 * line has, too, and the outcome that it is counted as (contract sections 5 and 10;
 * docs/decisions/0007 says what counts as what).
 */
#ifndef PAWL_GATEWAY_RESULT_H
#define PAWL_GATEWAY_RESULT_H

#include "core/errors.h"
#include "observe/metrics.h"

/* X(NAME, Idempotency-Status (NULL: none), outcome) */
#define RESULTS(X)                                                                                 \
    X(INVALID, NULL, INVALID)         /* refused for what the request is */                        \
    X(STORED, "stored", CREATED)      /* the first response, kept */                               \
    X(NOT_KEPT, "not-kept", CREATED)  /* the first response, of which no copy is kept */           \
    X(REPLAYED, "replayed", REPLAYED) /* the kept response again */                                \
    X(ACKED, "replayed", ACKED)       /* under `duplicate: ack`: that it was done */               \
    X(RELEASED, "released", RELEASED) /* surely not done: the key is free again */                 \
    X(UNSENT, NULL, RELEASED)         /* the same, and nothing was begun */                        \
    X(UNKNOWN, "unknown", UNKNOWN)    /* this request may have been done */                        \
    X(IN_DOUBT, NULL, UNKNOWN)        /* an earlier one may have been */                           \
    X(MISMATCH, NULL, MISMATCH)                                                                    \
    X(IN_PROGRESS, NULL, IN_PROGRESS)                                                              \
    X(REJECTED, NULL, REJECTED) /* under `duplicate: reject` */                                    \
    X(EXPIRED, NULL, EXPIRED)   /* done, and its response is not kept any more */                  \
    X(LIMITED, NULL, LIMITED)   /* too much at once, or shutting down */                           \
    X(STORE_DOWN, NULL, STORE_DOWN)                                                                \
    X(BYPASSED, "bypassed", BYPASSED) /* unsafe or with a key, and no rule protects it */          \
    X(LET_BY, "bypassed", PASSED)     /* the same, as its rule says */                             \
    X(PASSED, NULL, PASSED)           /* safe and without a rule */

enum result {
#define X(name, status, outcome) RESULT_##name,
    RESULTS(X)
#undef X
};

/* Its Idempotency-Status; NULL: none. */
const char *result_status(enum result result);

/* What it is counted as. */
enum metrics_outcome result_outcome(enum result result);

/* What a request came to that pawl answers with this error, where nothing more is known. */
enum result result_of_error(enum error error);

#endif
