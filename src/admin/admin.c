/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/admin_priv.h"
#include "base/check.h"
#include "base/mem.h"
#include <errno.h>

#define HEAD_US (5 * CLOCK_US_PER_S)
#define LONG_US (30 * CLOCK_US_PER_S) /* all else; two scrapes of a minute open two connections */

static int listen_for_operators(struct admin *admin)
{
    struct http_server_config config = {
        .service = &admin_service,
        .address = admin->config.listen,
        .name = "pawl-admin",
        .limits = {.idle_us = LONG_US,
                   .headers_us = HEAD_US,
                   .body_us = LONG_US,
                   .write_us = LONG_US},
        .loops = 1,
        .max_connections = ADMIN_CONNECTIONS_MAX,
        .cut_busy = true, /* a crowd must not keep out the health check */
        .data = admin,
    };
    int failed = 0;
    admin->http = http_server_start(&config, &failed);
    return failed;
}

struct admin *admin_start(const struct admin_config *config, int *ret_error)
{
    CHECK(config->store && config->token.len <= ADMIN_TOKEN_MAX);
    *ret_error = -EACCES;
    if (config->token.len == 0 && !address_is_loopback(&config->listen))
        return NULL;
    *ret_error = -ENOMEM;
    struct admin *admin = mem_zalloc(1, sizeof *admin);
    if (!admin)
        return NULL;
    admin->config = *config;
    if (config->token.len > 0)
        memcpy(admin->token, config->token.at, config->token.len);
    admin->config.token = slice_make(admin->token, config->token.len);
    atomic_store(&admin->log_keys_hashed, config->log_keys_hashed);
    *ret_error = listen_for_operators(admin);
    if (*ret_error == 0)
        return admin;
    mem_free(admin);
    return NULL;
}

void admin_set_log_keys(struct admin *admin, bool hashed)
{
    atomic_store(&admin->log_keys_hashed, hashed);
}

void admin_stop(struct admin *admin)
{
    if (!admin)
        return;
    http_server_cut(admin->http);
    (void)http_server_wait(admin->http, CLOCK_NEVER);
}

void admin_free(struct admin *admin)
{
    if (!admin)
        return;
    http_server_free(admin->http);
    mem_free(admin);
}
