/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fate: what becomes of an attempt after its exchange with the upstream (contract sections 2.12 and
 * 5: `remember`, `unknown`, the answer table). Pure.
 */
#ifndef PAWL_CORE_FATE_H
#define PAWL_CORE_FATE_H

#include "core/errors.h"
#include "core/record.h"

/* How an exchange with the upstream ended. */
enum exchange_end {
    EXCHANGE_ANSWERED,    /* a complete, well-formed final answer */
    EXCHANGE_NOT_SENT,    /* no byte of the request may have left: connect refused, name unknown */
    EXCHANGE_BROKE,       /* reset, closed early, malformed or truncated after bytes went out */
    EXCHANGE_TIMED_OUT,   /* no complete answer by the deadline, after bytes went out */
    EXCHANGE_TOKEN_STALE, /* a 4xx with Error-Code: CONFLICT.idempotency.token_stale */
};

enum fate_write {
    FATE_COMPLETE, /* keep it as `complete` */
    FATE_FAIL,     /* keep it as `failed` */
    FATE_RELEASE,  /* surely not done */
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

/* `status` counts with EXCHANGE_ANSWERED. `provider_duplicate`: the answer carries
 * Error-Code: PROVIDER.duplicate, which makes it final. */
struct fate fate_of_exchange(enum exchange_end end, int status, bool provider_duplicate,
                             enum record_unknown unknown);

/* Of a probe: 2xx completes, 404 releases (if settled), all else leaves it in doubt. */
struct fate fate_of_probe(enum exchange_end end, int status);

/* How a final answer is kept: 4xx as failed, all else as complete. */
enum record_status fate_final_status(int http_status);

#endif
