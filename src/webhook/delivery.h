/* SPDX-License-Identifier: Apache-2.0 */
/*
 * delivery: how the courier tells an endpoint of an event: kind `webhook`, its lane the endpoint's
 * name, its key the event's id. The request is made from the event at each attempt: the same bytes,
 * under the time and the secrets of that attempt (Standard Webhooks 1.0). Where it goes, the guard
 * judges (http/call/guard.h). 410 disables the endpoint, and so does a failure 7 days after the
 * first one with no success since, in the commit of the delivery's end.
 */
#ifndef PAWL_WEBHOOK_DELIVERY_H
#define PAWL_WEBHOOK_DELIVERY_H

#include "courier/courier.h"
#include "courier/series.h"
#include "webhook/endpoints/census.h"
#include "webhook/endpoints/delivery_counts.h"
#include "webhook/plan.h"

struct webhook_sender {
    struct store *store;
    struct census *census;
    struct webhook_plan **plan; /* the one in force, whenever a delivery begins */
    struct delivery_counts *counts;
    struct courier_kind kind; /* filled in by webhook_sender_init */
};

/* Fills in the kind, which borrows the sender. */
void webhook_sender_init(struct webhook_sender *sender);

#endif
