/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/places.h"

#include "base/check.h"
#include <sys/socket.h>

#define LEAVING_US (INT64_C(1) * CLOCK_US_PER_MS) /* between two looks at those who leave */
#define LOOKS_MAX 20                              /* for a place that another loop makes */

static void link_newest(struct client *client)
{
    struct idle_list *idle = &client->server->idle;
    client->idle_listed = true;
    client->idle_newer = NULL;
    client->idle_older = idle->newest;
    *(idle->newest ? &idle->newest->idle_newer : &idle->oldest) = client;
    idle->newest = client;
}

void places_idle(struct client *client)
{
    if (client->idle_listed || client->leaving)
        return;
    link_newest(client);
    atomic_fetch_add(&client->server->idle.n, 1);
}

static void unlink_idle(struct client *client)
{
    struct idle_list *idle = &client->server->idle;
    CHECK(client->idle_listed);
    client->idle_listed = false;
    *(client->idle_newer ? &client->idle_newer->idle_older : &idle->newest) = client->idle_older;
    *(client->idle_older ? &client->idle_older->idle_newer : &idle->oldest) = client->idle_newer;
}

static void take_out(struct client *client)
{
    unlink_idle(client);
    atomic_fetch_sub(&client->server->idle.n, 1);
}

void places_newest(struct client *client)
{
    if (!client->idle_listed)
        return;
    unlink_idle(client);
    link_newest(client);
}

void places_busy(struct client *client, bool came)
{
    struct server *server = client->server;
    if (!client->leaving) {
        take_out(client);
        return;
    }
    CHECK(server->idle.n_leaving > 0);
    server->idle.n_leaving--;
    if (came) { /* a request, at the last moment: its place is not to be had soon */
        client->makes_room = false;
        atomic_fetch_sub(&server->shared->leaving, 1);
    }
}

void places_wait(const struct server *server)
{
    while (server->idle.n_leaving >= PLACES_LEAVING_MAX)
        fiber_sleep_until(clock_boot_us() + LEAVING_US);
}

/* Its fiber sees the end of the stream, as in a drain. A request that came at this moment is
 * served, and the connection closed behind it. It is counted as leaving by who asked. */
static bool make_room(struct server *server)
{
    struct client *oldest = server->idle.oldest;
    if (!oldest)
        return false;
    take_out(oldest);
    oldest->leaving = oldest->makes_room = true;
    server->idle.n_leaving++;
    shutdown(oldest->conn.io.fd, SHUT_RD);
    return true;
}

/* On the thread of the loop that was asked. */
static void make_room_here(void *argument)
{
    struct server *server = argument;
    atomic_store(&server->idle.asked, false);
    if (server->idle.n_leaving >= PLACES_LEAVING_MAX || !make_room(server))
        atomic_fetch_sub(&server->shared->leaving, 1);
}

void places_init(struct server *server)
{
    server->idle.make_room = (struct loop_post){.run = make_room_here, .argument = server};
}

static void ask(struct server *other)
{
    if (atomic_exchange(&other->idle.asked, true))
        return;
    atomic_fetch_add(&other->shared->leaving, 1);
    loop_post(other->loop, &other->idle.make_room);
}

/* Whether a place will be free in a moment: one that was asked for before, or of the next loop that
 * has somebody idle. Who asked twice would lose the place it got to its own second question. */
static bool is_coming(const struct server *server)
{
    struct gateway *gateway = server->gateway;
    struct gateway_shared *shared = server->shared;
    size_t self = (size_t)(server - gateway->servers);
    if (atomic_load(&shared->connections) <
        server->config->max_connections + atomic_load(&shared->leaving))
        return true;
    for (size_t i = 1; i < gateway->n_servers; i++) {
        struct server *other = &gateway->servers[(self + i) % gateway->n_servers];
        if (atomic_load(&other->idle.n) == 0)
            continue;
        ask(other);
        return true;
    }
    return false;
}

static bool take(struct server *server)
{
    struct gateway_shared *shared = server->shared;
    size_t max = server->config->max_connections;
    size_t before = atomic_fetch_add(&shared->connections, 1);
    if (before < max)
        return true;
    if (before < max + PLACES_SPARE && make_room(server)) {
        atomic_fetch_add(&shared->leaving, 1);
        return true;
    }
    atomic_fetch_sub(&shared->connections, 1);
    return false;
}

bool places_take(struct server *server)
{
    for (int look = 0; look < LOOKS_MAX; look++) {
        if (take(server))
            return true;
        if (!is_coming(server))
            break;
        fiber_sleep_until(clock_boot_us() + LEAVING_US);
    }
    return false;
}

void places_leave(struct client *client)
{
    struct gateway_shared *shared = client->server->shared;
    atomic_fetch_sub(&shared->connections, 1);
    if (client->makes_room)
        atomic_fetch_sub(&shared->leaving, 1);
}
