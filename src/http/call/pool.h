/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections to one upstream, kept alive between requests. A pool belongs to one loop: no locks,
 * and a count of plain numbers.
 *
 * Never re-sends: the pool hands out a connection, and what was sent on it is the caller's to know
 * (conn->sent). A kept connection is handed out only while it was idle less than `idle_us`, shows
 * no end of stream and has no unread byte; else it is closed and the next one tried.
 */
#ifndef PAWL_HTTP_POOL_H
#define PAWL_HTTP_POOL_H

#include "http/conn.h"
#include "http/name.h"

struct http_pool;

/* Where connections go. A name such as `localhost` often has an address of each family, and a
 * service that listens on only one of them. */
struct http_upstream {
    struct http_addresses addresses;
    struct http_name *name; /* NULL: the addresses never change; else they are those it had at
                               first. One reference */
    struct tls_client *tls; /* NULL: plain text; one reference */
};

/* Gives its references back. */
void http_upstream_drop(struct http_upstream *upstream);
#define HTTP_UPSTREAM_AUTO __attribute__((cleanup(http_upstream_drop)))

/* Takes references of its own. At most `max_idle` kept connections: the one idle longest
 * makes way. None is lent after `idle_us`; such are closed at the next take or give. NULL: no
 * memory. */
struct http_pool *http_pool_new(const struct http_upstream *upstream, size_t max_idle,
                                int64_t idle_us);
struct http_pool *http_pool_ref(struct http_pool *pool);
/* The last one closes what it keeps; lent connections must have come back. Accepts NULL. */
void http_pool_unref(struct http_pool *pool);

/* Whether a pool made for that upstream would lend the same connections. */
bool http_pool_serves(const struct http_pool *pool, const struct http_upstream *upstream,
                      int64_t idle_us);

/* NULL: requests may go there. A literal: what the guard of its name says of the addresses. */
const char *http_pool_refusal(const struct http_pool *pool);

#define HTTP_POOL_FORBIDDEN 4096 /* beside errno: the guard refuses the addresses */

/* A connection: the kept one used last, or with `fresh` or none kept a new one. `*ret_conn` is lent
 * until http_pool_give. 0, -ETIMEDOUT, -errno, -HTTP_POOL_FORBIDDEN (nothing of a message was
 * sent); `*ret_problem`: a literal, where TLS failed or the guard refuses. */
int http_pool_take(struct http_pool *pool, bool fresh, int64_t deadline_us,
                   struct http_conn **ret_conn, const char **ret_problem);

/* Gives a connection back: kept when `reusable` (its last message was read to its end and both
 * sides agreed to keep it) and no byte follows that message, closed otherwise. */
void http_pool_give(struct http_pool *pool, struct http_conn *conn, bool reusable);

#endif
