/* SPDX-License-Identifier: Apache-2.0 */
/* Listeners, loops, and the drain. */
#include "http/server_priv.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "http/address.h"
#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define BACKLOG 1024
#define BIND_TRIES 5
#define BIND_PAUSE_NS 500000000L
#define NO_DESCRIPTORS_US (INT64_C(20) * 1000) /* rest after accept found none free */
#define FIBERS_SPARE (16 + HTTP_SLOTS_SPARE + HTTP_TURNED_AWAY_MAX) /* beside the connections' */
#define DRAIN_ACCEPT_US (INT64_C(1) * CLOCK_US_PER_S)
#define TURNED_AWAY_US (INT64_C(1) * CLOCK_US_PER_S) /* a connection that may not stay is read */

/* ---- accepting ---- */

static void session_free(struct http_session *session)
{
    http_conn_close(&session->conn);
    mem_free(session);
}

static void run_turned_away(void *argument)
{
    struct http_session *session = argument;
    struct http_door *door = session->door;
    http_conn_linger(&session->conn, TURNED_AWAY_US, clock_boot_us() + TURNED_AWAY_US);
    session_free(session);
    door->turned_away--;
}

/* A connection that may not stay has its response without a slot: it fits the kernel's empty
 * buffer, so no fiber waits. A request on its way would reset it, so some are read for a moment,
 * each by a fiber. */
static void turn_away(struct http_session *session, enum http_refused why)
{
    struct http_door *door = session->door;
    http_session_refuse(session, why, NULL);
    if (door->turned_away < HTTP_TURNED_AWAY_MAX &&
        fiber_spawn(door->loop, "turned away", run_turned_away, session)) {
        door->turned_away++;
        return;
    }
    http_conn_linger(&session->conn, 0, 0);
    session_free(session);
}

static void leave_address(const struct http_session *session)
{
    if (session->counted)
        peers_leave(session->door->server->peers, session->address);
}

/* False: it has its response. */
static bool admit_connection(struct http_session *session, const struct sockaddr_storage *peer)
{
    struct http_door *door = session->door;
    size_t limit = door->limits.max_per_address;
    session->address = peer_of(peer);
    session->counted = limit > 0 && peers_enter(door->server->peers, session->address, limit);
    if (limit > 0 && !session->counted) {
        turn_away(session, HTTP_ADDRESS_FULL);
        return false;
    }
    if (http_slots_take(door))
        return true;
    leave_address(session);
    turn_away(session, HTTP_FULL);
    return false;
}

void http_session_end(struct http_session *session)
{
    *(session->prev ? &session->prev->next : &session->door->sessions) = session->next;
    if (session->next)
        session->next->prev = session->prev;
    leave_address(session);
    http_slots_leave(session);
    session_free(session);
}

static void spawn_session(struct http_session *session)
{
    struct http_door *door = session->door;
    session->next = door->sessions;
    if (session->next)
        session->next->prev = session;
    door->sessions = session;
    if (fiber_spawn(door->loop, "client", http_session_run, session))
        http_slots_move(session, HTTP_SESSION_IDLE);
    else
        http_session_end(session);
}

static void serve_peer(struct http_door *door, int fd, const struct sockaddr_storage *peer)
{
    const struct http_service *service = door->server->config.service;
    struct http_session *session = mem_zalloc(1, service->session_size);
    if (!session || !http_conn_open(&session->conn, fd)) {
        if (!session)
            close(fd);
        mem_free(session);
        return;
    }
    session->door = door;
    session->data = door->data;
    address_write_host(session->peer, peer);
    if (service->open)
        service->open(session, peer);
    if (admit_connection(session, peer))
        spawn_session(session);
}

static void accept_all(struct http_door *door)
{
    struct sockaddr_storage peer;
    int fd;
    while ((fd = fiber_accept(&door->listener, &peer, 0)) != -ETIMEDOUT) {
        if (fd >= 0) {
            serve_peer(door, fd, &peer);
            http_slots_wait(door);
        } else if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM || fd == -ENOBUFS)
            fiber_sleep_until(clock_boot_us() + NO_DESCRIPTORS_US);
    }
}

