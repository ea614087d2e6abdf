/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the daemon that probes unknown records in the background. */
#include "operator/prober.h"
#include "base/mem.h"
#include "daemon/parts/parts.h"
#include "daemon/resolve.h"

struct prober_part {
    struct daemon *daemon;
    struct prober *prober;
};

static bool fill_settings(const struct config *config, int stop_fd,
                          struct prober_settings *ret_settings, char **ret_problem)
{
    *ret_settings = (struct prober_settings){
        .rules = config->gateway.rules,
        .host = config->upstream,
        .connect_timeout_us = config->gateway.connect_timeout_us,
        .log_keys_hashed = config->gateway.log_keys_hashed,
    };
    return !prober_is_wanted(ret_settings->rules) ||
           resolve_upstream(config, stop_fd, &ret_settings->upstream, ret_problem);
}

static bool start(void *self, struct daemon *daemon, char **ret_problem)
{
    struct prober_part *part = self;
    struct prober_settings settings;
    struct prober_config wanted = {.store = daemon->store,
                                   .engine = daemon->engine,
                                   .log = daemon->log,
                                   .metrics = daemon->metrics};
    part->daemon = daemon;
    if (fill_settings(daemon->config, -1, &settings, ret_problem))
        part->prober = prober_start(&wanted, &settings);
    http_upstream_drop(&settings.upstream);
    return part->prober;
}

static bool prepare(void *self, const struct config *config, char **ret_problem)
{
    struct prober_part *part = self;
    struct prober_settings settings;
    bool prepared = fill_settings(config, part->daemon->signals, &settings, ret_problem) &&
                    prober_prepare(part->prober, &settings);
    http_upstream_drop(&settings.upstream);
    return prepared;
}

static void reload(void *self, const struct config *config)
{
    prober_reload(((struct prober_part *)self)->prober, config);
}

static int drain(void *self)
{
    return prober_drain(((struct prober_part *)self)->prober);
}

static void stop(void *self)
{
    prober_stop(((struct prober_part *)self)->prober);
}

static void free_prober(void *self)
{
    prober_free(((struct prober_part *)self)->prober);
}

const struct part prober_part = {
    .name = "prober",
    .size = sizeof(struct prober_part),
    .is_wanted = config_has_gateway,
    .start = start,
    .prepare = prepare,
    .reload = reload,
    .drain = drain,
    .stop = stop,
    .free = free_prober,
};
