/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gateway: the reverse proxy that puts the Idempotency-Key contract before a service.
 *
 * Listens on one address with a number of loops (http/server.h), each with its own pool of upstream
 * connections. A client connection is a fiber; a ruled request is one call of exchange_run
 * (exchange/exchange.h) in it, an event of `inbox:` one of receive_event (receive/receive.h), any
 * other one call of pass_run (pass/pass.h).
 *
 * A change of rules or settings while it runs is in reload.c.
 */
#ifndef PAWL_GATEWAY_GATEWAY_H
#define PAWL_GATEWAY_GATEWAY_H

#include "gateway/config.h"
#include "gateway/settings.h"
#include "http/call/pool.h"

struct gateway;

/* Binds and starts the loops. NULL: `*ret_error` is the negative errno; a second gateway on the
 * same address is refused (-EADDRINUSE). */
struct gateway *gateway_start(const struct gateway_config *config,
                              const struct gateway_settings *settings,
                              const struct http_upstream *upstream, int *ret_error);

/* How many loops it has by these settings; without, one for each processor that it may use. */
size_t gateway_loops(const struct gateway_settings *settings);

/* A reload, from the main thread, not once it drains: makes all that is needed to serve by other
 * settings, and nothing else yet. False: no memory. */
bool gateway_prepare(struct gateway *gateway, const struct gateway_settings *settings,
                     const struct http_upstream *upstream);
/* Serves by what was prepared; when it returns, every loop does. A request whose operation has
 * begun ends under the rule it began with; one that is still being read is judged anew. */
void gateway_reload(struct gateway *gateway);
/* Or does not, after all: frees what was prepared. */
void gateway_forget(struct gateway *gateway);

/* What it does at this moment. From any thread. */
struct gateway_load {
    size_t connections;
    size_t in_flight;  /* ruled requests that own an operation or are being decided */
    uint64_t buffered; /* bytes reserved for bodies */
};
struct gateway_load gateway_load(const struct gateway *gateway);

/* Begins to drain: accepts no more, closes idle connections, gives waiting duplicates 503, lets
 * exchanges end. From the main thread. A descriptor that is readable once all have ended. */
int gateway_drain(struct gateway *gateway);

/* Drains, and waits until all connections have ended. */
void gateway_stop(struct gateway *gateway);

/* Frees everything; only after gateway_stop, and once neither the store nor the workers can wake a
 * fiber any more. */
void gateway_free(struct gateway *gateway);

#endif
