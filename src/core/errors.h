/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one table of errors that pawl responds with (contract sections 5 to 7): from it come HTTP
 * status, problem body, `retryable`, `safe_new_key`, the caller's hint and the exit code.
 *
 * X(name, code, status, error.code, retryable, safe_new_key, exit, title, hint)
 *   retryable: can the same request under the same key end differently without an operator?
 *   safe_new_key: may the client start over under a new key without risk? Not where the operation
 *     happened, and not where nobody looked: this request may repeat one that did something.
 */
#ifndef PAWL_CORE_ERRORS_H
#define PAWL_CORE_ERRORS_H

#include "base/slice.h"

/* Exit codes of every command (contract section 7): X(name, number, what it says). */
#define PAWL_EXIT_CODES(X)                                                                         \
    X(DONE, 0, "done")                                                                             \
    X(FINAL_ERROR, 1, "the operation ended in a final error")                                      \
    X(USAGE, 2, "usage or config")                                                                 \
    X(BAD_DATA, 65, "bad data: another payload, or not JSON")                                      \
    X(UNAVAILABLE, 69, "store, target or address not available")                                   \
    X(FAIL_STOP, 74, "stopped after a disk error")                                                 \
    X(TRY_AGAIN, 75, "try again: in progress elsewhere")                                           \
    X(OUTCOME_UNKNOWN, 76, "the outcome is unknown")                                               \
    X(DEADLINE, 124, "the deadline has passed")

enum exit_code {
#define X(name, number, text) EXIT_##name = (number),
    PAWL_EXIT_CODES(X)
#undef X
};

/* What an exit code says, for help. */
const char *exit_code_text(enum exit_code code);

