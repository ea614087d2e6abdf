/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAWL_GATEWAY_CONFIG_H
#define PAWL_GATEWAY_CONFIG_H

#include "base/log.h"
#include "engine/engine.h"
#include "fiber/offload.h"
#include "observe/metrics.h"
#include <netinet/in.h>

/* What stays as it is while the gateway runs. Everything pointed to outlives it. */
struct gateway_config {
    struct sockaddr_storage listen;
    struct store *store;
    struct engine *engine;
    struct log *log;                    /* NULL: no log */
    struct metrics *metrics;            /* where responses are counted */
    struct workers *workers;            /* for what takes long */
    void (*has_events)(void *argument); /* one was stored, of `inbox:` or `emit:`; from its loops */
    void *argument;
};

#endif
