/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fibers: one waits for signals, one accepts, one for each connection. Entries are written on the
 * loop (into the page cache), so they stand in the order of their ids, and are forced to the disk
 * by workers, several at a time. A signal ends the accepting fiber and stops the sessions; the
 * loop returns when the last has ended.
 */
#include "demo/server.h"

#include "base/clock.h"
#include "demo/listen.h"
#include "demo/session.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define CONNECTIONS_MAX ((size_t)1024)
#define OTHER_FIBERS ((size_t)2) /* accept, signals */
#define WORKERS ((size_t)4)
#define ACCEPT_PAUSE_US (100 * CLOCK_US_PER_MS)

struct server {
    struct demo demo;
    struct loop *loop;
    int listen_fd;
    int signal_fd;
    struct parker *accepting; /* NULL: that fiber does not run */
    bool failed;              /* no resources to go on with */
};

/* ---- fibers ---- */

static void accept_one(struct server *server, struct fiber_io *listener)
{
    int fd = fiber_accept(listener, NULL, 0);
    if (fd >= 0)
        session_start(&server->demo, server->loop, fd);
    else if (fd != -ETIMEDOUT)
        fiber_sleep_until(clock_after(clock_boot_us(), ACCEPT_PAUSE_US));
}

static void stop(struct server *server)
{
    sessions_stop(&server->demo);
    if (server->accepting != NULL)
        server->accepting->wake(server->accepting);
}

static void run_signals(void *argument)
{
    struct server *server = argument;
    struct signalfd_siginfo info;
    struct fiber_io signals;
    server->failed = !fiber_io_open(&signals, server->signal_fd);
    if (!server->failed) {
        (void)fiber_read(&signals, &info, sizeof info, CLOCK_NEVER);
        fiber_io_detach(&signals);
    }
    stop(server);
}

static void accept_until_stopped(struct server *server, struct fiber_io *listener)
{
    struct fiber_source source = {listener, FIBER_READ};
    server->accepting = fiber_parker();
    while (!server->demo.stopping)
        if (fiber_wait(&source, 1, CLOCK_NEVER) == FIBER_READY)
            accept_one(server, listener);
    server->accepting = NULL;
}

static void run_accept(void *argument)
{
    struct server *server = argument;
    struct fiber_io listener;
    server->failed = !fiber_io_open(&listener, server->listen_fd);
    if (server->failed)
        return;
    if (fiber_spawn(server->loop, "signals", run_signals, server))
        accept_until_stopped(server, &listener);
    else
        server->failed = true;
    fiber_io_detach(&listener);
}

/* ---- start and end ---- */

static bool complain(const char *what, const char *why)
{
    fprintf(stderr, "pawl demo: %s: %s\n", what, why);
    return false;
}

static bool open_listener(struct server *server, const char *address, struct buf *text)
{
    server->listen_fd = listen_on_loopback(slice_of(address), text);
    if (server->listen_fd >= 0 && buf_ok(text))
        return true;
    fprintf(stderr, "pawl demo: cannot listen on %s: %.*s\n", address, SLICE_ARG(buf_slice(text)));
    return false;
}

static bool open_ledger(struct server *server, const char *path)
{
    BUF_AUTO struct buf problem = buf_make(1024);
    server->demo.ledger = ledger_open(path, &problem);
    if (server->demo.ledger != NULL)
        return true;
    fprintf(stderr, "pawl demo: ledger %s: %.*s\n", path, SLICE_ARG(buf_slice(&problem)));
    return false;
}

static bool open_loop(struct server *server)
{
    server->demo.workers = workers_new(WORKERS, CONNECTIONS_MAX);
    server->loop = loop_new(CONNECTIONS_MAX + OTHER_FIBERS);
    return (server->demo.workers != NULL && server->loop != NULL) ||
           complain("cannot start", "no resources");
}

static bool start(struct server *server, const struct demo_config *config, const sigset_t *signals)
{
    BUF_AUTO struct buf address = buf_make(1024);
    struct slice faults = slice_of(config->faults);
    if (!demo_faults_read(faults, &server->demo.faults))
        return complain("not a list of faults", config->faults);
    if (!open_ledger(server, config->ledger) || !open_listener(server, config->listen, &address) ||
        !open_loop(server))
        return false;
    server->signal_fd = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (server->signal_fd < 0 || !fiber_spawn(server->loop, "accept", run_accept, server))
        return complain("cannot start", "no resources");
    fprintf(stderr, "pawl demo: listening on %.*s, ledger %s, pid %ld\n",
            SLICE_ARG(buf_slice(&address)), config->ledger, (long)getpid());
    return true;
}

static void finish(struct server *server)
{
    workers_free(server->demo.workers);
    loop_free(server->loop);
    ledger_close(server->demo.ledger);
    if (server->listen_fd >= 0)
        close(server->listen_fd);
    if (server->signal_fd >= 0)
        close(server->signal_fd);
}

int demo_run(const struct demo_config *config)
{
    struct server server = {.listen_fd = -1, .signal_fd = -1};
    sigset_t signals, before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    /* Before the workers start, so that none of them takes a signal. */
    sigprocmask(SIG_BLOCK, &signals, &before);
    bool started = start(&server, config, &signals);
    if (started) {
        loop_stop(server.loop);
        loop_run(server.loop);
    }
    finish(&server);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return started && !server.failed ? 0 : 1;
}
