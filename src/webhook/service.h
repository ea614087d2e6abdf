/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service: what `serve` delivers: events to endpoints, and received ones to their handlers. A
 * service (fiber/service.h) with a fiber that makes tasks of new events (fanout.h), and the
 * courier, whose deliveries are fibers beside it. It looks once a second for what other processes
 * published or changed, and at once where this one did.
 */
#ifndef PAWL_WEBHOOK_SERVICE_H
#define PAWL_WEBHOOK_SERVICE_H

#include "base/log.h"
#include "fiber/service.h"
#include "webhook/plan.h"

/* One that has started: what it serves is declared, or the store did not take that in time. The
 * store and the log outlive it. NULL: no memory or descriptors. */
struct service *webhook_service_start(struct store *store, struct log *log,
                                      const struct webhook_wanted *wanted);

/* The plan by another config, for a reload. False: no memory. */
bool webhook_service_prepare(struct service *base, const struct webhook_wanted *wanted);

/* From any thread: there is something new. */
void webhook_service_wake(struct service *base);

/* From any thread; never blocks: its series. */
void webhook_service_write_series(struct service *base, struct buf *page);

#endif
