/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fate: what becomes of an attempt after its exchange with the upstream (contract section 2,
 * invariant 12, and contract section 5: `remember`, `unknown`, the table of responses). Pure.
 */
#ifndef PAWL_CORE_FATE_H
#define PAWL_CORE_FATE_H

#include "base/headers.h"
#include "core/errors.h"
#include "core/record.h"

/* What an upstream's complete answer says of the operation. */
enum fate_sort {
    FATE_SORT_FINAL,    /* it is the outcome: kept */
    FATE_SORT_NOT_DONE, /* surely not done: released */
    FATE_SORT_IN_DOUBT, /* as if no answer had come */
};

enum fate_remember {
    FATE_REMEMBER_FINAL,   /* what the client can build on: see fate_policy_of */
    FATE_REMEMBER_SUCCESS, /* the same, and a 4xx counts as not done */
    FATE_REMEMBER_ALL,     /* everything but a redirect of the request */
};

#define FATE_STATUS_LEAST 200
#define FATE_STATUS_MOST 599

/* A rule's `remember`, `not_done` and `in_doubt`, compiled: the sort of each status. All zero:
 * everything is final. */
struct fate_policy {
    unsigned char sorts[FATE_STATUS_MOST - FATE_STATUS_LEAST + 1];
};

/* `final`: not done are 301, 307, 308 (the request is to be sent elsewhere), 401, 403, 407, 408,
 * 425, 429, 503 and 508, in doubt 500, 502 and 504: an exception after the commit is the commonest
 * failure of a service. */
struct fate_policy fate_policy_of(enum fate_remember remember);

/* Moves one status (FATE_STATUS_LEAST to FATE_STATUS_MOST). */
void fate_policy_move(struct fate_policy *policy, int status, enum fate_sort sort);

/* The sort of any status; those without a place in the table are final. */
enum fate_sort fate_policy_sort(const struct fate_policy *policy, int status);

/* How an exchange with the upstream ended. */
enum exchange_end {
    EXCHANGE_RESPONDED,   /* a complete, well-formed final answer */
    EXCHANGE_NOT_SENT,    /* no byte of the request may have left: connect refused, name unknown */
    EXCHANGE_BROKE,       /* reset, closed early, malformed or truncated after bytes went out */
    EXCHANGE_TIMED_OUT,   /* no complete answer by the deadline, after bytes went out */
    EXCHANGE_TOKEN_STALE, /* a 4xx with Error-Code: CONFLICT.idempotency.token_stale */
};

enum fate_write {
    FATE_COMPLETE, /* keep it as `complete` */
    FATE_FAIL,     /* keep it as `failed` */
    FATE_RELEASE,  /* surely not done */
    FATE_DROP,     /* the same, and to be done elsewhere, under the same key */
    FATE_DOUBT,    /* nobody knows */
    FATE_NOTHING,  /* the record moved on without us */
};

enum fate_tell {
    FATE_TELL_ANSWER, /* the upstream's answer goes to the client */
    FATE_TELL_ERROR,  /* pawl's own error */
    FATE_DECIDE,      /* the answer is thrown away; begin again as a duplicate */
    FATE_PROBE,       /* doubt was stored: ask the upstream at once, then tell */
};

struct fate {
    enum fate_write write;
    enum fate_tell tell;
    enum error error; /* with FATE_TELL_ERROR, and what to answer when a probe settles nothing */
};

/* `status` counts with EXCHANGE_RESPONDED. `provider_duplicate`: the answer carries
 * Error-Code: PROVIDER.duplicate, which makes it final. */
struct fate fate_of_exchange(enum exchange_end end, int status, bool provider_duplicate,
                             enum record_unknown unknown, const struct fate_policy *policy);

/* Whether an answer says in the one way there is that our token is old (invariant 12): whatever
 * else it says is about an older state. */
bool fate_token_is_stale(int status, const struct headers *headers);

/* Of a probe: 2xx completes, 404 releases (if settled), all else leaves it in doubt. */
struct fate fate_of_probe(enum exchange_end end, int status);

#endif
