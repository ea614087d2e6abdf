/* SPDX-License-Identifier: Apache-2.0 */
/*
 * delivery_counts: how deliveries end, as metrics show it: pawl_webhook_deliveries_total by
 * `endpoint` and `result`. An attempt that is acknowledged is `done`, one that is to be made again
 * `failed`; what is given up is `dead`, with an attempt or without. The delivering loop increments
 * the counts, and the thread that serves the page reads them, under a mutex of this module.
 *
 * An endpoint of the config counts under its name, stored ones all as `stored`; beyond
 * DELIVERY_COUNTS_MOST names they share SERIES_OTHER. Counts live as long as the process.
 */
#ifndef PAWL_WEBHOOK_DELIVERY_COUNTS_H
#define PAWL_WEBHOOK_DELIVERY_COUNTS_H

#include "base/arena.h"
#include "base/thread.h"
#include "core/task.h"
#include "webhook/endpoints/roster.h"

#define DELIVERY_COUNTS_MOST 256
#define DELIVERY_COUNTS_RESULTS 3

struct delivery_counts {
    struct mutex mutex; /* of all that follows */
    struct endpoint_counts {
        struct slice name;
        uint64_t n[DELIVERY_COUNTS_RESULTS];
    } endpoints[DELIVERY_COUNTS_MOST + 1];
    size_t n;
    struct arena arena; /* of their names */
};

void delivery_counts_init(struct delivery_counts *counts);
void delivery_counts_fini(struct delivery_counts *counts);

/* What metrics call an endpoint; NULL: one that is not there any more. */
struct slice delivery_counts_name(const struct webhook_target *target);

/* Endpoints that are shown from now on, before the first delivery ends. */
void delivery_counts_show(struct delivery_counts *counts, const struct roster *roster);

/* A delivery is in this state now, and that is stored. */
void delivery_counts_add(struct delivery_counts *counts, const struct webhook_target *target,
                         enum task_state state);

/* Appends the series. From any thread. */
void delivery_counts_write(struct delivery_counts *counts, struct buf *page);

#endif
