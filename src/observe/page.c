/* SPDX-License-Identifier: Apache-2.0 */
/* The page that Prometheus reads: text format 0.0.4. */
#include "base/check.h"
#include "base/clock.h"
#include "observe/metrics_priv.h"

static const struct row {
    const char *name;
    const char *type;
    const char *help;
} rows[METRIC_COUNT] = {
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

static const char *const bounds[METRICS_BUCKET_COUNT] = {
#define X(bound, text) text,
    METRICS_BUCKETS(X)
#undef X
};

typedef unsigned long long number;

static number load(const atomic_ullong *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* `name="value"`; the value as the format wants it escaped. */
static void add_label(struct buf *buf, const char *name, struct slice value)
{
    buf_printf(buf, "%s=\"", name);
    for (size_t i = 0; i < value.len; i++) {
        char c = value.at[i];
        if (c == '\n')
            buf_add_str(buf, "\\n");
        else if (c == '"' || c == '\\')
            buf_add(buf, (char[]){'\\', c}, 2);
        else
            buf_add_char(buf, c);
    }
    buf_add_char(buf, '"');
}

/* NAME[SUFFIX]{rule="RULE" - and the brace stays open. */
static void start_rule(struct buf *buf, enum metric metric, const char *suffix,
                       const struct metrics_rule *rule)
{
    buf_add_str(buf, rows[metric].name);
    buf_add_str(buf, suffix);
    buf_add_char(buf, '{');
    add_label(buf, "rule", rule->name);
}

static void add_outcomes(struct buf *buf, enum metric metric, const struct metrics_rule *rule)
{
    for (size_t i = 0; i < METRICS_OUTCOME_COUNT; i++) {
        start_rule(buf, metric, "", rule);
        buf_printf(buf, ",outcome=\"%s\"} %llu\n", outcomes[i], load(&rule->outcomes[i]));
    }
}

static void add_histogram(struct buf *buf, enum metric metric, const struct metrics_rule *rule)
{
    const struct histogram *histogram =
        metric == METRIC_REQUEST_DURATION ? &rule->request : &rule->upstream;
    number sum_us = load(&histogram->sum_us), so_far = 0;
    for (size_t i = 0; i <= METRICS_BUCKET_COUNT; i++) {
        so_far += load(&histogram->bucket[i]);
        start_rule(buf, metric, "_bucket", rule);
        buf_printf(buf, ",le=\"%s\"} %llu\n", i < METRICS_BUCKET_COUNT ? bounds[i] : "+Inf",
                   so_far);
    }
    start_rule(buf, metric, "_sum", rule);
    buf_printf(buf, "} %llu.%06llu\n", sum_us / CLOCK_US_PER_S, sum_us % CLOCK_US_PER_S);
    start_rule(buf, metric, "_count", rule);
    buf_printf(buf, "} %llu\n", so_far);
}

static void add_rules(struct buf *buf, struct metrics *metrics, enum metric metric,
                      void (*add)(struct buf *, enum metric, const struct metrics_rule *))
{
    size_t n = atomic_load(&metrics->n_named);
    add(buf, metric, metrics->unruled);
    for (size_t i = 0; i < n; i++)
        add(buf, metric, atomic_load(&metrics->named[i]));
    if (n == METRICS_RULES_MAX)
        add(buf, metric, metrics->other);
}

static void add_records(struct buf *buf, const struct metrics_reading *reading)
{
    const char *name = rows[METRIC_RECORDS].name;
    buf_printf(buf, "%s{status=\"pending\"} %lld\n", name, (long long)reading->pending);
    buf_printf(buf, "%s{status=\"released\"} %lld\n", name, (long long)reading->released);
    buf_printf(buf, "%s{status=\"complete\"} %lld\n", name, (long long)reading->complete);
    buf_printf(buf, "%s{status=\"failed\"} %lld\n", name, (long long)reading->failed);
    buf_printf(buf, "%s{status=\"unknown\"} %lld\n", name, (long long)reading->unknown);
}

/* `unit`: how many of what was counted are one of what the series tells. */
static void add_steps(struct buf *buf, enum metric metric, const struct metrics_steps *steps,
                      double unit)
{
    const char *name = rows[metric].name;
    number so_far = 0;
    CHECK(steps->n <= METRICS_STEPS_MAX);
    for (size_t i = 0; i < steps->n; i++) {
        so_far += steps->buckets[i];
        buf_printf(buf, "%s_bucket{le=\"%.15g\"} %llu\n", name, (double)steps->bounds[i] / unit,
                   so_far);
    }
    so_far += steps->buckets[steps->n];
    buf_printf(buf, "%s_bucket{le=\"+Inf\"} %llu\n", name, so_far);
    buf_printf(buf, "%s_sum %.15g\n%s_count %llu\n", name, (double)steps->sum / unit, name, so_far);
}

/* A series with one label of two values. */
static void add_pair(struct buf *buf, enum metric metric, const char *const labels[2],
                     const uint64_t values[2])
{
    for (size_t i = 0; i < 2; i++)
        buf_printf(buf, "%s{%s} %llu\n", rows[metric].name, labels[i], (number)values[i]);
}

static void add_store(struct buf *buf, const struct metrics_reading *reading, enum metric metric)
{
    static const char *const kinds[] = {"kind=\"write\"", "kind=\"read\""};
    static const char *const reasons[] = {"reason=\"full\"", "reason=\"busy\""};
    if (metric == METRIC_STORE_COMMIT)
        add_steps(buf, metric, &reading->store_commit, (double)CLOCK_US_PER_S);
    else if (metric == METRIC_STORE_BATCH)
        add_steps(buf, metric, &reading->store_batch, 1);
    else if (metric == METRIC_STORE_OPERATIONS)
        add_pair(buf, metric, kinds, (uint64_t[]){reading->store_writes, reading->store_reads});
    else
        add_pair(buf, metric, reasons, (uint64_t[]){reading->store_full, reading->store_busy});
}

static void add_upstream(struct buf *buf, const struct metrics *metrics)
{
    const char *name = rows[METRIC_UPSTREAM_RESPONSES].name;
    for (size_t i = 0; i < METRICS_CLASSES; i++)
        buf_printf(buf, "%s{class=\"%zuxx\"} %llu\n", name, i + 1, load(&metrics->responses[i]));
}

static void add_reasons(struct buf *buf, enum metric metric, const char *const *reasons,
                        const atomic_ullong *counts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        buf_printf(buf, "%s{reason=\"%s\"} %llu\n", rows[metric].name, reasons[i],
                   load(&counts[i]));
}

static void add_admin_refused(struct buf *buf, const struct metrics *metrics)
{
    const char *name = rows[METRIC_ADMIN_REFUSED].name;
    buf_printf(buf, "%s{status=\"401\"} %llu\n", name, load(&metrics->admin_refused[0]));
    buf_printf(buf, "%s{status=\"403\"} %llu\n", name, load(&metrics->admin_refused[1]));
}

static void add_reloads(struct buf *buf, struct metrics *metrics)
{
    const char *name = rows[METRIC_RELOADS].name;
    buf_printf(buf, "%s{result=\"success\"} %llu\n", name, load(&metrics->reloads[1]));
    buf_printf(buf, "%s{result=\"failure\"} %llu\n", name, load(&metrics->reloads[0]));
}

static void add_samples(struct buf *buf, struct metrics *metrics,
                        const struct metrics_reading *reading, enum metric metric)
{
    switch (metric) {
    case METRIC_REQUESTS:
        add_rules(buf, metrics, metric, add_outcomes);
        return;
    case METRIC_REQUEST_DURATION:
    case METRIC_UPSTREAM_DURATION:
        add_rules(buf, metrics, metric, add_histogram);
        return;
    case METRIC_UPSTREAM_RESPONSES:
        add_upstream(buf, metrics);
        return;
    case METRIC_UPSTREAM_ERRORS:
        add_reasons(buf, metric, failures, metrics->failures, METRICS_FAILURE_COUNT);
        return;
    case METRIC_LIMITED:
        add_reasons(buf, metric, limits, metrics->limits, METRICS_LIMIT_COUNT);
        return;
    case METRIC_RECORDS:
        add_records(buf, reading);
        return;
    case METRIC_STORE_COMMIT:
    case METRIC_STORE_BATCH:
    case METRIC_STORE_OPERATIONS:
    case METRIC_STORE_RETRIES:
        add_store(buf, reading, metric);
        return;
    case METRIC_ADMIN_REFUSED:
        add_admin_refused(buf, metrics);
        return;
    case METRIC_RELOADS:
        add_reloads(buf, metrics);
        return;
    case METRIC_BUILD_INFO:
        buf_printf(buf, "%s{version=\"" PAWL_VERSION "\"} 1\n", rows[metric].name);
        return;
    case METRIC_RELOAD_OK:
        buf_printf(buf, "%s %d\n", rows[metric].name, !atomic_load(&metrics->reload_failed));
        return;
    default:
        buf_printf(buf, "%s %.15g\n", rows[metric].name, reading->value[metric]);
    }
}

void metrics_write(struct metrics *metrics, const struct metrics_reading *reading, struct buf *buf)
{
    for (enum metric metric = 0; metric < METRIC_COUNT; metric++) {
        const struct row *row = &rows[metric];
        buf_printf(buf, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name, row->type);
        add_samples(buf, metrics, reading, metric);
    }
}
