/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/page.h"
#include "base/check.h"
#include "base/clock.h"
#include "observe/metrics_priv.h"

const struct page_series page_series[METRIC_COUNT] = {
#define COUNTER "counter"
#define GAUGE "gauge"
#define HISTOGRAM "histogram"
#define X(id, name, type, labels, help) [METRIC_##id] = {name, type, help},
    METRICS(X)
#undef X
};

static const char *const outcomes[METRICS_OUTCOME_COUNT] = {
#define X(name, text) text,
    METRICS_OUTCOMES(X)
#undef X
};

static const char *const failures[METRICS_FAILURE_COUNT] = {
#define X(name, text) text,
    METRICS_FAILURES(X)
#undef X
};

static const char *const limits[METRICS_LIMIT_COUNT] = {
#define X(name, text) text,
    METRICS_LIMITS(X)
#undef X
};

static const char *const probes[METRICS_PROBE_COUNT] = {
#define X(name, text) text,
    METRICS_PROBES(X)
#undef X
};

static const char *const profiles[RETRY_PROFILE_COUNT] = {
#define X(name, ...) #name,
    RETRY_PROFILES(X)
#undef X
};

static const char *const bounds[METRICS_BUCKET_COUNT] = {
#define X(bound, text) text,
    METRICS_BUCKETS(X)
#undef X
};

typedef unsigned long long number;

