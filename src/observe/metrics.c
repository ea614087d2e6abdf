/* SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "base/mem.h"
#include "observe/metrics_priv.h"

#define STORED_MAX ((size_t)64 * 1024) /* bytes of samples of one series */

static const int64_t bounds[METRICS_BUCKET_COUNT] = {
#define X(bound, text) bound,
    METRICS_BUCKETS(X)
#undef X
};

static struct metrics_rule *rule_new(struct slice name)
{
    struct metrics_rule *rule = mem_zalloc(1, sizeof *rule + name.len);
    if (!rule)
        return NULL;
    if (name.len > 0)
        memcpy(rule->text, name.at, name.len);
    rule->name = slice_make(rule->text, name.len);
    return rule;
}

struct metrics *metrics_new(void)
{
    struct metrics *metrics = mem_zalloc(1, sizeof *metrics);
    if (!metrics)
        return NULL;
    mutex_init(&metrics->adding);
    mutex_init(&metrics->storing);
    for (size_t i = 0; i < METRIC_COUNT; i++)
        metrics->stored[i] = buf_make(STORED_MAX);
    metrics->unruled = rule_new(slice_of(NULL));
    metrics->other = rule_new(SLICE("(other)"));
    if (metrics->unruled && metrics->other)
        return metrics;
    metrics_free(metrics);
    return NULL;
}

void metrics_free(struct metrics *metrics)
{
    if (!metrics)
        return;
    for (size_t i = 0; i < atomic_load(&metrics->n_named); i++)
        mem_free(atomic_load(&metrics->named[i]));
    mem_free(metrics->unruled);
    mem_free(metrics->other);
    for (size_t i = 0; i < METRIC_COUNT; i++)
        buf_fini(&metrics->stored[i]);
    mutex_fini(&metrics->storing);
    mutex_fini(&metrics->adding);
    mem_free(metrics);
}

/* FNV-1a. Names come from the config, so nobody can choose them to collide. */
static size_t first_slot(struct slice name)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < name.len; i++)
        hash = (hash ^ (unsigned char)name.at[i]) * UINT64_C(1099511628211);
    return (size_t)(hash ^ hash >> 32) % METRICS_SLOTS;
}

/* The rule of that name, or NULL with the empty slot where it would stand. There always is one:
 * three quarters of the slots stay empty. */
static struct metrics_rule *find_rule_slot(struct metrics *metrics, struct slice name,
                                           size_t *ret_slot)
{
    for (size_t slot = first_slot(name);; slot = (slot + 1) % METRICS_SLOTS) {
        struct metrics_rule *rule =
            atomic_load_explicit(&metrics->slots[slot], memory_order_acquire);
        if (rule && !slice_eq(rule->name, name))
            continue;
        *ret_slot = slot;
        return rule;
    }
}

static struct metrics_rule *add_metrics_rule(struct metrics *metrics, struct slice name)
{
    size_t slot = 0;
    struct metrics_rule *rule = find_rule_slot(metrics, name, &slot);
    size_t n = atomic_load(&metrics->n_named);
    if (rule)
        return rule;
    rule = n < METRICS_RULES_MAX ? rule_new(name) : NULL;
    if (!rule)
        return metrics->other;
    atomic_store(&metrics->named[n], rule);
    atomic_store(&metrics->n_named, n + 1);
    atomic_store_explicit(&metrics->slots[slot], rule, memory_order_release);
    return rule;
}

struct metrics_rule *metrics_rule(struct metrics *metrics, struct slice name)
{
    size_t slot;
    if (name.len == 0)
        return metrics->unruled;
    struct metrics_rule *rule = find_rule_slot(metrics, name, &slot);
    if (rule)
        return rule;
    if (atomic_load_explicit(&metrics->n_named, memory_order_relaxed) == METRICS_RULES_MAX)
        return metrics->other;
    mutex_lock(&metrics->adding);
    rule = add_metrics_rule(metrics, name);
    mutex_unlock(&metrics->adding);
    return rule;
}

static void count_up(atomic_ullong *counter, unsigned long long n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

void metrics_count(struct metrics_rule *rule, enum metrics_outcome outcome)
{
    CHECK(outcome < METRICS_OUTCOME_COUNT);
    count_up(&rule->outcomes[outcome], 1);
}

static void add_observation(struct histogram *histogram, int64_t span_us)
{
    size_t i = 0;
    if (span_us < 0)
        span_us = 0;
    while (i < METRICS_BUCKET_COUNT && span_us > bounds[i])
        i++;
    count_up(&histogram->bucket[i], 1);
    count_up(&histogram->sum_us, (unsigned long long)span_us);
}

void metrics_request_took(struct metrics_rule *rule, int64_t span_us)
{
    add_observation(&rule->request, span_us);
}

void metrics_upstream_took(struct metrics_rule *rule, int64_t span_us)
{
    add_observation(&rule->upstream, span_us);
}

void metrics_participant_missed(struct metrics_rule *rule)
{
    count_up(&rule->participant_missing, 1);
}

void metrics_hold_ended(struct metrics_rule *rule)
{
    count_up(&rule->holds_ended, 1);
}

void metrics_begin_unproved(struct metrics_rule *rule)
{
    count_up(&rule->unproved, 1);
}

void metrics_retry_began(struct metrics *metrics, enum retry_profile profile)
{
    CHECK(profile < RETRY_PROFILE_COUNT);
    count_up(&metrics->retry_operations[profile], 1);
}

void metrics_retried(struct metrics *metrics, enum retry_profile profile, int64_t wait_us)
{
    CHECK(profile < RETRY_PROFILE_COUNT);
    count_up(&metrics->retry_attempts[profile], 1);
    add_observation(&metrics->retry_delay, wait_us);
}

void metrics_retry_exhausted(struct metrics *metrics, enum retry_profile profile)
{
    CHECK(profile < RETRY_PROFILE_COUNT);
    count_up(&metrics->retry_exhausted[profile], 1);
}

void metrics_upstream_responded(struct metrics *metrics, int status)
{
    CHECK(status >= 100);
    int class = status < 600 ? status / 100 : METRICS_CLASSES; /* in doubt as 5xx */
    count_up(&metrics->responses[class - 1], 1);
}

void metrics_upstream_failed(struct metrics *metrics, enum metrics_failure failure)
{
    CHECK(failure < METRICS_FAILURE_COUNT);
    count_up(&metrics->failures[failure], 1);
}

void metrics_probed(struct metrics *metrics, enum metrics_probe result)
{
    CHECK(result < METRICS_PROBE_COUNT);
    count_up(&metrics->probes[result], 1);
}

void metrics_limited(struct metrics *metrics, enum metrics_limit limit)
{
    CHECK(limit < METRICS_LIMIT_COUNT);
    count_up(&metrics->limits[limit], 1);
}

void metrics_admin_refused(struct metrics *metrics, int status)
{
    CHECK(status == 401 || status == 403);
    count_up(&metrics->admin_refused[status == 403], 1);
}

void metrics_reloaded(struct metrics *metrics, bool successful)
{
    count_up(&metrics->reloads[successful], 1);
    atomic_store(&metrics->reload_failed, !successful);
}

void metrics_stored(struct metrics *metrics, enum metric metric, struct slice samples)
{
    mutex_lock(&metrics->storing);
    buf_clear(&metrics->stored[metric]);
    buf_add_slice(&metrics->stored[metric], samples);
    mutex_unlock(&metrics->storing);
}
