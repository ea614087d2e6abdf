/* SPDX-License-Identifier: Apache-2.0 */
/*
 * receiver: takes webhooks while somebody develops (`pawl webhook listen`). It verifies each
 * request, prints it as a line of JSON on stdout, and responds as it was told. Loopback only.
 */
#ifndef PAWL_DEMO_RECEIVER_H
#define PAWL_DEMO_RECEIVER_H

#include "core/web/signature.h"

struct receiver_config {
    const char *listen; /* as in demo/server.h */
    const struct signature_scheme *scheme;
    struct signature_keys keys; /* none: nothing is verified */
    int64_t tolerance_us;
    int status; /* of the response to what is signed; to the rest 401 */
};

/* Serves until SIGTERM or SIGINT and returns 0. Prints one line to stderr once it is ready. 1: it
 * could not start; a line on stderr says why. Call it before the process has other threads. */
int receiver_run(const struct receiver_config *config);

#endif
