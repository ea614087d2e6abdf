/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan: what one loop serves by between two reloads: the settings, and the upstream connections
 * that go with them. A request holds the plan it began with until it ends. Belongs to its loop:
 * counted in plain numbers.
 */
#ifndef PAWL_GATEWAY_PLAN_H
#define PAWL_GATEWAY_PLAN_H

#include "base/buf.h"
#include "gateway/settings.h"
#include "http/call/pool.h"

#define PLAN_IDLE_MAX 256 /* kept upstream connections a loop */

struct plan {
    size_t refs;
    struct gateway_settings settings; /* with a reference to its rules */
    struct http_upstream upstream;
    struct http_pool *pool;
    struct http_pool *ruled_pool; /* what others did to a connection never meets a ruled request */
    struct buf policy;            /* the published document; empty: not published */
    char policy_tag[35];          /* its ETag: 32 hex digits in quotes */
};

/* One reference is the caller's. NULL: no memory. */
struct plan *plan_new(const struct gateway_settings *settings,
                      const struct http_upstream *upstream);
struct plan *plan_ref(struct plan *plan);
/* Accepts NULL. */
void plan_unref(struct plan *plan);

/* Lets `plan` go on with the connections of `old` where both have the same upstream. */
void plan_inherit(struct plan *plan, const struct plan *old);

/* Puts a reference to `plan` in the place of what `*at` held (NULL: nothing). */
void plan_replace(struct plan **at, struct plan *plan);

#endif
