/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handler: how the courier has a received event handled: kind `inbox`, its lane the source's name,
 * its key `SOURCE:ID`. The body is posted as it came, under that key, with the sender's content
 * type and `Webhook-Source`; the response is judged as that of any call (core/retry/retry.h): what
 * is final is dead, what is in progress is waited out. A handler that records the key with its
 * effect handles each event once; pawl calls it until it says that it did, and not after.
 */
#ifndef PAWL_WEBHOOK_HANDLER_H
#define PAWL_WEBHOOK_HANDLER_H

#include "courier/courier.h"
#include "webhook/endpoints/census.h"
#include "webhook/plan.h"

struct webhook_handler {
    struct store *store;
    struct census *census;
    struct webhook_plan **plan; /* the one in force, whenever a call begins */
    struct courier_kind kind;   /* filled in by webhook_handler_init */
};

/* Fills in the kind, which borrows the handler. */
void webhook_handler_init(struct webhook_handler *handler);

#endif