/* Accepts until a drain, and then until the queue is empty, or for a second where it is filled all
 * the time: accept_all gives way before it is. A descriptor comes under a loop's watch on that
 * loop's thread. */
static void run_accept(void *argument)
{
    struct http_door *door = argument;
    int fd = door->listener.fd;
    CHECK(fd >= 0 && fiber_io_open(&door->listener, fd));
    struct fiber_source source = {&door->listener, FIBER_READ};
    door->acceptor = fiber_parker();
    while (!http_server_is_draining(door->server)) {
        fiber_wait(&source, 1, CLOCK_NEVER);
        accept_all(door);
    }
    int64_t until = clock_after(clock_boot_us(), DRAIN_ACCEPT_US);
    while (door->listener.readable && clock_boot_us() < until)
        accept_all(door);
    fiber_io_close(&door->listener);
}

/* ---- the end: on the loop's thread, outside any fiber ---- */

static void drain_session(struct http_session *session)
{
    if (session->state == HTTP_SESSION_IDLE || session->state == HTTP_SESSION_LINGERING)
        (void)shutdown(session->conn.io.fd, SHUT_RD);
    if (!session->waiting)
        return;
    session->waiting->interrupted = true;
    parker_wake(session->waiting);
}

static void drain_door(void *argument)
{
    struct http_door *door = argument;
    if (door->acceptor)
        parker_wake(door->acceptor);
    for (struct http_session *at = door->sessions; at; at = at->next)
        drain_session(at);
}

static void cut_door(void *argument)
{
    struct http_door *door = argument;
    for (struct http_session *at = door->sessions; at; at = at->next)
        (void)shutdown(at->conn.io.fd, SHUT_RDWR);
}

/* ---- loops ---- */

static void run_door(void *argument)
{
    const struct http_door *door = argument;
    uint64_t one = 1;
    loop_run(door->loop);
    if (atomic_fetch_sub(&door->server->running, 1) == 1)
        CHECK(write(door->server->ended, &one, sizeof one) == sizeof one);
}

/* `shared`: by several listeners of this process. A socket that is only bound finds out whether
 * another process has the port. */
