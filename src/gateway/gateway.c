/* SPDX-License-Identifier: Apache-2.0 */
/* Listeners, loops, and the drain. */
#include "gateway/gateway.h"

#include "base/check.h"
#include "base/mem.h"
#include "gateway/events.h"
#include "gateway/places.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BACKLOG 1024
#define NO_DESCRIPTORS_US (INT64_C(20) * 1000)             /* rest after accept found none free */
#define WAIT_STEP_NS 2000000L                              /* between two looks at a drain */
#define FIBERS_SPARE (16 + PLACES_SPARE + TURNED_AWAY_MAX) /* beside one for each connection */
#define TURNED_AWAY_US (INT64_C(1) * CLOCK_US_PER_S) /* a connection that may not stay is heard */

/* ---- accepting ---- */

static void name_peer(struct client *client, const struct sockaddr_storage *peer)
{
    const struct in_addr *v4 = &((const struct sockaddr_in *)peer)->sin_addr;
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)peer)->sin6_addr;
    const char *text = NULL;
    char *at = client->address_text;
    if (peer->ss_family == AF_INET) {
        text = inet_ntop(AF_INET, v4, at, sizeof client->address_text);
        client->network = network_address_v4(v4);
    } else if (peer->ss_family == AF_INET6) {
        text = inet_ntop(AF_INET6, v6, at, sizeof client->address_text);
        memcpy(client->network.bytes, v6, sizeof client->network.bytes);
    }
    client->address = text ? slice_of(text) : SLICE("unknown");
}

static void client_free(struct client *client)
{
    http_conn_close(&client->conn);
    plan_unref(client->plan);
    mem_free(client);
}

static void run_turned_away(void *argument)
{
    struct client *client = argument;
    struct server *server = client->server;
    http_conn_linger(&client->conn, TURNED_AWAY_US, clock_boot_us() + TURNED_AWAY_US);
    client_free(client);
    server->turned_away--;
}

/* A connection that may not stay has its answer without a place: it fits the kernel's empty buffer,
 * so nobody waits. A request on its way would reset it, so some are heard for a moment, each by a
 * fiber. */
static void turn_away(struct client *client)
{
    struct server *server = client->server;
    if (server->turned_away < TURNED_AWAY_MAX &&
        fiber_spawn(server->loop, "turned away", run_turned_away, client)) {
        server->turned_away++;
        return;
    }
    http_conn_linger(&client->conn, 0, 0);
    client_free(client);
}

/* False: it has its answer. */
static bool may_stay(struct client *client, const struct sockaddr_storage *peer)
{
    struct server *server = client->server;
    size_t limit = client->plan->settings.max_per_address;
    client->peer = peer_of(peer);
    client->counted = limit > 0 && peers_enter(server->shared->peers, client->peer, limit);
    if (limit > 0 && !client->counted) {
        limit_count(server, METRICS_LIMIT_ADDRESS);
        client_refuse(client, &(struct refusal){
                                  .error = ERROR_LIMITED,
                                  .detail = SLICE("too many connections from this address"),
                              });
        return false;
    }
    if (places_take(server))
        return true;
    if (client->counted)
        peers_leave(server->shared->peers, client->peer);
    client_refuse_crowd(client);
    return false;
}

static bool spawn(struct client *client)
{
    struct server *server = client->server;
    client->next = server->clients;
    if (client->next)
        client->next->prev = client;
    server->clients = client;
    if (fiber_spawn(server->loop, "client", client_run, client)) {
        places_idle(client);
        return true;
    }
    server->clients = client->next;
    if (client->next)
        client->next->prev = NULL;
    if (client->counted)
        peers_leave(server->shared->peers, client->peer);
    places_leave(client);
    return false;
}

static void serve(struct server *server, int fd, const struct sockaddr_storage *peer)
{
    struct client *client = mem_zalloc(1, sizeof *client);
    if (!client || !http_conn_open(&client->conn, fd)) {
        if (!client)
            close(fd);
        mem_free(client);
        return;
    }
    client->server = server;
    client->plan = plan_ref(server->plan);
    name_peer(client, peer);
    if (!may_stay(client, peer))
        turn_away(client);
    else if (!spawn(client))
        client_free(client);
}

