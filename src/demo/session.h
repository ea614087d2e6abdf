/* SPDX-License-Identifier: Apache-2.0 */
/* The demo upstream as a service of http/server.h. */
#ifndef PAWL_DEMO_SESSION_H
#define PAWL_DEMO_SESSION_H

#include "demo/faults.h"
#include "demo/ledger.h"
#include "fiber/offload.h"
#include "http/server.h"

/* What all sessions share: the server's `data`. On the loop's thread. */
struct demo {
    struct ledger *ledger;
    struct workers *workers;   /* for ledger_sync */
    struct demo_faults faults; /* of POSTs that name none */
};

/* A drain ends the delays that were asked for. */
extern const struct http_service demo_service;

#endif
