/* SPDX-License-Identifier: Apache-2.0 */
/* The listener and its thread. */
#include "admin/session.h"
#include "base/check.h"
#include "base/mem.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <unistd.h>

#define BACKLOG 64
#define OTHER_FIBERS 1                            /* accept */
#define FULL_US (1 * CLOCK_US_PER_MS)             /* between two looks for room */
#define NO_DESCRIPTORS_US (100 * CLOCK_US_PER_MS) /* rest after accept found none free */

static void name_peer(struct session *session, const struct sockaddr_storage *peer)
{
    const void *address = peer->ss_family == AF_INET6
                              ? (const void *)&((const struct sockaddr_in6 *)peer)->sin6_addr
                              : &((const struct sockaddr_in *)peer)->sin_addr;
    if (!inet_ntop(peer->ss_family, address, session->peer, sizeof session->peer))
        snprintf(session->peer, sizeof session->peer, "unknown");
}

static void cut_off(const struct session *session)
{
    shutdown(session->fd >= 0 ? session->fd : session->conn.io.fd, SHUT_RDWR);
}

/* A crowd that only sits here must not keep out the one who asks whether the gateway lives. */
static void make_room(const struct admin *admin)
{
    const struct session *oldest = admin->sessions;
    if (admin->n_sessions < ADMIN_CONNECTIONS_MAX)
        return;
    for (size_t i = 1; i < ADMIN_CONNECTIONS_MAX; i++)
        oldest = oldest->next;
    for (; oldest; oldest = oldest->next)
        cut_off(oldest);
}

static void start_session(struct admin *admin, int fd, const struct sockaddr_storage *peer)
{
    struct session *session = mem_zalloc(1, sizeof *session);
    if (!session) {
        close(fd);
        return;
    }
    session->admin = admin;
    session->fd = fd;
    name_peer(session, peer);
    if (!fiber_spawn(admin->loop, "admin", session_run, session)) {
        close(fd);
        mem_free(session);
        return;
    }
    session->next = admin->sessions;
    if (session->next)
        session->next->prev = session;
    admin->sessions = session;
    admin->n_sessions++;
}

/* Those that were cut off need their turn to end. */
static void await_room(const struct admin *admin)
{
    make_room(admin);
    while (admin->n_sessions >= ADMIN_SESSIONS_MAX && !admin->stopping)
        fiber_sleep_until(clock_after(clock_boot_us(), FULL_US));
}

static void accept_some(struct admin *admin)
{
    struct sockaddr_storage peer;
    int fd;
    while (!admin->stopping && (fd = fiber_accept(&admin->listener, &peer, 0)) != -ETIMEDOUT) {
        if (fd >= 0) {
            await_room(admin);
            start_session(admin, fd, &peer);
        } else if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM || fd == -ENOBUFS) {
            fiber_sleep_until(clock_after(clock_boot_us(), NO_DESCRIPTORS_US));
        }
    }
}

/* A descriptor comes under a loop's watch on that loop's thread. */
static void run_accept(void *argument)
{
    struct admin *admin = argument;
    int fd = admin->listener.fd;
    CHECK(fiber_io_open(&admin->listener, fd));
    struct fiber_source source = {&admin->listener, FIBER_READ};
    admin->acceptor = fiber_parker();
    while (!admin->stopping) {
        fiber_wait(&source, 1, CLOCK_NEVER);
        accept_some(admin);
    }
    admin->acceptor = NULL;
    fiber_io_close(&admin->listener);
}

/* On the loop's thread, outside any fiber. */
static void stop_fibers(void *argument)
{
    struct admin *admin = argument;
    admin->stopping = true;
    if (admin->acceptor)
        parker_wake(admin->acceptor);
    for (struct session *session = admin->sessions; session; session = session->next)
        cut_off(session);
}

static void run_loop(void *argument)
{
    struct admin *admin = argument;
    loop_run(admin->loop);
}

/* No SO_REUSEPORT: a second listener on the address is refused. */
static int listen_on(const struct admin_config *config)
{
    int on = 1;
    int fd = socket(config->listen.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (const struct sockaddr *)&config->listen, sizeof config->listen) == 0 &&
        listen(fd, BACKLOG) == 0)
        return fd;
    int failed = -errno;
    close(fd);
    return failed;
}

static bool start_thread(struct admin *admin)
{
    admin->loop = loop_new(ADMIN_SESSIONS_MAX + OTHER_FIBERS);
    return admin->loop && fiber_spawn(admin->loop, "accept", run_accept, admin) &&
           thread_start(&admin->thread, "pawl-admin", run_loop, admin);
}

struct admin *admin_start(const struct admin_config *config, int *ret_error)
{
    CHECK(config->token.len <= ADMIN_TOKEN_MAX);
    *ret_error = -EACCES;
    if (config->token.len == 0 && !guard_is_loopback(&config->listen))
        return NULL;
    *ret_error = listen_on(config);
    if (*ret_error < 0)
        return NULL;
    struct admin *admin = mem_zalloc(1, sizeof *admin);
    if (!admin) {
        close(*ret_error);
        *ret_error = -ENOMEM;
        return NULL;
    }
    admin->config = *config;
    if (config->token.len > 0)
        memcpy(admin->token, config->token.at, config->token.len);
    admin->config.token = slice_make(admin->token, config->token.len);
    admin->listener.fd = *ret_error;
    admin->stop = (struct loop_post){.run = stop_fibers, .argument = admin};
    atomic_store(&admin->log_keys_hashed, config->log_keys_hashed);
    /* Nothing can be taken back from a loop whose thread did not start; the process ends. */
    CHECK(start_thread(admin));
    return admin;
}

void admin_set_log_keys(struct admin *admin, bool hashed)
{
    atomic_store(&admin->log_keys_hashed, hashed);
}

void admin_stop(struct admin *admin)
{
    if (!admin)
        return;
    loop_post(admin->loop, &admin->stop);
    loop_stop(admin->loop);
    thread_join(&admin->thread);
}

void admin_free(struct admin *admin)
{
    if (!admin)
        return;
    CHECK(admin->n_sessions == 0);
    loop_free(admin->loop);
    mem_free(admin);
}