#define PAWL_ERRORS(X)                                                                             \
    X(KEY_MISSING, "VALIDATION.idempotency.key_missing", 400, "KEY_MISSING", false, true, 1,       \
      "Idempotency key missing", "Send the key this route requires.")                              \
    X(KEY_MALFORMED, "VALIDATION.idempotency.key_malformed", 400, "KEY_MALFORMED", false, true, 1, \
      "Idempotency key malformed", "Send exactly one well-formed key.")                            \
    X(KEY_EXPIRED, "VALIDATION.idempotency.key_expired", 400, "KEY_EXPIRED", false, false, 1,      \
      "Idempotency key too old",                                                                   \
      "The operation may have happened; look before you start over under a new key.")              \
    X(KEY_AHEAD, "VALIDATION.idempotency.key_ahead", 400, "KEY_AHEAD", false, true, 1,             \
      "Idempotency key of a time to come",                                                         \
      "Nothing was done. Set the client's clock, then use a new key.")                             \
    X(KEY_SOURCE_MISSING, "VALIDATION.idempotency.key_source_missing", 400, "KEY_SOURCE_MISSING",  \
      false, true, 1, "Part of the idempotency key is missing",                                    \
      "Send the value this route builds its key from; a JSON body needs its Content-Type.")        \
    X(TENANT_MISSING, "VALIDATION.idempotency.tenant_missing", 400, "TENANT_MISSING", false, true, \
      1, "Tenant missing", "Send the credential or header that names the tenant.")                 \
    X(PATH_AMBIGUOUS, "VALIDATION.path_ambiguous", 400, "PATH_AMBIGUOUS", false, true, 1,          \
      "Ambiguous path", "Send the path in its normal form.")                                       \
    X(METHOD_AMBIGUOUS, "VALIDATION.method_ambiguous", 400, "METHOD_AMBIGUOUS", false, true, 1,    \
      "Ambiguous method", "Send the method itself, without a method-override header.")             \
    X(BODY_TOO_LARGE, "VALIDATION.body_too_large", 413, "BODY_TOO_LARGE", false, true, 1,          \
      "Request body too large", "Send a smaller body, or ask for a higher limit on this route.")   \
    X(CODING_UNSUPPORTED, "VALIDATION.content_coding", 415, "CONTENT_CODING", false, true, 1,      \
      "Content coding not supported here", "Send the body with identity, gzip or deflate coding.") \
    X(REQUEST_MALFORMED, "VALIDATION.request_malformed", 400, "REQUEST_MALFORMED", false, true, 1, \
      "Malformed request", "Send well-formed HTTP/1.1.")                                           \
    X(EVENT_MALFORMED, "VALIDATION.event_malformed", 400, "EVENT_MALFORMED", false, true, 1,       \
      "Malformed event", "Send a type such as refund.created, and data that is JSON.")             \
    X(REQUEST_TIMEOUT, "VALIDATION.request_timeout", 408, "REQUEST_TIMEOUT", true, false, 124,     \
      "The request did not arrive in time", "Send the request again, under the same key.")         \
    X(ROUTE_UNKNOWN, "VALIDATION.route_unknown", 404, "ROUTE_UNKNOWN", false, true, 1,             \
      "No rule covers this route",                                                                 \
      "Check the method and path; the operator may add a rule, or set `unmatched: pass`.")         \
    X(METHOD_NOT_ALLOWED, "VALIDATION.method_not_allowed", 405, "METHOD_NOT_ALLOWED", false, true, \
      1, "Method not allowed", "Use another method; CONNECT and TRACE are never served.")          \
    X(SIGNATURE, "AUTH.signature", 401, "SIGNATURE", false, true, 1,                               \
      "The event is not signed by its sender",                                                     \
      "Nothing was stored. Sign the bytes that are sent, with the secret that the receiver has.")  \
    X(LOOP, "DEPENDENCY.loop", 508, "LOOP", false, false, 69,                                      \
      "The request came back to the gateway",                                                      \
      "The gateway's upstream leads back to the gateway: tell its operator. Nothing was done.")    \
    X(PAYLOAD_MISMATCH, "CONFLICT.idempotency.payload_mismatch", 409, "PAYLOAD_MISMATCH", false,   \
      true, 65, "Key reused with a different request",                                             \
      "Generate a new key for a new operation; repeat the first request exactly to retry it.")     \
    X(IN_PROGRESS, "CONFLICT.idempotency.in_progress", 409, "CONCURRENT_REQUEST", true, false, 75, \
      "The first request is still running", "Wait, then repeat the request under the same key.")   \
    X(DUPLICATE, "CONFLICT.idempotency.duplicate", 409, "DUPLICATE", false, false, 1,              \
      "Already completed",                                                                         \
      "The operation happened, as `first` says. Do not send it again: under a new "                \
      "key it would happen twice.")                                                                \
    X(OUTCOME_UNKNOWN, "CONFLICT.idempotency.outcome_unknown", 409, "OUTCOME_UNKNOWN", false,      \
      false, 76, "The outcome of the first request is not known",                                  \
      "Do not start over under a new key: the operation may have happened. Repeat under the same " \
      "key if `retryable`, else ask the operator, and name the `instance`.")                       \
    X(RESULT_EXPIRED, "CONFLICT.idempotency.result_expired", 410, "RESULT_EXPIRED", false, false,  \
      1, "Already completed; the response has expired",                                            \
      "The operation happened: do not send it again. Look up its result in the service.")          \
    X(RESULT_NOT_KEPT, "CONFLICT.idempotency.result_not_kept", 410, "RESULT_NOT_KEPT", false,      \
      false, 1, "Already completed; the response was not kept",                                    \
      "The operation happened: do not send it again. Look up its result in the service.")          \
    X(UPSTREAM_UNAVAILABLE, "DEPENDENCY.unavailable", 503, "UNAVAILABLE", true, true, 69,          \
      "The service is not reachable", "Nothing was done. Retry with backoff under the same key.")  \
    X(UNPROVED, "DEPENDENCY.unproved", 503, "UNPROVED", true, false, 69,                           \
      "The service did not say whether this was done before",                                      \
      "Nothing was sent. Repeat under the same key; do not start over under a new one.")           \
    X(UPSTREAM_BROKE, "TRANSIENT.upstream_broke", 502, "UPSTREAM_BROKE", true, false, 76,          \
      "The service broke off its response",                                                        \
      "Repeat under the same key; do not start over under a new one.")                             \
    X(UPSTREAM_MALFORMED, "TRANSIENT.upstream_malformed", 502, "UPSTREAM_MALFORMED", true, false,  \
      76, "The service sent a response that is not valid HTTP",                                    \
      "Repeat under the same key; do not start over under a new one.")                             \
    X(UPSTREAM_TIMEOUT, "DEPENDENCY.timeout", 504, "TIMEOUT", true, false, 124,                    \
      "The service did not respond in time",                                                       \
      "Repeat under the same key; do not start over under a new one.")                             \
    X(OUTCOME_NOT_STORED, "DEPENDENCY.outcome_not_stored", 503, "OUTCOME_NOT_STORED", true, false, \
      69, "The outcome could not be stored yet",                                                   \
      "Repeat under the same key; do not start over under a new one.")                             \
    X(LIMITED, "RATE_LIMIT.exceeded", 429, "LIMIT_EXCEEDED", true, false, 75, "Too many requests", \
      "Wait, then retry under the same key.")                                                      \
    X(STORE_UNAVAILABLE, "DEPENDENCY.store_unavailable", 503, "STORE_UNAVAILABLE", true, false,    \
      69, "The record store is not available",                                                     \
      "This request did nothing; an earlier attempt may have. Retry with backoff under the same "  \
      "key.")

