/* SPDX-License-Identifier: Apache-2.0 */
/* One connection to the demo upstream: a fiber that reads requests and answers them in order. */
#ifndef PAWL_DEMO_SESSION_H
#define PAWL_DEMO_SESSION_H

#include "demo/faults.h"
#include "demo/ledger.h"
#include "fiber/fiber.h"
#include "fiber/offload.h"

struct session;

/* What all sessions share. On the loop's thread. */
struct demo {
    struct ledger *ledger;
    struct workers *workers;   /* for ledger_sync */
    struct demo_faults faults; /* of POSTs that name none */
    struct session *sessions;
    bool stopping;
};

/* Takes over the descriptor. False: no room (it is closed). */
bool session_start(struct demo *demo, struct loop *loop, int fd);

/* Ends idle sessions and delays; what is being answered is answered. */
void sessions_stop(struct demo *demo);

#endif
