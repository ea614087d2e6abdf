/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gateway: the reverse proxy that puts the Idempotency-Key contract before a service.
 *
 * Listens on one address with a number of loops (http/server.h), each with its own pool of upstream
 * connections. A client connection is a fiber; a ruled request is one call of exchange_run
 * (exchange/exchange.h) in it, any other one call of pass_run (pass/pass.h).
 */
#ifndef PAWL_GATEWAY_GATEWAY_H
#define PAWL_GATEWAY_GATEWAY_H

#include "base/log.h"
#include "core/cors.h"
#include "core/networks.h"
#include "core/rule.h"
#include "engine/engine.h"
#include "fiber/offload.h"
#include "http/pool.h"
#include "http/server.h"
#include "observe/metrics.h"

struct gateway;

/* What a reload may change. Spans are microseconds. */
struct gateway_settings {
    struct http_upstream upstream;
    struct rule_set *rules;          /* the gateway takes references of its own */
    struct http_limits limits;       /* of a client connection; body_us: of a ruled request's */
    size_t max_in_flight;            /* ruled exchanges with the upstream */
    size_t max_in_flight_per_tenant; /* of them, one tenant's; 0: any number */
    uint64_t max_buffered;           /* bytes of ruled requests' and answers' bodies */
    int64_t read_timeout_us;         /* between two reads of an upstream that no rule bounds */
    int64_t connect_timeout_us;
    int64_t upstream_idle_us;
    int64_t retry_after_us; /* Retry-After on "in progress" */
    bool unmatched_refuse;  /* no rule: 404 instead of passing on */
    bool log_keys_hashed;   /* log lines have keyed hashes of keys */
    bool policy_off;        /* /.well-known/idempotency is the upstream's */
    struct networks trust_forwarded;
    struct cors_policy cors;
    struct slice public_url; /* texts of both belong to `rules` */
};

/* What stays as it is while the gateway runs. Everything pointed to outlives it. */
struct gateway_config {
    struct sockaddr_storage listen;
    struct store *store;
    struct engine *engine;
    struct log *log;         /* NULL: no log */
    struct metrics *metrics; /* where answers are counted */
    struct workers *workers; /* for what takes long */
    size_t threads;          /* >= 1 */
    size_t max_connections;  /* in all */
};

/* Binds and starts the loops. NULL: `*ret_problem` (mem_free) is one line that says why. A second
 * gateway on the same address is refused. */
struct gateway *gateway_start(const struct gateway_config *config,
                              const struct gateway_settings *settings, char **ret_problem);

/* Serves by other settings from now on; when it returns, every loop does. A request whose operation
 * has begun ends under the rule it began with; one that is still being read is judged anew. From
 * the main thread, not once it drains. False: no memory, nothing changed. */
bool gateway_reload(struct gateway *gateway, const struct gateway_settings *settings);

/* What it does at this moment. From any thread. */
struct gateway_load {
    size_t connections;
    size_t in_flight;  /* ruled requests that own an operation or are being decided */
    uint64_t buffered; /* bytes reserved for bodies */
    bool draining;
};
struct gateway_load gateway_load(const struct gateway *gateway);

/* Begins to drain: accepts no more, closes idle connections, gives waiting duplicates 503, lets
 * exchanges end. From the main thread. */
void gateway_drain(struct gateway *gateway);

/* Waits until every connection has ended, at most until `deadline_us` (boot time). True: ended. */
bool gateway_wait(struct gateway *gateway, int64_t deadline_us);

/* Frees everything; only after gateway_wait said true, and once neither the store nor the workers
 * can wake a fiber any more. */
void gateway_free(struct gateway *gateway);

#endif
