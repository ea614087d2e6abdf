/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/reload.h"

#include "base/check.h"
#include "base/crash.h"
#include "gateway/events.h"
#include <time.h>

#define STEP_NS 500000L /* between two of main's looks at the loops */
#define HELD_US                                                                                    \
    (INT64_C(1) * CLOCK_US_PER_MS) /* between two looks of a request that is held back */

/* ---- on the loop's thread ---- */

static void hold_server(void *argument)
{
    struct server *server = argument;
    server->reload.held = true;
    atomic_store(&server->reload.done, true);
}

static void change_server(void *argument)
{
    struct server *server = argument;
    struct plan *plan = server->reload.next;
    plan_inherit(plan, server->plan);
    plan_replace(&server->plan, plan);
    plan_unref(plan);
    http_server_set_limits(server->gateway->http, (size_t)(server - server->gateway->servers),
                           &server->plan->settings.limits);
    server->reload.next = NULL;
    server->reload.held = false;
    atomic_store(&server->reload.done, true);
}

void reload_wait(const struct server *server)
{
    while (server->reload.held)
        fiber_sleep_until(clock_boot_us() + HELD_US);
}

void reload_init(struct server *server)
{
    server->reload.hold = (struct loop_post){.run = hold_server, .argument = server};
    server->reload.change = (struct loop_post){.run = change_server, .argument = server};
}

/* ---- on the main thread ---- */

static void post(struct gateway *gateway, size_t i, struct loop_post *what)
{
    atomic_store(&gateway->servers[i].reload.done, false);
    loop_post(http_server_loop(gateway->http, i), what);
}

static void wait_for(const struct gateway *gateway)
{
    for (size_t i = 0; i < gateway->n_servers; i++)
        while (!atomic_load(&gateway->servers[i].reload.done))
            nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
}

void gateway_forget(struct gateway *gateway)
{
    for (size_t i = 0; i < gateway->n_servers; i++) {
        plan_unref(gateway->servers[i].reload.next);
        gateway->servers[i].reload.next = NULL;
    }
}

bool gateway_prepare(struct gateway *gateway, const struct gateway_settings *settings,
                     const struct http_upstream *upstream)
{
    CHECK(!http_server_is_draining(gateway->http));
    bool made = true;
    for (size_t i = 0; i < gateway->n_servers && made; i++) {
        struct reload *reload = &gateway->servers[i].reload;
        CHECK(!reload->next);
        reload->next = plan_new(settings, upstream);
        made = reload->next;
    }
    if (!made)
        gateway_forget(gateway);
    return made;
}

void gateway_reload(struct gateway *gateway)
{
    CHECK(gateway->servers[0].reload.next);
    rules_count_from_zero(&gateway->config, gateway->servers[0].reload.next->settings.rules);
    CRASH_POINT(before_reload);
    for (size_t i = 0; i < gateway->n_servers; i++)
        post(gateway, i, &gateway->servers[i].reload.hold);
    wait_for(gateway);
    CRASH_POINT(inside_reload);
    for (size_t i = 0; i < gateway->n_servers; i++)
        post(gateway, i, &gateway->servers[i].reload.change);
    wait_for(gateway);
    CRASH_POINT(after_reload);
}
