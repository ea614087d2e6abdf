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

/* Reading the system's roots takes longer than all else. */
static bool wants_tls(const struct webhook_plan *plan)
{
    for (size_t i = 0; i < plan->n_targets; i++)
        if (plan->targets[i].url.tls)
            return true;
    return false;
}

static struct http_origins *make_origins(const struct webhook_plan *plan)
{
    const struct webhook_settings *settings = &plan->wanted.webhooks;
    const struct http_guard_config judged = {settings->allow, settings->allow_http};
    const struct tls_config trusted = {0};
    struct tls_complaint complaint;
    bool tls = wants_tls(plan);
    struct http_origins_config config = {.max = ORIGINS_MOST,
                                         .max_idle = IDLE_MOST,
                                         .idle_us = IDLE_US,
                                         .fresh_us = FRESH_US,
                                         .guard = http_guard_new(&judged),
                                         .tls = tls ? tls_client_new(&trusted, &complaint) : NULL};
    bool made = config.guard && (config.tls || !tls);
    struct http_origins *origins = made ? http_origins_new(&config) : NULL;
    http_guard_unref(config.guard);
    tls_client_unref(config.tls);
    return origins;
}

/* URLs were checked by the config's reader. */
static void make_targets(struct webhook_plan *plan)
{
    const struct webhook_settings *settings = &plan->wanted.webhooks;
    const char *problem;
    for (size_t i = 0; i < settings->n_endpoints; i++) {
        struct webhook_target *target = &plan->targets[plan->n_targets++];
        target->endpoint = &settings->endpoints[i];
        bool is_good = url_read(target->endpoint->url, &target->url, &problem);
        CHECK(is_good);
    }
}

struct webhook_plan *webhook_plan_new(const struct webhook_wanted *wanted)
{
    struct webhook_plan *plan = mem_zalloc(1, sizeof *plan);
    if (!plan)
        return NULL;
    plan->refs = 1;
    plan->wanted = *wanted;
    rule_set_ref(wanted->rules);
    plan->targets = mem_zalloc(wanted->webhooks.n_endpoints + 1, sizeof *plan->targets);
    if (plan->targets) {
        make_targets(plan);
        plan->origins = make_origins(plan);
    }
    if (plan->origins)
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
    mem_free(plan->targets);
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
