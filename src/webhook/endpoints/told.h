/* SPDX-License-Identifier: Apache-2.0 */
/*
 * told: how deliveries end, as metrics show it: pawl_webhook_deliveries_total by `endpoint` and
 * `result`. An attempt that is acknowledged is `done`, one that is to be made again `failed`; what
 * is given up is `dead`, with an attempt or without. The delivering loop increments the
 * counts, and the thread that serves the page reads them, under a mutex of this module.
 *
 * An endpoint of the config counts under its name, stored ones all as `stored`; beyond TOLD_MOST
 * names they share SERIES_OTHER. Counts live as long as the process.
 */
#ifndef PAWL_WEBHOOK_TOLD_H
#define PAWL_WEBHOOK_TOLD_H

#include "base/arena.h"
#include "base/thread.h"
#include "core/task.h"
#include "webhook/endpoints/roster.h"

#define TOLD_MOST 256
#define TOLD_RESULTS 3

struct told {
    struct mutex mutex; /* of all that follows */
    struct told_endpoint {
        struct slice name;
        uint64_t n[TOLD_RESULTS];
    } endpoints[TOLD_MOST + 1];
    size_t n;
    struct arena arena; /* of their names */
};

void told_init(struct told *told);
void told_fini(struct told *told);

/* What metrics call an endpoint; NULL: one that is not there any more. */
struct slice told_name(const struct webhook_target *target);

/* Endpoints that are shown from now on, before the first delivery ends. */
void told_show(struct told *told, const struct roster *roster);

/* A delivery is in this state now, and that is stored. */
void told_count(struct told *told, const struct webhook_target *target, enum task_state state);

/* Appends the series. From any thread. */
void told_write(struct told *told, struct buf *page);

#endif
