/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/plan.h"

#include "base/check.h"
#include "base/mem.h"
#include "core/request/policy.h"

#define TAG_BYTES 16

static bool write_policy(struct plan *plan)
{
    plan->policy = buf_make(POLICY_MAX);
    if (plan->settings.policy_off)
        return true;
    policy_write(plan->settings.rules, &plan->policy);
    struct digest digest = digest_of(buf_slice(&plan->policy));
    plan->policy_tag[0] = '"';
    hex_encode(digest.bytes, TAG_BYTES, plan->policy_tag + 1);
    memcpy(plan->policy_tag + 1 + 2 * TAG_BYTES, "\"", 2);
    return buf_ok(&plan->policy);
}

struct plan *plan_new(const struct gateway_settings *settings, const struct http_upstream *upstream)
{
    struct plan *plan = mem_zalloc(1, sizeof *plan);
    if (!plan)
        return NULL;
    plan->refs = 1;
    plan->settings = *settings;
    plan->upstream = *upstream;
    plan->pool = http_pool_new(upstream, PLAN_IDLE_MAX, settings->upstream_idle_us);
    plan->ruled_pool = http_pool_new(upstream, PLAN_IDLE_MAX, settings->upstream_idle_us);
    if (!plan->pool || !plan->ruled_pool || !write_policy(plan)) {
        http_pool_unref(plan->pool);
        http_pool_unref(plan->ruled_pool);
        buf_fini(&plan->policy);
        mem_free(plan);
        return NULL;
    }
    rule_set_ref(plan->settings.rules);
    return plan;
}

struct plan *plan_ref(struct plan *plan)
{
    CHECK(plan->refs > 0);
    plan->refs++;
    return plan;
}

void plan_unref(struct plan *plan)
{
    CHECK(!plan || plan->refs > 0);
    if (!plan || --plan->refs > 0)
        return;
    http_pool_unref(plan->pool);
    http_pool_unref(plan->ruled_pool);
    rule_set_unref(plan->settings.rules);
    buf_fini(&plan->policy);
    mem_free(plan);
}

void plan_inherit(struct plan *plan, const struct plan *old)
{
    if (!http_pool_serves(old->pool, &plan->upstream, plan->settings.upstream_idle_us))
        return;
    http_pool_unref(plan->pool);
    http_pool_unref(plan->ruled_pool);
    plan->pool = http_pool_ref(old->pool);
    plan->ruled_pool = http_pool_ref(old->ruled_pool);
}

void plan_replace(struct plan **at, struct plan *plan)
{
    CHECK(plan);
    struct plan *old = *at;
    *at = plan_ref(plan);
    plan_unref(old);
}
