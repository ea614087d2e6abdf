/* SPDX-License-Identifier: Apache-2.0 */
/* The admin listener. */
#include "admin/admin.h"
#include "base/check.h"
#include "config/webhook_values.h"
#include "daemon/daemon.h"
#include "daemon/parts/parts.h"
#include "daemon/resolve.h"
#include "webhook/service.h"
#include <errno.h>

struct admin_part {
    struct admin *admin;
};

static bool is_ready(const void *daemon, struct buf *why)
{
    return daemon_is_ready(daemon, why);
}

static void write_metrics(void *daemon, struct buf *page)
{
    daemon_write_metrics(daemon, page);
}

static void wake_courier(void *argument)
{
    webhook_service_wake(atomic_load(&((struct daemon *)argument)->webhooks));
}

static bool is_wanted(const struct config *config)
{
    return config->admin.host.len > 0;
}

static bool check(const struct config *config, char **ret_problem)
{
    struct sockaddr_storage address;
    return resolve_address(&config->admin, &address, ret_problem);
}

static bool start(void **self, struct daemon *daemon, char **ret_problem)
{
    struct admin_part *part = *self;
    const struct config *config = daemon->config;
    struct admin_config wanted = {
        .token = config->admin_token,
        .store = daemon->store,
        .metrics = daemon->metrics,
        .log = daemon->log,
        .log_keys_hashed = config->gateway.log_keys_hashed,
        .read_endpoint = config_read_endpoint,
        .is_ready = is_ready,
        .write_metrics = write_metrics,
        .published = wake_courier,
        .argument = daemon,
    };
    int error = 0;
    CHECK(daemon->store);
    if (!resolve_address(&config->admin, &wanted.listen, ret_problem))
        return false;
    part->admin = admin_start(&wanted, &error);
    if (!part->admin)
        *ret_problem = listen_problem(
            "admin", &config->admin, error,
            "an address off loopback needs `admin_token:`, and a port below 1024 needs privileges");
    return part->admin;
}

static void reload(void *self, const struct config *config)
{
    struct admin_part *part = self;
    if (config)
        admin_set_log_keys(part->admin, config->gateway.log_keys_hashed);
}

static void stop(void *self)
{
    admin_stop(((struct admin_part *)self)->admin);
}

static void free_admin(void *self)
{
    admin_free(((struct admin_part *)self)->admin);
}

const struct part admin_part = {
    .name = "admin",
    .size = sizeof(struct admin_part),
    .is_wanted = is_wanted,
    .check = check,
    .start = start,
    .reload = reload,
    .stop = stop,
    .free = free_admin,
};
