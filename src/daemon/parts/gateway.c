/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the daemon that starts, reloads and stops the gateway. */
#include "gateway/gateway.h"
#include "base/mem.h"
#include "daemon/parts/parts.h"
#include "daemon/resolve.h"
#include "webhook/service.h"

#define TRIM_LEAST ((uint64_t)8 * 1024 * 1024) /* bytes of bodies whose memory is given back */

struct gateway_part {
    struct daemon *daemon;
    struct gateway *gateway;
    uint64_t most_held; /* bytes of bodies, since memory was last given back */
};

/* Before the courier has started it looks for itself. */
static void event_came(void *argument)
{
    struct webhook_service *webhooks = atomic_load(&((struct daemon *)argument)->webhooks);
    if (webhooks)
        webhook_service_wake(webhooks);
}

static bool check(const struct config *config, char **ret_problem)
{
    struct http_upstream upstream HTTP_UPSTREAM_AUTO = {0};
    struct sockaddr_storage address;
    return resolve_address(&config->listen, &address, ret_problem) &&
           resolve_upstream(config, -1, &upstream, ret_problem);
}

static bool start(void *self, struct daemon *daemon, char **ret_problem)
{
    struct gateway_part *part = self;
    const struct config *config = daemon->config;
    struct http_upstream upstream HTTP_UPSTREAM_AUTO = {0};
    struct gateway_config wanted = {
        .store = daemon->store,
        .engine = daemon->engine,
        .log = daemon->log,
        .metrics = daemon->metrics,
        .workers = daemon->workers,
        .has_events = event_came,
        .argument = daemon,
    };
    int error = 0;
    if (!resolve_address(&config->listen, &wanted.listen, ret_problem) ||
        !resolve_upstream(config, -1, &upstream, ret_problem))
        return false;
    part->daemon = daemon;
    part->gateway = gateway_start(&wanted, &config->gateway, &upstream, &error);
    if (!part->gateway)
        *ret_problem = listen_problem("listen", &config->listen, error, NULL);
    return part->gateway;
}

static bool prepare(void *self, const struct config *config, char **ret_problem)
{
    struct gateway_part *part = self;
    struct http_upstream upstream HTTP_UPSTREAM_AUTO = {0};
    return resolve_upstream(config, part->daemon->signals, &upstream, ret_problem) &&
           gateway_prepare(part->gateway, &config->gateway, &upstream);
}

static void reload(void *self, const struct config *config)
{
    struct gateway_part *part = self;
    if (config)
        gateway_reload(part->gateway);
    else
        gateway_forget(part->gateway);
}

/* Memory of released bodies goes back to the system: the allocator keeps what lies between
 * blocks that live. */
static void give_memory_back(void *self)
{
    struct gateway_part *part = self;
    uint64_t held = gateway_load(part->gateway).buffered;
    if (held > part->most_held)
        part->most_held = held;
    if (part->most_held < TRIM_LEAST || held > part->most_held / 8)
        return;
    part->most_held = 0;
    mem_trim();
}

static void write_metrics(void *self, struct buf *page)
{
    struct gateway_load load = gateway_load(((struct gateway_part *)self)->gateway);
    page_value(page, SERIES(IN_FLIGHT), (double)load.in_flight);
    page_value(page, SERIES(CONNECTIONS), (double)load.connections);
    page_value(page, SERIES(BUFFERED), (double)load.buffered);
}

static int drain(void *self)
{
    return gateway_drain(((struct gateway_part *)self)->gateway);
}

static void stop(void *self)
{
    gateway_stop(((struct gateway_part *)self)->gateway);
}

static void free_gateway(void *self)
{
    gateway_free(((struct gateway_part *)self)->gateway);
}

const struct part gateway_part = {
    .name = "gateway",
    .size = sizeof(struct gateway_part),
    .is_wanted = config_has_gateway,
    .check = check,
    .start = start,
    .prepare = prepare,
    .reload = reload,
    .watch = give_memory_back,
    .metrics = write_metrics,
    .drain = drain,
    .stop = stop,
    .free = free_gateway,
};