static int try_to_bind(const struct http_server_config *config, bool shared, bool listens)
{
    int on = 1;
    int fd = socket(config->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (shared)
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    if (bind(fd, (const struct sockaddr *)&config->address, sizeof config->address) == 0 &&
        (!listens || listen(fd, BACKLOG) == 0))
        return fd;
    int failed = -errno;
    close(fd);
    return failed;
}

/* As nginx does: a port below 60999 may be that of a stranger's connection, or of one that is over
 * and in TIME_WAIT. */
static int bind_to(const struct http_server_config *config, bool shared, bool listens)
{
    int fd = try_to_bind(config, shared, listens);
    for (int tries = 1; fd == -EADDRINUSE && tries < BIND_TRIES; tries++) {
        nanosleep(&(struct timespec){.tv_nsec = BIND_PAUSE_NS}, NULL);
        fd = try_to_bind(config, shared, listens);
    }
    return fd;
}

/* With SO_REUSEPORT a second daemon would start in silence and take half of the connections. */
static int probe_address(const struct http_server_config *config)
{
    int fd = bind_to(config, false, false);
    if (fd >= 0)
        close(fd);
    return fd < 0 ? fd : 0;
}

static int open_door(struct http_server *server, size_t i)
{
    const struct http_server_config *config = &server->config;
    struct http_door *door = &server->doors[i];
    *door = (struct http_door){.server = server,
                               .listener = {.fd = bind_to(config, config->loops > 1, true)},
                               .limits = config->limits,
                               .data = (char *)config->data + i * config->data_size,
                               .drain = {.run = drain_door, .argument = door},
                               .cut = {.run = cut_door, .argument = door}};
    if (door->listener.fd < 0)
        return door->listener.fd;
    http_slots_init(door);
    door->loop = loop_new(config->max_connections + FIBERS_SPARE);
    if (door->loop && fiber_spawn(door->loop, "accept", run_accept, door))
        return 0;
    close(door->listener.fd);
    return -ENOMEM;
}

static int open_doors(struct http_server *server)
{
    const struct http_server_config *config = &server->config;
    server->peers = peers_new(config->max_connections);
    server->ended = eventfd(0, EFD_CLOEXEC);
    int failed = !server->peers ? -ENOMEM : server->ended < 0 ? -errno : 0;
    if (failed == 0 && config->loops > 1)
        failed = probe_address(config);
    for (; server->n_doors < config->loops && failed == 0; server->n_doors++)
        failed = open_door(server, server->n_doors);
    return failed;
}

static void server_free(struct http_server *server)
{
    if (server->ended >= 0)
        close(server->ended);
    peers_free(server->peers);
    mem_free(server);
}

/* A loop whose thread did not start holds a fiber that cannot be taken back: the process ends. */
static void give_up(struct http_server *server)
{
    for (size_t i = 0; i < server->n_doors; i++)
        if (server->doors[i].listener.fd >= 0)
            close(server->doors[i].listener.fd);
    server_free(server);
}

static void start_threads(struct http_server *server)
{
    struct http_server_config *config = &server->config;
    socklen_t len = sizeof config->address;
    CHECK(getsockname(server->doors[0].listener.fd, (struct sockaddr *)&config->address, &len) ==
          0);
    atomic_store(&server->running, server->n_doors);
    for (size_t i = 0; i < server->n_doors; i++)
        CHECK(thread_start(&server->doors[i].thread, config->name, run_door, &server->doors[i]));
}

struct http_server *http_server_start(const struct http_server_config *config, int *ret_error)
{
    CHECK(config->loops >= 1 && config->service->session_size >= sizeof(struct http_session));
    struct http_server *server =
        mem_zalloc(1, sizeof *server + config->loops * sizeof server->doors[0]);
    *ret_error = -ENOMEM;
    if (!server)
        return NULL;
    server->config = *config;
    *ret_error = open_doors(server);
    if (*ret_error != 0) {
        give_up(server);
        return NULL;
    }
    start_threads(server);
    return server;
}

const struct sockaddr_storage *http_server_address(const struct http_server *server)
{
    return &server->config.address;
}

struct loop *http_server_loop(const struct http_server *server, size_t i)
{
    CHECK(i < server->n_doors);
    return server->doors[i].loop;
}

void http_server_set_limits(struct http_server *server, size_t i, const struct http_limits *limits)
{
    CHECK(i < server->n_doors && loop_current() == server->doors[i].loop);
    server->doors[i].limits = *limits;
}

size_t http_server_connections(const struct http_server *server)
{
    return atomic_load(&server->connections);
}

bool http_server_is_draining(const struct http_server *server)
{
    return atomic_load_explicit(&server->draining, memory_order_relaxed);
}

void http_server_drain(struct http_server *server)
{
    if (atomic_exchange(&server->draining, true))
        return;
    for (size_t i = 0; i < server->n_doors; i++) {
        loop_post(server->doors[i].loop, &server->doors[i].drain);
        loop_stop(server->doors[i].loop);
    }
}

void http_server_cut(struct http_server *server)
{
    http_server_drain(server);
    if (atomic_exchange(&server->cutting, true))
        return;
    for (size_t i = 0; i < server->n_doors; i++)
        loop_post(server->doors[i].loop, &server->doors[i].cut);
}

int http_server_ended(const struct http_server *server)
{
    return server->ended;
}

bool http_server_wait(const struct http_server *server, int64_t deadline_us)
{
    struct pollfd ended = {.fd = server->ended, .events = POLLIN};
    while (poll(&ended, 1, clock_poll_ms(deadline_us)) <= 0)
        if (clock_boot_us() >= deadline_us)
            return false;
    /* A descriptor orders no memory: this load does, behind all that the loops have done. */
    CHECK(atomic_load(&server->running) == 0);
    return true;
}

void http_server_free(struct http_server *server)
{
    if (!server)
        return;
    CHECK(atomic_load(&server->running) == 0);
    for (size_t i = 0; i < server->n_doors; i++) {
        thread_join(&server->doors[i].thread);
        loop_free(server->doors[i].loop);
    }
    server_free(server);
}
