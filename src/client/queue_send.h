/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queue_send: how the courier delivers queued operations. An attempt is an acquisition of the
 * record that `pawl send` keeps of the same operation: begun in the commit of its claim, written in
 * that of its end. So what one of them has done the other one does not do again.
 */
#ifndef PAWL_CLIENT_QUEUE_SEND_H
#define PAWL_CLIENT_QUEUE_SEND_H

#include "client/credentials.h"
#include "courier/courier.h"
#include "engine/engine.h"
#include "http/call/origins.h"

struct queue_sender {
    struct store *store;
    struct engine *engine;           /* on that store */
    struct http_origins *origins;    /* of the loop that sends */
    struct credentials *credentials; /* of that loop, too */
    int64_t timeout_us;              /* for an attempt */
    int64_t connect_us;              /* for its connection */
    int in_flight;                   /* for one target */
    struct courier_kind kind;        /* filled in by queue_sender_init */
};

/* Fills in the kind, which borrows the sender. */
void queue_sender_init(struct queue_sender *sender);

/* How long its success is remembered: at least as long as it may wait. */
int64_t queue_remembers_us(const struct store_task *task, const struct store_request *request);

#endif
