/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the daemon that delivers events (webhook/service.h). What `pawl queue` keeps is sent
 * by its own command alone. */
#include "daemon/parts/parts.h"
#include "webhook/service.h"

struct courier_part {
    struct webhook_service *service;
};

static struct webhook_wanted wanted_by(const struct config *config)
{
    return (struct webhook_wanted){.webhooks = config->webhooks,
                                   .rules = config->gateway.rules,
                                   .connect_timeout_us = config->gateway.connect_timeout_us};
}

static bool start(void *self, struct daemon *daemon, char **ret_problem)
{
    struct courier_part *part = self;
    const struct webhook_wanted wanted = wanted_by(daemon->config);
    (void)ret_problem;
    part->service = webhook_service_start(daemon->store, &wanted);
    daemon->webhooks = part->service;
    return part->service;
}

static bool prepare(void *self, const struct config *config, char **ret_problem)
{
    const struct webhook_wanted wanted = wanted_by(config);
    (void)ret_problem;
    return webhook_service_prepare(((struct courier_part *)self)->service, &wanted);
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
