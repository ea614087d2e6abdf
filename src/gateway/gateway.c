/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/gateway.h"

#include "base/check.h"
#include "base/compress/container.h"
#include "base/mem.h"
#include "gateway/events.h"
#include <errno.h>
#include <stdio.h>

/* From the store's secret, not by chance: another process of the same store must have the same. */
static void name_self(struct gateway *gateway)
{
    struct slice purpose = SLICE("via");
    struct digest digest = digest_keyed(store_digest_key(gateway->config.store), &purpose, 1);
    char hex[DIGEST_HEX_SIZE + 1];
    hex_encode(digest.bytes, DIGEST_SIZE, hex);
    snprintf(gateway->via, sizeof gateway->via, "pawl-%.8s", hex);
}

static bool init_server(struct gateway *gateway, struct server *server,
                        const struct gateway_settings *settings,
                        const struct http_upstream *upstream)
{
    server->gateway = gateway;
    server->config = &gateway->config;
    server->shared = &gateway->shared;
    server->plan = plan_new(settings, upstream);
    return server->plan;
}

static int listen_for_clients(struct gateway *gateway, const struct gateway_settings *settings)
{
    struct http_server_config config = {
        .service = &client_service,
        .address = gateway->config.listen,
        .name = "pawl-loop",
        .limits = settings->limits,
        .loops = gateway->n_servers,
        .max_connections = settings->max_connections,
        .data = gateway->servers,
        .data_size = sizeof gateway->servers[0],
    };
    int failed = 0;
    gateway->http = http_server_start(&config, &failed);
    return failed;
}

size_t gateway_loops(const struct gateway_settings *settings)
{
    return settings->threads > 0 ? settings->threads : container_read().processors;
}

struct gateway *gateway_start(const struct gateway_config *config,
                              const struct gateway_settings *settings,
                              const struct http_upstream *upstream, int *ret_error)
{
    size_t loops = gateway_loops(settings);
    struct gateway *gateway = mem_zalloc(1, sizeof *gateway + loops * sizeof gateway->servers[0]);
    *ret_error = -ENOMEM;
    if (!gateway)
        return NULL;
    gateway->config = *config;
    CHECK(loops > 0 && config->store && config->engine && config->metrics && config->workers);
    gateway->n_servers = loops;
    thread_parker_init(&gateway->reloaded);
    mutex_init(&gateway->shared.retrying);
    gateway->shared.budget = retry_budget_make(clock_boot_us());
    name_self(gateway);
    rules_count_from_zero(config, settings->rules);
    gateway->shared.tenants = peers_new(settings->max_in_flight);
    int failed = gateway->shared.tenants ? 0 : -ENOMEM;
    for (size_t i = 0; i < loops && failed == 0; i++)
        failed = init_server(gateway, &gateway->servers[i], settings, upstream) ? 0 : -ENOMEM;
    if (failed == 0)
        failed = listen_for_clients(gateway, settings);
    if (failed == 0)
        return gateway;
    gateway_free(gateway);
    *ret_error = failed;
    return NULL;
}

struct gateway_load gateway_load(const struct gateway *gateway)
{
    const struct gateway_shared *shared = &gateway->shared;
    return (struct gateway_load){
        .connections = http_server_connections(gateway->http),
        .in_flight = atomic_load(&shared->in_flight),
        .buffered = atomic_load(&shared->buffered),
    };
}

int gateway_drain(struct gateway *gateway)
{
    http_server_drain(gateway->http);
    return http_server_ended(gateway->http);
}

void gateway_stop(struct gateway *gateway)
{
    http_server_drain(gateway->http);
    (void)http_server_wait(gateway->http, CLOCK_NEVER);
}

void gateway_free(struct gateway *gateway)
{
    for (size_t i = 0; i < gateway->n_servers; i++) {
        plan_unref(gateway->servers[i].plan);
        compress_fini(&gateway->servers[i].compress);
    }
    http_server_free(gateway->http);
    thread_parker_fini(&gateway->reloaded);
    peers_free(gateway->shared.tenants);
    mutex_fini(&gateway->shared.retrying);
    mem_free(gateway);
}
