/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the daemon that delivers events, and has received ones handled (webhook/service.h).
 * What `pawl queue` keeps is sent by its own command alone. */
#include "daemon/parts/parts.h"
#include "daemon/resolve.h"
#include "webhook/service.h"

struct courier_part {
    struct daemon *daemon;
    struct webhook_service *service;
};

static bool needs_upstream(const struct inbox_settings *inbox)
{
    for (size_t i = 0; i < inbox->n_sources; i++)
        if (inbox->sources[i].at_upstream)
            return true;
    return false;
}

/* To be dropped (http_upstream_drop) whatever the result. */
static bool fill(const struct config *config, int stop_fd, struct webhook_wanted *ret_wanted,
                 char **ret_problem)
{
    *ret_wanted = (struct webhook_wanted){.webhooks = config->webhooks,
                                          .inbox = config->inbox,
                                          .rules = config->gateway.rules,
                                          .connect_timeout_us = config->gateway.connect_timeout_us};
    return !needs_upstream(&config->inbox) ||
           resolve_upstream(config, stop_fd, &ret_wanted->upstream, ret_problem);
}

static bool start(void *self, struct daemon *daemon, char **ret_problem)
{
    struct courier_part *part = self;
    struct webhook_wanted wanted;
    part->daemon = daemon;
    if (fill(daemon->config, -1, &wanted, ret_problem))
        part->service = webhook_service_start(daemon->store, &wanted);
    http_upstream_drop(&wanted.upstream);
    atomic_store(&daemon->webhooks, part->service);
    return part->service;
}

static bool prepare(void *self, const struct config *config, char **ret_problem)
{
    struct courier_part *part = self;
    struct webhook_wanted wanted;
    bool prepared = fill(config, part->daemon->signals, &wanted, ret_problem) &&
                    webhook_service_prepare(part->service, &wanted);
    http_upstream_drop(&wanted.upstream);
    return prepared;
}

static void reload(void *self, const struct config *config)
{
    webhook_service_reload(((struct courier_part *)self)->service, config);
}

static void write_metrics(void *self, struct buf *page)
{
    webhook_service_write_series(((struct courier_part *)self)->service, page);
}

static int drain(void *self)
{
    return webhook_service_drain(((struct courier_part *)self)->service);
}

static void stop(void *self)
{
    webhook_service_stop(((struct courier_part *)self)->service);
}

static void free_courier(void *self)
{
    webhook_service_free(((struct courier_part *)self)->service);
}

const struct part courier_part = {
    .name = "courier",
    .size = sizeof(struct courier_part),
    .start = start,
    .prepare = prepare,
    .reload = reload,
    .metrics = write_metrics,
    .drain = drain,
    .stop = stop,
    .free = free_courier,
};
