/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/plan.h"

#include "base/check.h"
#include "base/mem.h"
#include "webhook/state.h"

#define ARENA_MAX ((size_t)16 * 1024 * 1024)
#define ORIGINS_MOST 256
#define IDLE_MOST 4
#define IDLE_US (INT64_C(5) * CLOCK_US_PER_S)
#define FRESH_US (INT64_C(30) * CLOCK_US_PER_S) /* of a host's addresses */

/* With `tls` for https; reading the system's roots takes longer than all else. */
static struct http_origins *make_origins(struct http_guard *guard, bool tls)
{
    const struct tls_config trusted = {0};
    struct tls_complaint complaint;
    struct http_origins_config config = {.max = ORIGINS_MOST,
                                         .max_idle = IDLE_MOST,
                                         .idle_us = IDLE_US,
                                         .fresh_us = FRESH_US,
                                         .guard = guard,
                                         .tls = tls ? tls_client_new(&trusted, &complaint) : NULL};
    struct http_origins *origins = config.tls || !tls ? http_origins_new(&config) : NULL;
    tls_client_unref(config.tls);
    return origins;
}

/* URLs were checked by the config's reader. */
static struct url read_url(struct slice text)
{
    const char *problem;
    struct url url;
    bool is_good = url_read(text, &url, &problem);
    CHECK(is_good);
    return url;
}

static bool make_targets(struct webhook_plan *plan)
{
    const struct webhook_settings *settings = &plan->wanted.webhooks;
    const struct http_guard_config judged = {settings->allow, settings->allow_http};
    bool tls = false;
    plan->targets = mem_zalloc(settings->n_endpoints + 1, sizeof *plan->targets);
    if (!plan->targets)
        return false;
    for (size_t i = 0; i < settings->n_endpoints; i++) {
        struct webhook_target *target = &plan->targets[plan->n_targets++];
        target->endpoint = &settings->endpoints[i];
        target->url = read_url(target->endpoint->url);
        tls = tls || target->url.tls;
    }
    struct http_guard *guard = http_guard_new(&judged);
    plan->origins = guard ? make_origins(guard, tls) : NULL;
    http_guard_unref(guard);
    return plan->origins;
}

static bool make_sources(struct webhook_plan *plan, const struct http_upstream *upstream)
{
    const struct inbox_settings *settings = &plan->wanted.inbox;
    bool tls = false, at_upstream = false;
    plan->sources = mem_zalloc(settings->n_sources + 1, sizeof *plan->sources);
    if (!plan->sources)
        return false;
    for (size_t i = 0; i < settings->n_sources; i++) {
        struct webhook_source *source = &plan->sources[plan->n_sources++];
        source->settings = &settings->sources[i];
        source->url = read_url(source->settings->handler);
        tls = tls || (!source->settings->at_upstream && source->url.tls);
        at_upstream = at_upstream || source->settings->at_upstream;
    }
    plan->handlers = make_origins(NULL, tls);
    plan->upstream = at_upstream ? http_pool_new(upstream, IDLE_MOST, IDLE_US) : NULL;
    return plan->handlers && (plan->upstream || !at_upstream);
}

struct webhook_plan *webhook_plan_new(const struct webhook_wanted *wanted)
{
    struct webhook_plan *plan = mem_zalloc(1, sizeof *plan);
    if (!plan)
        return NULL;
    plan->refs = 1;
    plan->wanted = *wanted;
    plan->wanted.upstream = (struct http_upstream){0};
    rule_set_ref(wanted->rules);
    if (make_targets(plan) && make_sources(plan, &wanted->upstream))
        return plan;
    webhook_plan_unref(plan);
    return NULL;
}

struct webhook_plan *webhook_plan_ref(struct webhook_plan *plan)
{
    CHECK(plan->refs > 0);
    plan->refs++;
    return plan;
}

void webhook_plan_unref(struct webhook_plan *plan)
{
    if (!plan || --plan->refs > 0)
        return;
    http_origins_free(plan->origins);
    http_origins_free(plan->handlers);
    http_pool_unref(plan->upstream);
    mem_free(plan->targets);
    mem_free(plan->sources);
    rule_set_unref(plan->wanted.rules);
    mem_free(plan);
}

struct webhook_target *webhook_plan_find(const struct webhook_plan *plan, struct slice name)
{
    for (size_t i = 0; i < plan->n_targets; i++)
        if (slice_eq(plan->targets[i].endpoint->name, name))
            return &plan->targets[i];
    return NULL;
}

const struct webhook_source *webhook_plan_source(const struct webhook_plan *plan, struct slice name)
{
    for (size_t i = 0; i < plan->n_sources; i++)
        if (slice_eq(plan->sources[i].settings->name, name))
            return &plan->sources[i];
    return NULL;
}

enum store_status webhook_plan_refresh(struct webhook_plan *plan, struct store *store,
                                       struct parker *parker)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct store_found found = {.arena = &arena};
    enum store_status status = webhook_states(store, parker, &found);
    if (status != STORE_DONE)
        return status;
    for (size_t i = 0; i < plan->n_targets; i++)
        plan->targets[i].state = (struct store_endpoint){0};
    for (size_t i = 0; i < found.n; i++) {
        const struct store_endpoint *state = (const struct store_endpoint *)found.rows[i];
        struct webhook_target *target = webhook_plan_find(plan, state->name);
        if (!target)
            continue;
        target->state = *state;
        target->state.name = target->endpoint->name;
        target->state.why = SLICE("");
    }
    return STORE_DONE;
}
