/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/places.h"

#include "base/check.h"
#include <sys/socket.h>

#define LEAVING_US (INT64_C(1) * CLOCK_US_PER_MS) /* between two looks at those who leave */

void places_idle(struct client *client)
{
    struct idle_list *idle = &client->server->idle;
    if (client->idle_listed || client->leaving)
        return;
    client->idle_listed = true;
    client->idle_newer = NULL;
    client->idle_older = idle->newest;
    *(idle->newest ? &idle->newest->idle_newer : &idle->oldest) = client;
    idle->newest = client;
}

static void take_out(struct client *client)
{
    struct idle_list *idle = &client->server->idle;
    CHECK(client->idle_listed);
    client->idle_listed = false;
    *(client->idle_newer ? &client->idle_newer->idle_older : &idle->newest) = client->idle_older;
    *(client->idle_older ? &client->idle_older->idle_newer : &idle->oldest) = client->idle_newer;
}

void places_busy(struct client *client)
{
    if (!client->leaving) {
        take_out(client);
        return;
    }
    CHECK(client->server->idle.n_leaving > 0);
    client->server->idle.n_leaving--;
}

void places_wait(const struct server *server)
{
    while (server->idle.n_leaving >= PLACES_LEAVING_MAX)
        fiber_sleep_until(clock_boot_us() + LEAVING_US);
}

/* Its fiber sees the end of the stream, as in a drain. A request that came at this moment is
 * served, and the connection closed behind it. */
static bool make_room(struct server *server)
{
    struct client *oldest = server->idle.oldest;
    if (!oldest)
        return false;
    take_out(oldest);
    oldest->leaving = true;
    server->idle.n_leaving++;
    shutdown(oldest->conn.io.fd, SHUT_RD);
    return true;
}

bool places_take(struct server *server)
{
    size_t max = server->config->max_connections;
    size_t before = atomic_fetch_add(&server->shared->connections, 1);
    if (before < max || (before < max + PLACES_SPARE && make_room(server)))
        return true;
    places_leave(server);
    return false;
}

void places_leave(struct server *server)
{
    atomic_fetch_sub(&server->shared->connections, 1);
}
