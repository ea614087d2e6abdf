/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/endpoints/delivery_counts.h"

#include "base/check.h"
#include "courier/series.h"
#include "observe/page.h"

#define ARENA_MAX ((size_t)1024 * 1024)

static const struct {
    enum task_state state;
    const char *name;
} results[DELIVERY_COUNTS_RESULTS] = {
    {TASK_DONE, "done"},
    {TASK_WAITING, "failed"},
    {TASK_DEAD, "dead"},
};

void delivery_counts_init(struct delivery_counts *counts)
{
    *counts = (struct delivery_counts){.n = 1, .arena = arena_make(ARENA_MAX)};
    counts->endpoints[0].name = SERIES_OTHER;
    mutex_init(&counts->mutex);
}

void delivery_counts_fini(struct delivery_counts *counts)
{
    mutex_fini(&counts->mutex);
    arena_fini(&counts->arena);
}

struct slice delivery_counts_name(const struct webhook_target *target)
{
    if (!target)
        return SERIES_OTHER;
    const struct webhook_endpoint *endpoint = target->endpoint;
    return target->is_stored ? SLICE("stored")
           : endpoint->heir  ? endpoint->heir->name
                             : endpoint->name;
}

/* Under the mutex. The first one is SERIES_OTHER. */
static struct endpoint_counts *find_endpoint_counts(struct delivery_counts *counts,
                                                    struct slice name)
{
    CHECK(counts->n > 0 && counts->n <= DELIVERY_COUNTS_MOST + 1);
    for (size_t i = 0; i < counts->n; i++)
        if (slice_eq(counts->endpoints[i].name, name))
            return &counts->endpoints[i];
    struct slice kept =
        counts->n <= DELIVERY_COUNTS_MOST ? arena_copy(&counts->arena, name) : SLICE("");
    if (kept.len == 0)
        return &counts->endpoints[0];
    counts->endpoints[counts->n] = (struct endpoint_counts){.name = kept};
    return &counts->endpoints[counts->n++];
}

void delivery_counts_show(struct delivery_counts *counts, const struct roster *roster)
{
    mutex_lock(&counts->mutex);
    for (size_t i = 0; i < roster->n; i++)
        (void)find_endpoint_counts(counts, delivery_counts_name(&roster->targets[i]));
    mutex_unlock(&counts->mutex);
}

void delivery_counts_add(struct delivery_counts *counts, const struct webhook_target *target,
                         enum task_state state)
{
    mutex_lock(&counts->mutex);
    struct endpoint_counts *endpoint = find_endpoint_counts(counts, delivery_counts_name(target));
    for (size_t i = 0; i < DELIVERY_COUNTS_RESULTS; i++)
        endpoint->n[i] += results[i].state == state;
    mutex_unlock(&counts->mutex);
}

void delivery_counts_write(struct delivery_counts *counts, struct buf *page)
{
    const struct page_series *series = SERIES(WEBHOOK_DELIVERIES);
    mutex_lock(&counts->mutex);
    page_begin(page, series);
    for (size_t i = 0; i < counts->n; i++)
        for (size_t result = 0; result < DELIVERY_COUNTS_RESULTS; result++) {
            buf_printf(page, "%s{", series->name);
            page_label(page, "endpoint", counts->endpoints[i].name);
            buf_printf(page, ",result=\"%s\"} %llu\n", results[result].name,
                       (unsigned long long)counts->endpoints[i].n[result]);
        }
    mutex_unlock(&counts->mutex);
}