/* Whole families, and what others respond with, in the same columns: what to do about a code that
 * has no row of its own. */
#define PAWL_ERROR_FAMILIES(X)                                                                     \
    X(ANY_VALIDATION, "VALIDATION.*", 400, "VALIDATION", false, true, 1,                           \
      "The request is not valid", "Correct the request; nothing was done.")                        \
    X(ANY_AUTH, "AUTH.*", 401, "AUTH", false, true, 1, "Not signed in, or not allowed",            \
      "Sign in again or get the permission, then repeat under the same key; nothing was done.")    \
    X(ANY_TRANSIENT, "TRANSIENT.*", 503, "TRANSIENT", true, false, 75,                             \
      "A failure that passes by itself",                                                           \
      "Retry with backoff under the same key; do not start over under a new one.")                 \
    X(PROVIDER_DUPLICATE, "PROVIDER.duplicate", 409, "DUPLICATE", false, false, 0,                 \
      "Applied before", "The operation happened. Show the existing result.")

enum error {
    ERROR_NONE,
#define X(name, code, status, short_code, retryable, safe, exit, title, hint) ERROR_##name,
    PAWL_ERRORS(X)
#undef X
        ERROR_COUNT
};

enum error_family {
#define X(name, code, status, short_code, retryable, safe, exit, title, hint) ERROR_FAMILY_##name,
    PAWL_ERROR_FAMILIES(X)
#undef X
        ERROR_FAMILY_COUNT
};

struct error_row {
    const char *code;       /* error_code */
    int status;             /* HTTP */
    const char *short_code; /* error.code */
    bool retryable;
    bool safe_new_key;
    int exit_code;
    const char *title;
    const char *hint;
};

/* Of the errors that `error_is_by_policy` names: a note for readers of the table. */
#define PAWL_ERRORS_NOTE                                                                           \
    "`policy`: the rule's `unknown:` decides whether a retry can end differently, and\n"           \
    "`retryable` in the response says so. Under `hold` it cannot until an operator settles\n"      \
    "the record. While the first request under a key is not settled, no new key is safe."

/* Whether the request went out and no response that can be read came back: what it did is in doubt.
 */
bool error_is_lost_answer(enum error error);

/* Whether it depends on the rule's `unknown:` if the error is retryable: its row has the usual
 * case.
 */
bool error_is_by_policy(const struct error_row *row);

/* The row of an error (not ERROR_NONE). */
const struct error_row *error_row(enum error error);

/* The row of a family. */
const struct error_row *error_family_row(enum error_family family);

/* The row of a code: its own, else its family's; NULL: there is none. */
const struct error_row *error_find(struct slice code);

#endif
