/* SPDX-License-Identifier: Apache-2.0 */
/* One GET to the upstream, on a thread and a loop of its own: the probe of an operator. */
#ifndef PAWL_CLI_ASK_H
#define PAWL_CLI_ASK_H

#include "core/fate.h"
#include "engine/engine.h"
#include "http/pool.h"

struct ask {
    struct http_upstream upstream;
    struct slice head;             /* of the request, as it is sent */
    const struct attempt *attempt; /* whose lease lets it be sent */
    int64_t connect_us;
    int64_t timeout_us; /* for all of it */
    uint64_t body_max;
    bool keep_cookies;
    /* what came of it */
    enum exchange_end end;
    int status;        /* with EXCHANGE_ANSWERED */
    bool whole;        /* the body did not pass body_max */
    struct buf fields; /* as an outcome keeps them; buf_fini */
    struct buf body;   /* buf_fini */
};

/* Asks, and waits for the answer; without memory or a thread nothing is sent. */
void ask_run(struct ask *ask);

#endif