static number load_number(const atomic_ullong *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void page_begin(struct buf *page, const struct page_series *series)
{
    buf_printf(page, "# HELP %s %s\n# TYPE %s %s\n", series->name, series->help, series->name,
               series->type);
}

void page_value(struct buf *page, const struct page_series *series, double value)
{
    page_begin(page, series);
    buf_printf(page, "%s %.15g\n", series->name, value);
}

void page_sample(struct buf *page, const struct page_series *series, const char *label,
                 const char *value, uint64_t count)
{
    buf_printf(page, "%s{%s=\"%s\"} %llu\n", series->name, label, value, (number)count);
}

void page_histogram(struct buf *page, const struct page_series *series,
                    const struct page_histogram *histogram)
{
    number so_far = 0;
    page_begin(page, series);
    for (size_t i = 0; i < histogram->n; i++) {
        so_far += histogram->buckets[i];
        buf_printf(page, "%s_bucket{le=\"%.15g\"} %llu\n", series->name,
                   (double)histogram->bounds[i] / histogram->unit, so_far);
    }
    so_far += histogram->buckets[histogram->n];
    buf_printf(page, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %.15g\n%s_count %llu\n", series->name,
               so_far, series->name, (double)histogram->sum / histogram->unit, series->name,
               so_far);
}

/* ---- what was counted ---- */

void page_label(struct buf *page, const char *name, struct slice value)
{
    buf_printf(page, "%s=\"", name);
    for (size_t i = 0; i < value.len; i++) {
        char c = value.at[i];
        if (c == '\n')
            buf_add_str(page, "\\n");
        else if (c == '"' || c == '\\')
            buf_add(page, (char[]){'\\', c}, 2);
        else
            buf_add_char(page, c);
    }
    buf_add_char(page, '"');
}

/* NAME[SUFFIX]{rule="RULE" - and the brace stays open; without a rule NAME[SUFFIX]. */
static void start_rule(struct buf *buf, const struct page_series *series, const char *suffix,
                       const struct metrics_rule *rule)
{
    buf_add_str(buf, series->name);
    buf_add_str(buf, suffix);
    if (!rule)
        return;
    buf_add_char(buf, '{');
    page_label(buf, "rule", rule->name);
}

static void add_outcomes(struct buf *buf, const struct page_series *series,
                         const struct metrics_rule *rule)
{
    for (size_t i = 0; i < METRICS_OUTCOME_COUNT; i++) {
        start_rule(buf, series, "", rule);
        buf_printf(buf, ",outcome=\"%s\"} %llu\n", outcomes[i], load_number(&rule->outcomes[i]));
    }
}

static void add_rule_count(struct buf *buf, const struct page_series *series,
                           const struct metrics_rule *rule)
{
    CHECK(rule);
    start_rule(buf, series, "", rule);
    buf_printf(buf, "} %llu\n",
               load_number(series == SERIES(PARTICIPANT_MISSING) ? &rule->participant_missing
                           : series == SERIES(HOLDS_ENDED)       ? &rule->holds_ended
                                                                 : &rule->unproved));
}

/* `rule` NULL: the series has no rules. */
static void add_buckets(struct buf *buf, const struct page_series *series,
                        const struct histogram *histogram, const struct metrics_rule *rule)
{
    number sum_us = load_number(&histogram->sum_us), so_far = 0;
    for (size_t i = 0; i <= METRICS_BUCKET_COUNT; i++) {
        so_far += load_number(&histogram->bucket[i]);
        start_rule(buf, series, "_bucket", rule);
        buf_printf(buf, "%sle=\"%s\"} %llu\n", rule ? "," : "{",
                   i < METRICS_BUCKET_COUNT ? bounds[i] : "+Inf", so_far);
    }
    start_rule(buf, series, "_sum", rule);
    buf_printf(buf, "%s %llu.%06llu\n", rule ? "}" : "", sum_us / CLOCK_US_PER_S,
               sum_us % CLOCK_US_PER_S);
    start_rule(buf, series, "_count", rule);
    buf_printf(buf, "%s %llu\n", rule ? "}" : "", so_far);
}

static void add_histogram(struct buf *buf, const struct page_series *series,
                          const struct metrics_rule *rule)
{
    bool requests = series == SERIES(REQUEST_DURATION);
    add_buckets(buf, series, requests ? &rule->request : &rule->upstream, rule);
}

static void write_rules(struct buf *buf, struct metrics *metrics, const struct page_series *series,
                        void (*add)(struct buf *, const struct page_series *,
                                    const struct metrics_rule *))
{
    size_t n = atomic_load(&metrics->n_named);
    page_begin(buf, series);
    add(buf, series, metrics->unruled);
    for (size_t i = 0; i < n; i++)
        add(buf, series, atomic_load(&metrics->named[i]));
    if (n == METRICS_RULES_MAX)
        add(buf, series, metrics->other);
}

/* One count for each value of a label. */
struct counts {
    size_t n;
    const char *label;
    const char *const *values;
    const atomic_ullong *counts;
};

static void write_counts(struct buf *buf, const struct page_series *series, struct counts counts)
{
    page_begin(buf, series);
    for (size_t i = 0; i < counts.n; i++)
        page_sample(buf, series, counts.label, counts.values[i], load_number(&counts.counts[i]));
}

/* What commands counted in the store. */
static void write_stored(struct buf *page, struct metrics *metrics, enum metric metric)
{
    mutex_lock(&metrics->storing);
    buf_add_slice(page, buf_slice(&metrics->stored[metric]));
    mutex_unlock(&metrics->storing);
}

static void write_profiles(struct buf *page, struct metrics *metrics, enum metric metric,
                           const atomic_ullong *own)
{
    write_counts(page, &page_series[metric],
                 (struct counts){RETRY_PROFILE_COUNT, "profile", profiles, own});
    write_stored(page, metrics, metric);
}

static void write_retries(struct buf *page, struct metrics *metrics)
{
    write_profiles(page, metrics, METRIC_RETRY_OPERATIONS, metrics->retry_operations);
    write_profiles(page, metrics, METRIC_RETRY_ATTEMPTS, metrics->retry_attempts);
    write_profiles(page, metrics, METRIC_RETRY_EXHAUSTED, metrics->retry_exhausted);
    page_begin(page, SERIES(JOBS));
    write_stored(page, metrics, METRIC_JOBS);
    page_begin(page, SERIES(RETRY_DELAY));
    add_buckets(page, SERIES(RETRY_DELAY), &metrics->retry_delay, NULL);
}

void page_metrics(struct buf *page, struct metrics *metrics)
{
    static const char *const classes[METRICS_CLASSES] = {"1xx", "2xx", "3xx", "4xx", "5xx"};
    static const char *const refused[] = {"401", "403"}, *const results[] = {"failure", "success"};
    write_rules(page, metrics, SERIES(REQUESTS), add_outcomes);
    write_rules(page, metrics, SERIES(REQUEST_DURATION), add_histogram);
    write_rules(page, metrics, SERIES(UPSTREAM_DURATION), add_histogram);
    write_rules(page, metrics, SERIES(PARTICIPANT_MISSING), add_rule_count);
    write_rules(page, metrics, SERIES(HOLDS_ENDED), add_rule_count);
    write_rules(page, metrics, SERIES(UNPROVED), add_rule_count);
    write_counts(page, SERIES(PROBES),
                 (struct counts){METRICS_PROBE_COUNT, "result", probes, metrics->probes});
    write_retries(page, metrics);
    write_counts(page, SERIES(UPSTREAM_RESPONSES),
                 (struct counts){METRICS_CLASSES, "class", classes, metrics->responses});
    write_counts(page, SERIES(UPSTREAM_ERRORS),
                 (struct counts){METRICS_FAILURE_COUNT, "reason", failures, metrics->failures});
    write_counts(page, SERIES(LIMITED),
                 (struct counts){METRICS_LIMIT_COUNT, "reason", limits, metrics->limits});
    write_counts(page, SERIES(ADMIN_REFUSED),
                 (struct counts){2, "status", refused, metrics->admin_refused});
    write_counts(page, SERIES(RELOADS), (struct counts){2, "result", results, metrics->reloads});
    page_value(page, SERIES(RELOAD_OK), !atomic_load(&metrics->reload_failed));
}

void page_build(struct buf *page, const char *version, const char *commit)
{
    page_begin(page, SERIES(BUILD_INFO));
    buf_printf(page, "%s{version=\"%s\",commit=\"%s\"} 1\n", SERIES(BUILD_INFO)->name, version,
               commit);
}
