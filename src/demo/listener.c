/* SPDX-License-Identifier: Apache-2.0 */
#include "demo/listener.h"

#include "base/clock.h"
#include <netinet/in.h>
#include <stdio.h>

#define IDLE_US (300 * CLOCK_US_PER_S)
#define LONG_US (30 * CLOCK_US_PER_S) /* a header section, a body, a response */
#define DRAIN_US (2 * CLOCK_US_PER_S) /* for clients in the middle of a request or a response */

void listener_init(struct listener *listener)
{
    sigemptyset(&listener->signals);
    sigaddset(&listener->signals, SIGTERM);
    sigaddset(&listener->signals, SIGINT);
    sigprocmask(SIG_BLOCK, &listener->signals, &listener->before);
}

static bool read_listen_address(struct slice text, struct sockaddr_storage *address)
{
    size_t colon = text.len;
    while (colon > 0 && text.at[colon - 1] != ':')
        colon--;
    uint64_t port;
    if (colon == 0 || !slice_to_u64(slice_skip(text, colon), 65535, &port) ||
        !address_read_host(slice_make(text.at, colon - 1), address) ||
        !address_is_loopback(address))
        return false;
    /* The port is at the same offset in both families. */
    ((struct sockaddr_in *)address)->sin_port = htons((uint16_t)port);
    return true;
}

bool listener_start(struct listener *listener, struct buf *address)
{
    struct http_server_config config = {
        .service = listener->service,
        .name = "pawl-listen",
        .limits = {.idle_us = IDLE_US,
                   .headers_us = LONG_US,
                   .body_us = LONG_US,
                   .write_us = LONG_US},
        .loops = 1,
        .max_connections = LISTENER_CONNECTIONS_MAX,
        .data = listener->data,
    };
    const char *why = "not a loopback address and port";
    int error = 0;
    if (read_listen_address(slice_of(listener->listen), &config.address)) {
        listener->http = http_server_start(&config, &error);
        why = strerror(-error);
    }
    if (!listener->http) {
        fprintf(stderr, "pawl %s: cannot listen on %s: %s\n", listener->command, listener->listen,
                why);
        return false;
    }
    address_write(address, http_server_address(listener->http));
    return true;
}

void listener_wait(struct listener *listener)
{
    int signal;
    sigwait(&listener->signals, &signal);
    http_server_drain(listener->http);
    if (http_server_wait(listener->http, clock_after(clock_boot_us(), DRAIN_US)))
        return;
    http_server_cut(listener->http);
    (void)http_server_wait(listener->http, CLOCK_NEVER);
}

void listener_fini(struct listener *listener)
{
    http_server_free(listener->http);
    sigprocmask(SIG_SETMASK, &listener->before, NULL);
}
