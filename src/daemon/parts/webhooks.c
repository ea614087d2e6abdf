/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the daemon that delivers events, and has received ones handled (webhook/service.h).
 * What `pawl queue` keeps is sent by its own command alone. */
#include "base/check.h"
#include "base/thread.h"
#include "config/webhook_values.h"
#include "daemon/parts/parts.h"
#include "daemon/resolve.h"
#include "webhook/service.h"

#define ARENA_MAX ((size_t)64 * 1024 * 1024)
#define PROBLEM_MAX ((size_t)1024)

static bool needs_upstream(const struct inbox_settings *inbox)
{
    for (size_t i = 0; i < inbox->n_sources; i++)
        if (inbox->sources[i].at_upstream)
            return true;
    return false;
}

/* To be dropped (http_upstream_drop) whatever the result. */
static bool fill_wanted(const struct config *config, int stop_fd, struct webhook_wanted *ret_wanted,
                        char **ret_problem)
{
    *ret_wanted = (struct webhook_wanted){.webhooks = config->webhooks,
                                          .inbox = config->inbox,
                                          .rules = config->gateway.rules,
                                          .read = config_read_endpoint,
                                          .connect_timeout_us = config->gateway.connect_timeout_us,
                                          .roster_gone_us = config->roster_gone_us};
    return !needs_upstream(&config->inbox) ||
           resolve_upstream(config, stop_fd, &ret_wanted->upstream, ret_problem);
}

/* What ends no delivery that waits comes first. */
static void add_conflict(struct buf *problem, const struct webhook_endpoint *both)
{
    struct slice name = both->name;
    if (both->heir)
        buf_printf(problem,
                   "webhooks: `formerly` of %.*s names %.*s, which is an endpoint of the store and "
                   "not of a config: what waits for it stays its own (take it out of `formerly`; "
                   "once nothing waits for it, `pawl webhook endpoint remove %.*s`)",
                   SLICE_ARG(both->heir->name), SLICE_ARG(name), SLICE_ARG(name));
    else
        buf_printf(problem,
                   "webhooks: the store has an endpoint %.*s, too (give this one another name; or "
                   "remove that one, which ends what waits for it: `pawl webhook endpoint remove "
                   "%.*s`)",
                   SLICE_ARG(name), SLICE_ARG(name));
}

/* A name is one endpoint's: of the config, or of the store. */
static bool check_names(const struct daemon *daemon, const struct config *config,
                        char **ret_problem)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct thread_parker own;
    struct registry registry;
    if (config->webhooks.n_endpoints == 0)
        return true;
    thread_parker_init(&own);
    enum store_status status = registry_read(daemon->store, &own.parker, &arena, &registry);
    thread_parker_fini(&own);
    struct buf problem = buf_make(PROBLEM_MAX);
    const struct webhook_endpoint *both =
        status == STORE_DONE ? registry_conflict(&registry, &config->webhooks) : NULL;
    if (status == STORE_DONE && !both)
        return true;
    if (both)
        add_conflict(&problem, both);
    else
        buf_add_str(&problem, "webhooks: the store does not say which endpoints it has");
    *ret_problem = buf_take(&problem);
    return false;
}

static bool start(void **self, struct daemon *daemon, char **ret_problem)
{
    struct webhook_wanted wanted = {0};
    CHECK(daemon->store && !atomic_load(&daemon->webhooks));
    if (check_names(daemon, daemon->config, ret_problem) &&
        fill_wanted(daemon->config, -1, &wanted, ret_problem))
        *self = webhook_service_start(daemon->store, daemon->log, &wanted);
    http_upstream_drop(&wanted.upstream);
    atomic_store(&daemon->webhooks, *self);
    return *self;
}

static bool prepare(void *self, const struct daemon *daemon, const struct config *config,
                    char **ret_problem)
{
    struct webhook_wanted wanted;
    if (!check_names(daemon, config, ret_problem))
        return false;
    bool prepared = fill_wanted(config, daemon->signals, &wanted, ret_problem) &&
                    webhook_service_prepare(self, &wanted);
    http_upstream_drop(&wanted.upstream);
    return prepared;
}

static void write_metrics(void *self, struct buf *page)
{
    webhook_service_write_series(self, page);
}

const struct part webhooks_part = {
    .name = "webhooks",
    .start = start,
    .prepare = prepare,
    .reload = part_reload_service,
    .metrics = write_metrics,
    .drain = service_drain,
    .stop = service_stop,
    .free = service_free,
};
