/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listener: a service in the foreground, on one loop, at a loopback address, until SIGTERM or
 * SIGINT: what `pawl demo` and `pawl webhook listen` have in common.
 */
#ifndef PAWL_DEMO_LISTENER_H
#define PAWL_DEMO_LISTENER_H

#include "base/buf.h"
#include "http/server.h"
#include <signal.h>

#define LISTENER_CONNECTIONS_MAX ((size_t)1024)

struct listener {
    const char *command; /* for complaints: "demo" */
    const char *listen; /* "127.0.0.1:9000", "localhost:9000", "[::1]:9000"; port 0: any free one */
    const struct http_service *service;
    void *data; /* each session's */
    struct http_server *http;
    sigset_t signals, before;
};

/* Keeps signals for listener_wait: before the process has other threads. */
void listener_init(struct listener *listener);

/* Serves from now on; `address` gets where. False: a line on stderr says why not. */
bool listener_start(struct listener *listener, struct buf *address);

/* Until a signal; then lets what is under way end, for a while. */
void listener_wait(struct listener *listener);

/* Accepts one that was not started. */
void listener_fini(struct listener *listener);

#endif
