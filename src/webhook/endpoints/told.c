/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/endpoints/told.h"

#include "base/check.h"
#include "courier/series.h"
#include "observe/page.h"

#define ARENA_MAX ((size_t)1024 * 1024)

static const struct {
    enum task_state state;
    const char *name;
} results[TOLD_RESULTS] = {
    {TASK_DONE, "done"},
    {TASK_WAITING, "failed"},
    {TASK_DEAD, "dead"},
};

void told_init(struct told *told)
{
    *told = (struct told){.n = 1, .arena = arena_make(ARENA_MAX)};
    told->endpoints[0].name = SERIES_OTHER;
    mutex_init(&told->mutex);
}

void told_fini(struct told *told)
{
    mutex_fini(&told->mutex);
    arena_fini(&told->arena);
}

struct slice told_name(const struct webhook_target *target)
{
    if (!target)
        return SERIES_OTHER;
    const struct webhook_endpoint *endpoint = target->endpoint;
    return target->is_stored ? SLICE("stored")
           : endpoint->heir  ? endpoint->heir->name
                             : endpoint->name;
}

/* Under the mutex. The first one is SERIES_OTHER. */
static struct told_endpoint *find_told(struct told *told, struct slice name)
{
    CHECK(told->n > 0 && told->n <= TOLD_MOST + 1);
    for (size_t i = 0; i < told->n; i++)
        if (slice_eq(told->endpoints[i].name, name))
            return &told->endpoints[i];
    struct slice kept = told->n <= TOLD_MOST ? arena_copy(&told->arena, name) : SLICE("");
    if (kept.len == 0)
        return &told->endpoints[0];
    told->endpoints[told->n] = (struct told_endpoint){.name = kept};
    return &told->endpoints[told->n++];
}

void told_show(struct told *told, const struct roster *roster)
{
    mutex_lock(&told->mutex);
    for (size_t i = 0; i < roster->n; i++)
        (void)find_told(told, told_name(&roster->targets[i]));
    mutex_unlock(&told->mutex);
}

void told_count(struct told *told, const struct webhook_target *target, enum task_state state)
{
    mutex_lock(&told->mutex);
    struct told_endpoint *endpoint = find_told(told, told_name(target));
    for (size_t i = 0; i < TOLD_RESULTS; i++)
        endpoint->n[i] += results[i].state == state;
    mutex_unlock(&told->mutex);
}

void told_write(struct told *told, struct buf *page)
{
    const struct page_series *series = SERIES(WEBHOOK_DELIVERIES);
    mutex_lock(&told->mutex);
    page_begin(page, series);
    for (size_t i = 0; i < told->n; i++)
        for (size_t result = 0; result < TOLD_RESULTS; result++) {
            buf_printf(page, "%s{", series->name);
            page_label(page, "endpoint", told->endpoints[i].name);
            buf_printf(page, ",result=\"%s\"} %llu\n", results[result].name,
                       (unsigned long long)told->endpoints[i].n[result]);
        }
    mutex_unlock(&told->mutex);
}
