/* SPDX-License-Identifier: Apache-2.0 */
#include "courier/series.h"

#include "base/check.h"

#define ARENA_MAX ((size_t)1024 * 1024)

static const int64_t wait_bounds[SERIES_WAIT_COUNT] = {
#define X(seconds) (int64_t)((seconds)*CLOCK_US_PER_S),
    SERIES_WAITS(X)
#undef X
};

void series_init(struct series *series)
{
    *series = (struct series){.arena = arena_make(ARENA_MAX)};
    mutex_init(&series->mutex);
}

void series_fini(struct series *series)
{
    mutex_fini(&series->mutex);
    arena_fini(&series->arena);
}

void series_add_wait(struct series *series, int64_t wait_us)
{
    size_t at = 0;
    wait_us = wait_us > 0 ? wait_us : 0;
    while (at < SERIES_WAIT_COUNT && wait_us > wait_bounds[at])
        at++;
    mutex_lock(&series->mutex);
    series->waits[at]++;
    series->waited_us += (uint64_t)wait_us;
    mutex_unlock(&series->mutex);
}

/* ---- lanes ---- */

struct show {
    struct series *series;
    const struct series_labels *labels;
};

/* The first one is SERIES_OTHER. */
static struct series_label *find_series_label(struct series *series, struct slice name)
{
    CHECK(series->n_labels > 0 && series->n_labels <= SERIES_LABELS_MAX + 1);
    for (size_t i = 0; i < series->n_labels; i++)
        if (slice_eq(series->labels[i].name, name))
            return &series->labels[i];
    struct slice kept =
        series->n_labels <= SERIES_LABELS_MAX ? arena_copy(&series->arena, name) : SLICE("");
    if (kept.len == 0)
        return &series->labels[0];
    series->labels[series->n_labels] = (struct series_label){.name = kept};
    return &series->labels[series->n_labels++];
}

static void show_lane(void *argument, struct slice kind, struct slice name,
                      enum lane_breaker breaker)
{
    const struct show *show = argument;
    struct slice found = show->labels->find(show->labels->argument, kind, name);
    struct series_label *label = find_series_label(show->series, found);
    label->open += breaker != LANE_CLOSED;
}

void series_show_lanes(struct series *series, const struct lanes *lanes,
                       const struct series_labels *labels, int64_t now)
{
    struct show show = {series, labels};
    mutex_lock(&series->mutex);
    arena_reset(&series->arena);
    series->labels[0] = (struct series_label){.name = SERIES_OTHER};
    series->n_labels = 1;
    lanes_visit(lanes, now, show_lane, &show);
    mutex_unlock(&series->mutex);
}

/* ---- the page ---- */

void series_write(struct series *series, struct buf *page)
{
    mutex_lock(&series->mutex);
    const struct page_histogram waits = {.n = SERIES_WAIT_COUNT,
                                         .bounds = wait_bounds,
                                         .buckets = series->waits,
                                         .sum = series->waited_us,
                                         .unit = CLOCK_US_PER_S};
    page_histogram(page, SERIES(TASK_WAIT), &waits);
    page_begin(page, SERIES(BREAKER_OPEN));
    for (size_t i = 0; i < series->n_labels; i++) {
        buf_printf(page, "%s{", SERIES(BREAKER_OPEN)->name);
        page_label(page, "lane", series->labels[i].name);
        buf_printf(page, "} %llu\n", (unsigned long long)series->labels[i].open);
    }
    mutex_unlock(&series->mutex);
}
