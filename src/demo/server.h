/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The demo upstream, a process of its own (`pawl demo`): demo/service.h behind HTTP/1.1, on one
 * loop, with a bounded number of connections. Loopback only: any client that reaches it may spend.
 */
#ifndef PAWL_DEMO_SERVER_H
#define PAWL_DEMO_SERVER_H

struct demo_config {
    const char *listen; /* "127.0.0.1:9000", "localhost:9000", "[::1]:9000"; port 0: any free one */
    const char *ledger; /* path of the ledger file; created when absent */
    const char *faults; /* for every POST without a Demo-Fault header (demo/faults.h); NULL: none */
};

/* Serves until SIGTERM or SIGINT and returns 0. Prints one line to stderr once it is ready. 1: it
 * could not start; a line on stderr says why. Call it before the process has other threads. */
int demo_run(const struct demo_config *config);

#endif
