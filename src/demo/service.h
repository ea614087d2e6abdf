/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the demo upstream does: refunds and payments, each POST one entry in the ledger. It does not
 * look at keys to find duplicates; that is the job of the gateway in front of it.
 *
 *   POST /refunds  {"charge_id": "...", "amount": 500}     201 and the entry
 *   POST /payments {"order_id": "...", "amount": 500}      201 and the entry
 *   GET  /refunds/by-key/KEY, /payments/by-key/KEY         200 and the first entry of that key, 404
 *   GET  /refunds/ID, /payments/ID                         200 and the entry, 404
 *   GET  /ledger                                           200 and all entries
 *   GET  /healthz                                          200
 */
#ifndef PAWL_DEMO_SERVICE_H
#define PAWL_DEMO_SERVICE_H

#include "base/arena.h"
#include "demo/ledger.h"
#include "http/message.h"

struct service_response {
    int status;
    struct buf fields; /* field lines beyond the usual ones */
    struct buf body;   /* JSON */
    bool effect;       /* an entry was appended: sync before answering */
};

/* An empty response; its bufs are the caller's to free. */
struct service_response service_response_make(void);

/* Makes it an error with a sentence; `error` is a literal. */
void service_refuse(struct service_response *response, int status, const char *error);

/* Answers one request. `arena` is for what it needs meanwhile. */
void service_handle(struct ledger *ledger, const struct http_request *request, struct slice body,
                    struct arena *arena, struct service_response *response);

#endif
