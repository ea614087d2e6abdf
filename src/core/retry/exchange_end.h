/* SPDX-License-Identifier: Apache-2.0 */
/* How an exchange with a service ended, for whoever sends and for whoever judges. */
#ifndef PAWL_CORE_EXCHANGE_END_H
#define PAWL_CORE_EXCHANGE_END_H

enum exchange_end {
    EXCHANGE_RESPONDED,   /* a complete, well-formed final response */
    EXCHANGE_NOT_SENT,    /* no byte of the request may have left: connect refused, name unknown */
    EXCHANGE_BROKE,       /* reset, closed early or truncated after bytes went out */
    EXCHANGE_MALFORMED,   /* what came is not HTTP, after bytes went out */
    EXCHANGE_TIMED_OUT,   /* no complete response by the deadline, after bytes went out */
    EXCHANGE_TOKEN_STALE, /* a 4xx with Error-Code: CONFLICT.idempotency.token_stale */
    EXCHANGE_PORTAL,      /* the response is a portal's on the way: retry_is_of_portal */
};

#endif