static void accept_all(struct server *server)
{
    struct sockaddr_storage peer;
    int fd;
    while ((fd = fiber_accept(&server->listener, &peer, 0)) != -ETIMEDOUT) {
        if (fd >= 0) {
            serve(server, fd, &peer);
            places_wait(server);
        } else if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM || fd == -ENOBUFS)
            fiber_sleep_until(clock_boot_us() + NO_DESCRIPTORS_US);
    }
}

/* Accepts until a drain, and then until the queue is empty. */
void server_accept(void *argument)
{
    struct server *server = argument;
    struct fiber_source source = {&server->listener, FIBER_READ};
    server->acceptor = fiber_parker();
    while (!server_draining(server)) {
        fiber_wait(&source, 1, CLOCK_NEVER);
        accept_all(server);
    }
    server->acceptor = NULL;
    fiber_io_close(&server->listener);
}

/* On the loop's thread, outside any fiber. */
static void drain_server(void *argument)
{
    struct server *server = argument;
    if (server->acceptor)
        parker_wake(server->acceptor);
    for (struct client *client = server->clients; client; client = client->next) {
        if (client->state == CLIENT_IDLE || client->state == CLIENT_LINGERING)
            shutdown(client->conn.io.fd, SHUT_RD);
        if (client->state == CLIENT_WAITING && client->waiting) {
            client->waiting->interrupted = true;
            parker_wake(client->waiting);
        }
    }
}

/* ---- loops ---- */

static void run_server(void *argument)
{
    struct server *server = argument;
    loop_run(server->loop);
    plan_unref(server->plan);
    server->plan = NULL;
    atomic_fetch_sub(&server->shared->servers, 1);
}

