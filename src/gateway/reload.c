/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A new plan for every loop, in two steps, so that no two loops begin operations by different rules
 * at one moment (a rule renamed with `formerly:` would have an operation twice):
 *
 *      hold    every loop holds requests back that are about to begin; main waits for all of them
 *      change  every loop takes its new plan and lets them go on, each judged anew
 */
#include "base/check.h"
#include "base/crash.h"
#include "gateway/events.h"
#include "gateway/gateway.h"

/* ---- on the loop's thread ---- */

static void report_switched(struct gateway *gateway)
{
    if (atomic_fetch_sub(&gateway->reloading, 1) == 1)
        parker_wake(&gateway->reloaded.parker);
}

static void hold_server(void *argument)
{
    struct server *server = argument;
    CHECK(!server->reload.held && server->reload.next);
    server->reload.held = true;
    report_switched(server->gateway);
}

static void change_server(void *argument)
{
    struct server *server = argument;
    struct plan *plan = server->reload.next;
    CHECK(server->reload.held && plan);
    plan_inherit(plan, server->plan);
    plan_replace(&server->plan, plan);
    plan_unref(plan);
    http_server_set_limits(server->gateway->http, (size_t)(server - server->gateway->servers),
                           &server->plan->settings.limits);
    server->reload.next = NULL;
    server->reload.held = false;
    report_switched(server->gateway);
}

/* ---- on the main thread ---- */

/* On every loop; returns when all have done it. */
static void run_on_all(struct gateway *gateway, void (*run)(void *))
{
    atomic_store(&gateway->reloading, gateway->n_servers);
    for (size_t i = 0; i < gateway->n_servers; i++) {
        struct server *server = &gateway->servers[i];
        server->reload.post = (struct loop_post){.run = run, .argument = server};
        loop_post(http_server_loop(gateway->http, i), &server->reload.post);
    }
    while (atomic_load(&gateway->reloading) > 0)
        gateway->reloaded.parker.park(&gateway->reloaded.parker, CLOCK_NEVER);
}

void gateway_forget(struct gateway *gateway)
{
    atomic_store(&gateway->prepared, false);
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
    atomic_store(&gateway->prepared, made);
    if (!made)
        gateway_forget(gateway);
    return made;
}

void gateway_reload(struct gateway *gateway)
{
    CHECK(gateway->servers[0].reload.next);
    rules_count_from_zero(&gateway->config, gateway->servers[0].reload.next->settings.rules);
    CRASH_POINT(before_reload);
    run_on_all(gateway, hold_server);
    CRASH_POINT(inside_reload);
    run_on_all(gateway, change_server);
    atomic_store(&gateway->prepared, false);
    CRASH_POINT(after_reload);
}
