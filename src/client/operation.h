/* SPDX-License-Identifier: Apache-2.0 */
/*
 * operation: a request of pawl's own under a key, and the record by which it happens once. `pawl
 * send` and the queue keep the same record of it, so that what one of them has done the other one
 * does not do again. A record has no tenant, and counts
 *
 *      payload hash    of the body, as the gateway's (core/request/payload.h)
 *      target hash     of method, URL, media type and If-Match, as the gateway's, save that the
 *                      origin of the URL counts, too
 */
#ifndef PAWL_CLIENT_OPERATION_H
#define PAWL_CLIENT_OPERATION_H

#include "base/text/url.h"
#include "base/text/uuid.h"
#include "engine/engine.h"

/* Slices are borrowed. */
struct client_operation {
    struct slice key; /* 0x20-0x7E, at most KEY_TEXT_MAX */
    struct slice method;
    struct url url;
    const struct headers *headers; /* the caller's own */
    struct slice body;
    bool has_body;
};

#define CLIENT_RULE "send"
#define CLIENT_KEY_SIZE UUID_SIZE

/* Makes a key that nobody else makes (RFC 9562): a UUIDv4, or, `dated`, a UUIDv7 of now. */
void client_mint_key(bool dated, char ret_key[CLIENT_KEY_SIZE]);

/* The UUIDv7 of `made_ms`, in milliseconds since 1970, and of these random bits behind the first
 * 48, `high` first. */
void client_format_dated_key(int64_t made_ms, uint64_t high, uint64_t low,
                             char ret_key[CLIENT_KEY_SIZE]);

/* Whether it may be a key. */
bool client_is_key(struct slice key);

/* Names the operation's record in `attempt`: rule, key, recipe and both hashes, in `arena`. JSON
 * takes 40 times the body's size there. False: too large, or no memory. */
bool client_name_record(const struct client_operation *operation, struct arena *arena,
                        struct attempt *attempt);

#endif
