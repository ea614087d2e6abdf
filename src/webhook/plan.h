/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan: what is delivered by one config: the endpoints as they are now (roster.h) with the way to
 * them, and the sources of the inbox with the way to their handlers. One plan for each config,
 * with references: a delivery keeps the plan that it began with. Used by the delivering loop alone,
 * so without locks.
 */
#ifndef PAWL_WEBHOOK_PLAN_H
#define PAWL_WEBHOOK_PLAN_H

#include "core/request/rule.h"
#include "http/call/origins.h"
#include "webhook/endpoints/roster.h"
#include "webhook/envelope.h"

/* What a reload may change. Texts and lists are those of `rules`. */
struct webhook_wanted {
    struct webhook_settings webhooks;
    struct inbox_settings inbox;
    struct http_upstream upstream; /* of handlers at the upstream; borrowed until it is made */
    struct rule_set *rules;        /* of which the plan takes a reference */
    webhook_reader *read;          /* of stored endpoints */
    int64_t connect_timeout_us;
    int64_t roster_gone_us; /* until what no process has is given up */
};

/* A source of the inbox. */
struct webhook_source {
    const struct inbox_source *settings;
    struct url url; /* of its handler */
};

struct webhook_plan {
    size_t refs;
    struct webhook_wanted wanted;
    struct http_origins *origins; /* behind the guard */
    struct roster *roster;        /* in force */
    bool has_tls;                 /* origins have what https needs */
    int64_t read_at;              /* store time of the registry that it is of; 0: none yet */
    uint64_t looks;               /* at the registry, which fibers take in turn */
    uint64_t taken;               /* the one that it is of */
    struct arena others_arena;
    const struct slice *others; /* ordered: names that it has beside the roster's */
    size_t n_others;
    struct http_pool *upstream;    /* NULL: no handler is there */
    struct http_origins *handlers; /* elsewhere: as the operator says, so without a guard */
    struct webhook_source *sources;
    size_t n_sources;
};

/* From any thread: it belongs to the loop from then on. NULL: no memory. */
struct webhook_plan *webhook_plan_new(const struct webhook_wanted *wanted);
struct webhook_plan *webhook_plan_ref(struct webhook_plan *plan);
/* Accepts NULL. */
void webhook_plan_unref(struct webhook_plan *plan);

/* By what its events are known by. NULL: there is none. */
const struct webhook_source *webhook_plan_source(const struct webhook_plan *plan,
                                                 struct slice name);

/* Whether it is an endpoint of another process's config, or was one of an earlier config: by the
 * registry as it was read last. */
bool webhook_plan_is_of_others(const struct webhook_plan *plan, struct slice name);

/* The rule by which an endpoint is told of events from now on. */
struct envelope_rule webhook_plan_rule(const struct webhook_plan *plan,
                                       const struct webhook_endpoint *endpoint);

/* Reads the registry anew, once all endpoints of the config are written into it. */
enum store_status webhook_plan_refresh(struct webhook_plan *plan, struct store *store,
                                       struct parker *parker);

#endif
