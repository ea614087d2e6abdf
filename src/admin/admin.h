/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin: the operator's listener (contract section 10), on an address of its own.
 *
 *   GET /livez, /readyz                         health; never a token
 *   GET /metrics                                Prometheus
 *   GET /keys, /keys/ID                         records
 *   POST /keys/ID/resolve | release | forget    acts on them, each with a log line
 *   POST /keys/resolve | release                the same on all of a rule that are in doubt
 *   POST /events                                publishes events (webhook/event.h)
 *   GET /deliveries, /deliveries/ID             what became of them
 *   POST /deliveries/ID/replay | drop           acts on those, each with a log line
 *
 * It has one thread, one loop and its own limits: a client that scrapes slowly, or means harm,
 * takes nothing from the gateway. The one thing it shares with it is the store, which it queries a
 * little at a time.
 *
 * Admitted are, on loopback without a token, all clients on the machine but a browser that was led
 * here (an Origin, or a Host that is not loopback, is refused); with a token, those that send it.
 */
#ifndef PAWL_ADMIN_ADMIN_H
#define PAWL_ADMIN_ADMIN_H

#include "base/log.h"
#include "engine/engine.h"
#include "observe/metrics.h"
#include "webhook/settings.h"
#include <sys/socket.h>

struct admin;

/* Everything pointed to outlives the listener. */
struct admin_config {
    struct sockaddr_storage listen;
    struct slice token; /* empty: none, and the address must be loopback */
    struct store *store;
    struct metrics *metrics;
    struct log *log;
    bool log_keys_hashed; /* log lines have keyed hashes of keys */
    webhook_reader *read_endpoint;
    /* Called on the listener's thread. */
    bool (*is_ready)(const void *argument, struct buf *why); /* whether traffic should come */
    void (*write_metrics)(void *argument, struct buf *page);
    void (*published)(void *argument); /* there are new events, or deliveries to make again */
    void *argument;
};

/* Binds and starts. NULL: `*ret_error` is the negative errno; -EACCES: off loopback it needs a
 * token, -EADDRINUSE: somebody else has the address. */
struct admin *admin_start(const struct admin_config *config, int *ret_error);

/* How keys are logged from now on. From any thread. */
void admin_set_log_keys(struct admin *admin, bool hashed);

/* Ends all connections and the thread, before the store is closed. Accepts NULL. */
void admin_stop(struct admin *admin);

/* Frees it. Call it only after the store was closed: until then the store's thread may wake fibers.
 * Accepts NULL. */
void admin_free(struct admin *admin);

#endif
