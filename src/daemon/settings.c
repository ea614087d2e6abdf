/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/settings.h"

#include "daemon/resolve.h"
#include <unistd.h>

struct store_limits limits_of(const struct config *config)
{
    return (struct store_limits){
        .max_waiting = config->max_waiting,
        .max_waiting_per_key = config->max_waiting_per_key,
        .timeout_us = config->store_timeout_us,
        .disk_reserve = config->disk_reserve,
    };
}

size_t loop_threads(const struct config *config)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (config->threads > 0)
        return config->threads;
    return cores > 0 ? (size_t)cores : 1;
}

bool settings_of(const struct config *config, int stop_fd, struct gateway_settings *ret_settings,
                 char **ret_problem)
{
    struct gateway_settings settings = {
        .rules = config->rules,
        .limits =
            {
                .max_per_address = config->max_per_address,
                .idle_us = config->idle_timeout_us,
                .head_us = config->head_timeout_us,
                .body_us = config->body_timeout_us,
                .write_us = config->write_timeout_us,
            },
        .max_in_flight = config->max_in_flight,
        .max_in_flight_per_tenant = config->max_per_tenant,
        .max_buffered = config->max_buffered,
        .read_timeout_us = config->read_timeout_us,
        .connect_timeout_us = config->connect_timeout_us,
        .upstream_idle_us = config->upstream_idle_us,
        .retry_after_us = config->retry_after_us,
        .unmatched_refuse = config->unmatched_refuse,
        .log_keys_hashed = config->log_keys_hashed,
        .policy_off = config->policy_off,
        .trust_forwarded = config->trust_forwarded,
        .cors = config->cors,
        .public_url = config->public_url,
    };
    if (!resolve_upstream(&config->upstream, stop_fd, &settings.upstream, ret_problem))
        return false;
    *ret_settings = settings;
    return true;
}
