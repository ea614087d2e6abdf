/* SPDX-License-Identifier: Apache-2.0 */
/*
 * receipt: takes an event in, once: its row, the handler's task and the body to send are written in
 * one commit (store/tables/receipts.h), after which the sender may forget it. The handler is called
 * by handler.h.
 */
#ifndef PAWL_WEBHOOK_RECEIPT_H
#define PAWL_WEBHOOK_RECEIPT_H

#include "base/crypto/digest.h"
#include "base/park.h"
#include "store/store.h"
#include "store/tables/receipts.h"
#include "webhook/settings.h"

/* What came in, of a sender that was verified. */
struct receipt {
    const struct inbox_source *source;
    struct slice event_id;
    struct slice order;  /* empty: none */
    struct slice fields; /* the lines of its head that say how to read the body */
    struct slice body;
    struct digest payload_hash;
    struct slice recipe;
};

enum receipt_end {
    RECEIPT_STORED,   /* durable: its handler will be called */
    RECEIPT_REPLAYED, /* it was before */
    RECEIPT_MISMATCH, /* another body was, under this id */
};

/* Takes it in. Anything but STORE_DONE: it may come again. */
enum store_status receipt_take(struct store *store, struct parker *parker,
                               const struct receipt *receipt, enum receipt_end *ret_end);

#endif
