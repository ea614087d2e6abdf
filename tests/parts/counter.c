/* SPDX-License-Identifier: Apache-2.0 */
/*
 * counter: a part that counts at a rhythm, the least that one has to do which has something of
 * everything: a section of the config, readiness, a series, what it refuses, and an end.
 *
 *      counter: {every: 10s, ready_at: 1}
 */
#include "config/reader.h"
#include "daemon/part.h"

#define MS CLOCK_US_PER_MS
#define TOO_OFTEN_US (10 * MS) /* no section can say so: a part refuses what its values mean */

struct counter_settings {
    int64_t every_us;
    size_t ready_at;
};

static const struct option members[] = {
    CONFIG_MEMBER(every, counter_settings, every_us, duration, MS, CLOCK_NEVER, "10s",
                  "its rhythm"),
    CONFIG_MEMBER(ready_at, counter_settings, ready_at, count, 0, 100, "0", "the least it counts"),
};

static const struct option section = {
    .name = SLICE("counter"),
    .where = OPTION_TOP,
    .fallback = "(every 10s)",
    .help = "a part that counts",
    .members = members,
    .n_members = sizeof members / sizeof *members,
    .size = sizeof(struct counter_settings),
};

struct counter {
    struct daemon *daemon;
    atomic_size_t count;
    atomic_size_t ready_at;
    int64_t every_us;
    int64_t last_us;
};

static bool check(const struct config *config, char **ret_problem)
{
    const struct counter_settings *settings = config_section(config, &section);
    struct buf text = buf_make(256);
    if (settings->every_us > TOO_OFTEN_US)
        return true;
    buf_add_str(&text, "counter: counts too often");
    *ret_problem = buf_take(&text);
    return false;
}

static bool prepare(void *self, const struct daemon *daemon, const struct config *config,
                    char **ret_problem)
{
    (void)self;
    (void)daemon;
    return check(config, ret_problem);
}

static void reload(void *self, const struct config *config)
{
    struct counter *counter = self;
    if (!config)
        return;
    const struct counter_settings *settings = config_section(config, &section);
    counter->every_us = settings->every_us;
    atomic_store(&counter->ready_at, settings->ready_at);
}

static bool start(void **self, struct daemon *daemon, char **ret_problem)
{
    struct counter *counter = *self;
    counter->daemon = daemon;
    counter->last_us = clock_boot_us();
    if (!check(daemon->config, ret_problem))
        return false;
    reload(counter, daemon->config);
    return true;
}

static void watch(void *self)
{
    struct counter *counter = self;
    for (; clock_boot_us() - counter->last_us >= counter->every_us; counter->count++)
        counter->last_us += counter->every_us;
}

static bool is_ready(void *self, struct buf *why)
{
    struct counter *counter = self;
    if (counter->count >= counter->ready_at)
        return true;
    buf_add_str(why, "the counter has not counted far enough");
    return false;
}

static void write_metrics(void *self, struct buf *page)
{
    static const struct page_series counted = {"counter_counted_total", "counter", "Its count."};
    page_value(page, &counted, (double)((struct counter *)self)->count);
}

static void stop(void *self)
{
    struct counter *counter = self;
    struct log_line line;
    log_line_start(&line, LOG_LEVEL_INFO, "counter_stopped");
    log_line_i64(&line, "count", (int64_t)counter->count);
    log_line_end(counter->daemon->log, &line);
}

const struct part counter_part = {
    .name = "counter",
    .section = &section,
    .size = sizeof(struct counter),
    .check = check,
    .start = start,
    .prepare = prepare,
    .reload = reload,
    .watch = watch,
    .ready = is_ready,
    .metrics = write_metrics,
    .stop = stop,
};
