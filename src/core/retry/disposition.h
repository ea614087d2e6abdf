/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disposition: what becomes of an attempt after its exchange with the upstream (contract section 2,
 * invariant 12, and contract section 5: `remember`, `unknown`, the table of responses). Pure.
 */
#ifndef PAWL_CORE_DISPOSITION_H
#define PAWL_CORE_DISPOSITION_H

#include "base/headers.h"
#include "core/errors.h"
#include "core/record.h"
#include "core/request/condition.h"
#include "core/retry/exchange_end.h"

/* What an upstream's complete response says of the operation. */
enum response_sort {
    SORT_FINAL,    /* it is the outcome: kept */
    SORT_NOT_DONE, /* surely not done: released */
    SORT_IN_DOUBT, /* as if no response had come */
};

enum remember {
    REMEMBER_FINAL,   /* what the client can build on: see remember_policy_of */
    REMEMBER_SUCCESS, /* the same, and a 4xx counts as not done */
    REMEMBER_ALL,     /* everything but a redirect of the request */
};

#define REMEMBER_STATUS_LEAST 200
#define REMEMBER_STATUS_MOST 599

/* A rule's `remember`, `not_done` and `in_doubt`, compiled: the sort of each status. All zero:
 * everything is final. */
struct remember_policy {
    unsigned char sorts[REMEMBER_STATUS_MOST - REMEMBER_STATUS_LEAST + 1];
};

/* `final`: not done are 301, 307, 308 (the request is to be sent elsewhere), 401, 403, 407, 408,
 * 425, 429, 503 and 508, in doubt 500, 502 and 504: an exception after the commit is the commonest
 * failure of a service. */
struct remember_policy remember_policy_of(enum remember remember);

/* Moves one status (REMEMBER_STATUS_LEAST to REMEMBER_STATUS_MOST). */
void remember_policy_move(struct remember_policy *policy, int status, enum response_sort sort);

/* The sort of any status; those without a place in the table are final. */
enum response_sort remember_policy_sort(const struct remember_policy *policy, int status);

enum disposition_write {
    WRITE_COMPLETE, /* keep it as `complete` */
    WRITE_FAIL,     /* keep it as `failed` */
    WRITE_RELEASE,  /* surely not done */
    WRITE_TURN,     /* the same, of an inquiry: it is sent now */
    WRITE_DROP,     /* the same, and to be done elsewhere, under the same key */
    WRITE_DOUBT,    /* nobody knows */
    WRITE_NOTHING,  /* the record moved on without us */
};

enum disposition_next {
    NEXT_RESPONSE, /* the upstream's response goes to the client */
    NEXT_ERROR,    /* pawl's own error */
    NEXT_DECIDE,   /* the response is thrown away; begin again as a duplicate */
    NEXT_PROBE,    /* doubt was stored: probe at once, then respond */
    NEXT_FORWARD,  /* send it */
};

struct disposition {
    enum disposition_write write;
    enum disposition_next next;
    enum error error; /* with NEXT_ERROR, and what to respond when a probe is inconclusive */
};

/* What a response says by its Error-Code or its body, whatever the policy makes of its status. */
enum response_says {
    SAYS_NOTHING,
    SAYS_DUPLICATE,   /* PROVIDER.duplicate: it is final */
    SAYS_IN_PROGRESS, /* a 4xx CONFLICT.idempotency.in_progress: not done by this attempt; later */
    SAYS_IN_DOUBT,    /* by its body, and so */
    SAYS_NOT_DONE,
};

/* The conditions of a rule: what is in doubt comes first. All zero: none. */
struct body_conditions {
    struct response_conditions in_doubt;
    struct response_conditions not_done; /* of a probe's: not found */
};

/* By its Error-Code. */
enum response_says disposition_says(int status, const struct headers *headers);

/* By its whole body, where one of the conditions holds. Without memory to read it: in doubt. */
enum response_says disposition_says_by_body(const struct body_conditions *conditions, int status,
                                            const struct headers *headers, struct slice body);

/* Whether there are any to be asked. */
static inline bool body_conditions_are_on(const struct body_conditions *conditions)
{
    return conditions->in_doubt.n > 0 || conditions->not_done.n > 0;
}

/* `status` and `says` count with EXCHANGE_RESPONDED. */
struct disposition disposition_of_exchange(enum exchange_end end, int status,
                                           enum response_says says, enum record_unknown unknown,
                                           const struct remember_policy *policy);

/* Whether a response says in the one way there is that our token is old (invariant 12): whatever
 * else it says is about an older state. */
bool disposition_token_is_stale(int status, const struct headers *headers);

/* Of a probe: "not found" releases (if settled), another 2xx completes, all else leaves it in
 * doubt. */
struct disposition disposition_of_probe(enum exchange_end end, int status, bool not_found);

/* Of an inquiry: "not found" is sent, another 2xx completes and is decided again, as for any
 * duplicate; what is about the caller goes to it; all else proves nothing, and nothing is sent. */
struct disposition disposition_of_inquiry(enum exchange_end end, int status, bool not_found);

#endif
