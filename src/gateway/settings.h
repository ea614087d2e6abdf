/* SPDX-License-Identifier: Apache-2.0 */
/* What the gateway serves by, as the config says it: values only. The config embeds it. */
#ifndef PAWL_GATEWAY_SETTINGS_H
#define PAWL_GATEWAY_SETTINGS_H

#include "core/request/rule.h"
#include "core/web/cors.h"
#include "core/web/networks.h"
#include "http/settings.h"

/* Durations are microseconds. All but `threads` and `max_connections` may change by a reload. */
struct gateway_settings {
    struct rule_set *rules;          /* the gateway takes references of its own */
    struct http_limits limits;       /* of a client connection; body_us: of a ruled request's */
    size_t threads;                  /* loops; 0: one for each processor */
    size_t max_connections;          /* in all */
    size_t max_in_flight;            /* ruled exchanges with the upstream */
    size_t max_in_flight_per_tenant; /* of them, one tenant's; 0: any number */
    uint64_t max_buffered;           /* bytes of ruled requests' and responses' bodies */
    int64_t read_timeout_us;         /* between two reads of an upstream that no rule bounds */
    int64_t connect_timeout_us;
    int64_t upstream_idle_us; /* an upstream connection idle for longer carries no ruled request */
    int64_t retry_after_us;   /* Retry-After on "in progress" */
    bool unmatched_refuse;    /* no rule: 404 instead of passing on */
    bool log_keys_hashed;     /* log lines have keyed hashes of keys */
    bool policy_off;          /* /.well-known/idempotency is the upstream's */
    struct networks trust_forwarded;
    struct cors_policy cors;
    const struct error_texts *errors; /* where no rule is known; NULL: problems. Like public_url */
    struct slice
        public_url; /* without a slash at its end; empty: none. Both texts are of `rules` */
};

#endif
