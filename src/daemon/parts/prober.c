/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the daemon that probes unknown records in the background. */
#include "prober/prober.h"
#include "base/check.h"
#include "base/mem.h"
#include "daemon/parts/parts.h"
#include "daemon/resolve.h"

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

static bool start(void **self, struct daemon *daemon, char **ret_problem)
{
    struct prober_settings settings;
    struct prober_config wanted = {.store = daemon->store,
                                   .engine = daemon->engine,
                                   .log = daemon->log,
                                   .metrics = daemon->metrics};
    CHECK(daemon->store && daemon->engine);
    if (fill_settings(daemon->config, -1, &settings, ret_problem))
        *self = prober_start(&wanted, &settings);
    http_upstream_drop(&settings.upstream);
    return *self;
}

static bool prepare(void *self, const struct daemon *daemon, const struct config *config,
                    char **ret_problem)
{
    struct prober_settings settings;
    bool prepared = fill_settings(config, daemon->signals, &settings, ret_problem) &&
                    prober_prepare(self, &settings);
    http_upstream_drop(&settings.upstream);
    return prepared;
}

const struct part prober_part = {
    .name = "prober",
    .is_wanted = config_has_gateway,
    .start = start,
    .prepare = prepare,
    .reload = part_reload_service,
    .drain = service_drain,
    .stop = service_stop,
    .free = service_free,
};
