/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page: what Prometheus reads, in its text format (0.0.4), one series behind the other. Each part
 * of the process writes its own, and each series is written by one call, or by one page_begin and
 * the samples that follow it. The process's own come from process.c.
 */
#ifndef PAWL_OBSERVE_PAGE_H
#define PAWL_OBSERVE_PAGE_H

#include "observe/metrics.h"

#define PAGE_MAX ((size_t)8 * 1024 * 1024) /* bytes: above 256 rules' worth of lines */
#define PAGE_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* All of its members are for literals: what a sample is called is never somebody else's text. */
struct page_series {
    const char *name;
    const char *type; /* counter, gauge, histogram */
    const char *help;
};

/* Those of the table of metrics.h, by enum metric. A part of no product may have others. */
extern const struct page_series page_series[METRIC_COUNT];
#define SERIES(name) (&page_series[METRIC_##name])

/* A series of one value, without labels. */
void page_value(struct buf *page, const struct page_series *series, double value);

/* One with a label: its head, then a sample for each value of the label. */
void page_begin(struct buf *page, const struct page_series *series);
void page_sample(struct buf *page, const struct page_series *series, const char *label,
                 const char *value, uint64_t count);

/* `name="value"` for a sample whose value is somebody else's text: escaped as the format wants it.
 */
void page_label(struct buf *page, const char *name, struct slice value);

/* A histogram that somebody counts in whole units. */
struct page_histogram {
    size_t n;                /* bounds */
    const int64_t *bounds;   /* each bucket up to and with its bound */
    const uint64_t *buckets; /* n + 1, not cumulated; the last one takes the rest */
    uint64_t sum;
    double unit; /* how many of what was counted are one of what the series tells */
};
void page_histogram(struct buf *page, const struct page_series *series,
                    const struct page_histogram *histogram);

/* Appends what `metrics` counted. */
void page_metrics(struct buf *page, struct metrics *metrics);

/* Appends BUILD_INFO, of literals. */
void page_build(struct buf *page, const char *version, const char *commit);

/* Appends the process_* series: from /proc, without blocking. What cannot be read is 0. */
void page_process(struct buf *page);

#endif
