/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries are written on the loop (into the page cache), so they stand in the order of their ids,
 * and are forced to the disk by workers, several at a time. The main thread waits for a signal.
 */
#include "demo/server.h"

#include "base/clock.h"
#include "demo/session.h"
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define CONNECTIONS_MAX ((size_t)1024)
#define WORKERS ((size_t)4)
#define DRAIN_US (2 * CLOCK_US_PER_S) /* for who is in the middle of a request or an answer */

struct demo_server {
    struct demo demo;
    struct http_server *http;
};

/* ---- where it listens ---- */

static bool read_address(struct slice text, struct sockaddr_storage *address)
{
    size_t colon = text.len;
    while (colon > 0 && text.at[colon - 1] != ':')
        colon--;
    uint64_t port;
    if (colon == 0 || !slice_to_u64(slice_skip(text, colon), 65535, &port) ||
        !address_read_host(slice_make(text.at, colon - 1), address) ||
        !address_is_loopback(address))
        return false;
    /* In both families the port stands at the same place. */
    ((struct sockaddr_in *)address)->sin_port = htons((uint16_t)port);
    return true;
}

/* ---- start and end ---- */

static bool complain(const char *what, const char *why)
{
    fprintf(stderr, "pawl demo: %s: %s\n", what, why);
    return false;
}

static bool open_server(struct demo_server *server, const char *listen)
{
    struct http_server_config config = {
        .service = &demo_service,
        .name = "pawl-demo",
        .loops = 1,
        .max_connections = CONNECTIONS_MAX,
        .data = &server->demo,
    };
    const char *why = "not a loopback address and port";
    int error = 0;
    if (read_address(slice_of(listen), &config.address)) {
        server->http = http_server_start(&config, &error);
        why = strerror(-error);
    }
    if (!server->http)
        fprintf(stderr, "pawl demo: cannot listen on %s: %s\n", listen, why);
    return server->http != NULL;
}

static bool open_ledger(struct demo *demo, const char *path)
{
    BUF_AUTO struct buf problem = buf_make(1024);
    demo->ledger = ledger_open(path, &problem);
    if (demo->ledger != NULL)
        return true;
    fprintf(stderr, "pawl demo: ledger %s: %.*s\n", path, SLICE_ARG(buf_slice(&problem)));
    return false;
}

static bool start(struct demo_server *server, const struct demo_config *config)
{
    BUF_AUTO struct buf address = buf_make(1024);
    struct demo *demo = &server->demo;
    if (!demo_faults_read(slice_of(config->faults), &demo->faults))
        return complain("not a list of faults", config->faults);
    if (!open_ledger(demo, config->ledger))
        return false;
    demo->workers = workers_new(WORKERS, CONNECTIONS_MAX);
    if (demo->workers == NULL)
        return complain("cannot start", "no resources");
    if (!open_server(server, config->listen))
        return false;
    address_write(&address, http_server_address(server->http));
    fprintf(stderr, "pawl demo: listening on %.*s, ledger %s, pid %ld\n",
            SLICE_ARG(buf_slice(&address)), config->ledger, (long)getpid());
    return true;
}

static void stop(struct demo_server *server)
{
    http_server_drain(server->http);
    if (http_server_wait(server->http, clock_after(clock_boot_us(), DRAIN_US)))
        return;
    http_server_cut(server->http);
    (void)http_server_wait(server->http, CLOCK_NEVER);
}

int demo_run(const struct demo_config *config)
{
    struct demo_server server = {0};
    sigset_t signals, before;
    int signal;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    /* Before the threads start, so that none of them takes a signal. */
    sigprocmask(SIG_BLOCK, &signals, &before);
    bool started = start(&server, config);
    if (started) {
        sigwait(&signals, &signal);
        stop(&server);
    }
    workers_free(server.demo.workers);
    http_server_free(server.http);
    ledger_close(server.demo.ledger);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return started ? 0 : 1;
}
