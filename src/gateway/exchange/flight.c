/* SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "gateway/events.h"
#include "gateway/exchange/reply.h"
#include "gateway/exchange/steps.h"

static bool has_shares(const struct exchange *x)
{
    return x->plan->settings.max_in_flight_per_tenant > 0 && !x->rule->tenant_none;
}

/* By a keyed hash, so that nobody can choose tenants that are counted as one. */
static bool take_share(struct exchange *x, size_t limit)
{
    CHECK(!x->flight.shares);
    struct slice tenant = buf_slice(&x->tenant);
    struct digest digest = digest_keyed(store_digest_key(x->server->config->store), &tenant, 1);
    x->flight.tenant = peer_of_digest(&digest);
    x->flight.shares = peers_enter(x->server->shared->tenants, x->flight.tenant, limit);
    return x->flight.shares;
}

static enum exchange_step refuse_flight(struct exchange *x, enum metrics_limit limit,
                                        const char *detail)
{
    limit_count(x->server, limit);
    return reply_error(x, ERROR_LIMITED, detail);
}

enum exchange_step flight_admit(struct exchange *x)
{
    CHECK(x->attempt.token == 0);
    atomic_size_t *in_flight = &x->server->shared->in_flight;
    if (x->flight.taken)
        return EXCHANGE_AUTHORIZE; /* before a reload */
    if (has_shares(x) && !take_share(x, x->plan->settings.max_in_flight_per_tenant))
        return refuse_flight(x, METRICS_LIMIT_TENANT,
                             "too many requests of this tenant are in flight");
    x->flight.taken = true;
    if (atomic_fetch_add(in_flight, 1) < x->plan->settings.max_in_flight)
        return EXCHANGE_AUTHORIZE;
    flight_give_back(x);
    return refuse_flight(x, METRICS_LIMIT_IN_FLIGHT, "too many requests are in flight");
}

void flight_take_beyond(struct exchange *x)
{
    CHECK(x->step == EXCHANGE_DECIDE);
    if (x->flight.taken)
        return;
    atomic_fetch_add(&x->server->shared->in_flight, 1);
    x->flight.taken = true;
    if (has_shares(x))
        (void)take_share(x, SIZE_MAX);
}

void flight_give_back(struct exchange *x)
{
    CHECK(x->flight.taken || !x->flight.shares);
    size_t before = x->flight.taken ? atomic_fetch_sub(&x->server->shared->in_flight, 1) : 1;
    CHECK(before > 0);
    if (x->flight.shares)
        peers_leave(x->server->shared->tenants, x->flight.tenant);
    x->flight.taken = x->flight.shares = false;
}
