/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service: what `serve` delivers: events to endpoints, and received ones to their handlers. One
 * thread with a loop of its own: a fiber that makes tasks of
 * new events (fanout.h), and the courier, whose deliveries are fibers beside it. It looks once a
 * second for what other processes published or changed, and at once where this one did.
 */
#ifndef PAWL_WEBHOOK_SERVICE_H
#define PAWL_WEBHOOK_SERVICE_H

#include "base/log.h"
#include "webhook/plan.h"

struct webhook_service;

/* Starts its thread, and waits until what it serves is declared, or the store did not take that in
 * time. The store and the log outlive it. NULL: no memory or thread. */
struct webhook_service *webhook_service_start(struct store *store, struct log *log,
                                              const struct webhook_wanted *wanted);

/* All from the main thread. Makes what delivering by another config needs; false: no memory. */
bool webhook_service_prepare(struct webhook_service *service, const struct webhook_wanted *wanted);
/* Delivers by what was prepared from now on; without `keep` it is forgotten. */
void webhook_service_reload(struct webhook_service *service, bool keep);

/* Begins no more. A descriptor that is readable once what was begun has ended. */
int webhook_service_drain(struct webhook_service *service);

/* Drains, and waits for that. */
void webhook_service_stop(struct webhook_service *service);

/* Only after webhook_service_stop, and once the store wakes no fiber any more. */
void webhook_service_free(struct webhook_service *service);

/* From any thread: there is something new. */
void webhook_service_wake(struct webhook_service *service);

/* From any thread; never blocks: its series. */
void webhook_service_write_series(struct webhook_service *service, struct buf *page);

#endif