static int listen_on(const struct gateway_config *config, bool shared_port)
{
    int on = 1;
    int fd = socket(config->listen.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (shared_port)
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    if (bind(fd, (const struct sockaddr *)&config->listen, config->listen_len) == 0 &&
        (!shared_port || listen(fd, BACKLOG) == 0))
        return fd;
    int failed = -errno;
    close(fd);
    return failed;
}

/* With SO_REUSEPORT a second daemon would start in silence and take half of the connections. */
static int probe_address(const struct gateway_config *config)
{
    int fd = listen_on(config, false);
    if (fd >= 0)
        close(fd);
    return fd < 0 ? fd : 0;
}

/* A descriptor comes under a loop's watch on that loop's thread. */
static void open_listener(void *argument)
{
    struct server *server = argument;
    int fd = server->listener.fd;
    CHECK(fd >= 0 && fiber_io_open(&server->listener, fd));
    server_accept(server);
}

static int start_server(struct gateway *gateway, struct server *server,
                        const struct gateway_settings *settings)
{
    const struct gateway_config *config = &gateway->config;
    *server = (struct server){.gateway = gateway,
                              .config = config,
                              .shared = &gateway->shared,
                              .listener = {.fd = listen_on(config, true)},
                              .drain = {.run = drain_server, .argument = server}};
    if (server->listener.fd < 0)
        return server->listener.fd;
    server->loop = loop_new(config->max_connections + FIBERS_SPARE);
    server->plan = plan_new(settings);
    reload_init(server);
    places_init(server);
    bool ok =
        server->loop && server->plan && fiber_spawn(server->loop, "accept", open_listener, server);
    return ok ? 0 : -ENOMEM;
}

static void explain(const struct gateway_config *config, char **ret_problem, int failed)
{
    struct buf text = buf_make(512);
    char host[2 * INET6_ADDRSTRLEN] = "?", port[8] = "?";
    getnameinfo((const struct sockaddr *)&config->listen, config->listen_len, host, sizeof host,
                port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    bool v6 = config->listen.ss_family == AF_INET6;
    buf_printf(&text, v6 ? "cannot listen on [%s]:%s: " : "cannot listen on %s:%s: ", host, port);
    buf_add_str(&text, failed == -EADDRINUSE
                           ? "the address is in use, perhaps by another pawl; stop it, or choose "
                             "another `listen:`"
                           : strerror(-failed));
    *ret_problem = buf_take(&text);
}

static void give_up(struct gateway *gateway)
{
    for (size_t i = 0; i < gateway->n_servers; i++) {
        if (gateway->servers[i].listener.fd >= 0)
            close(gateway->servers[i].listener.fd);
        plan_unref(gateway->servers[i].plan);
    }
    peers_free(gateway->shared.peers);
    peers_free(gateway->shared.tenants);
    mem_free(gateway);
}

/* From the store's secret, not by chance: it must be known again by who has another process of the
 * same store behind it. */
static void name_self(struct gateway *gateway)
{
    struct slice purpose = SLICE("via");
    struct digest digest = digest_keyed(store_digest_key(gateway->config.store), &purpose, 1);
    char hex[DIGEST_HEX_SIZE + 1];
    hex_encode(digest.bytes, DIGEST_SIZE, hex);
    snprintf(gateway->via, sizeof gateway->via, "pawl-%.8s", hex);
}

struct gateway *gateway_start(const struct gateway_config *config,
                              const struct gateway_settings *settings, char **ret_problem)
{
    CHECK(config->threads >= 1);
    struct gateway *gateway =
        mem_zalloc(1, sizeof *gateway + config->threads * sizeof gateway->servers[0]);
    if (!gateway)
        return NULL;
    gateway->config = *config;
    name_self(gateway);
    rules_count_from_zero(config, settings->rules);
    gateway->shared.peers = peers_new(config->max_connections);
    gateway->shared.tenants = peers_new(settings->max_in_flight);
    bool have = gateway->shared.peers && gateway->shared.tenants;
    int failed = have ? probe_address(config) : -ENOMEM;
    for (size_t i = 0; i < config->threads && failed == 0; i++) {
        gateway->n_servers = i + 1;
        failed = start_server(gateway, &gateway->servers[i], settings);
    }
    if (failed != 0) {
        explain(config, ret_problem, failed);
        give_up(gateway);
        return NULL;
    }
    atomic_store(&gateway->shared.servers, gateway->n_servers);
    for (size_t i = 0; i < gateway->n_servers; i++)
        CHECK(thread_start(&gateway->servers[i].thread, "pawl-loop", run_server,
                           &gateway->servers[i]));
    return gateway;
}

struct gateway_load gateway_load(const struct gateway *gateway)
{
    const struct gateway_shared *shared = &gateway->shared;
    return (struct gateway_load){
        .connections = atomic_load(&shared->connections),
        .in_flight = atomic_load(&shared->in_flight),
        .buffered = atomic_load(&shared->buffered),
        .draining = atomic_load(&shared->draining),
    };
}

void gateway_drain(struct gateway *gateway)
{
    if (atomic_exchange(&gateway->shared.draining, true))
        return;
    for (size_t i = 0; i < gateway->n_servers; i++) {
        loop_post(gateway->servers[i].loop, &gateway->servers[i].drain);
        loop_stop(gateway->servers[i].loop);
    }
}

bool gateway_wait(struct gateway *gateway, int64_t deadline_us)
{
    while (atomic_load(&gateway->shared.servers) > 0) {
        if (clock_boot_us() >= deadline_us)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = WAIT_STEP_NS}, NULL);
    }
    return true;
}

void gateway_free(struct gateway *gateway)
{
    CHECK(atomic_load(&gateway->shared.servers) == 0);
    for (size_t i = 0; i < gateway->n_servers; i++) {
        thread_join(&gateway->servers[i].thread);
        compress_fini(&gateway->servers[i].compress);
    }
    peers_free(gateway->shared.peers);
    peers_free(gateway->shared.tenants);
    mem_free(gateway);
}
