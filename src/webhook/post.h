/* SPDX-License-Identifier: Apache-2.0 */
/*
 * post: one attempt of a task that posts a body to a URL: its claim, request and end. What
 * deliveries to others (delivery.h) and calls of handlers (handler.h) have in common. Used by one
 * fiber.
 */
#ifndef PAWL_WEBHOOK_POST_H
#define PAWL_WEBHOOK_POST_H

#include "courier/courier.h"
#include "http/call/origins.h"
#include "store/store.h"

struct webhook_post {
    struct arena arena;
    struct headers headers; /* but for those of http_origins_write */
    struct slice body;
    struct buf request; /* its headers; empty: it was not sent */
    struct buf response;
    struct http_call call;
};

/* From here on webhook_post_fini. */
void webhook_post_init(struct webhook_post *post);
void webhook_post_fini(struct webhook_post *post);

/* Adds a header, whose value it copies. False: no memory. */
bool webhook_post_add(struct webhook_post *post, struct slice name, const struct buf *value);

/* Where it goes: to the pool, or to that of the URL's origin. */
struct webhook_way {
    const struct url *url;
    struct http_pool *pool;       /* NULL: */
    struct http_origins *origins; /* looks it up */
    int64_t connect_us;
};

/* Sends it, and reads the response. */
enum http_call_result webhook_post_send(struct webhook_post *post, const struct webhook_way *way,
                                        const struct courier_delivery *delivery);

/* What came of that, judged by this column. `in_doubt`: an earlier attempt is. */
struct courier_result webhook_post_result(struct webhook_post *post, enum http_call_result result,
                                          enum retry_column column, bool in_doubt);

/* Saves the claim alone, and what an attempt came to: the claim and the end of a kind. */
struct courier_verdict webhook_post_claim(struct rows *rows);
enum store_status webhook_post_end(const struct courier_kind *kind,
                                   struct courier_delivery *delivery, struct rows *rows);

#endif
