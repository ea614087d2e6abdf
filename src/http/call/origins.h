/* SPDX-License-Identifier: Apache-2.0 */
/*
 * origins: the connections of one loop to any URL: a pool (pool.h) for each origin, made when it is
 * first needed. The `max` origins used last are kept; whoever borrowed the pool of another goes on
 * with it to its end. No locks: fibers of one loop.
 */
#ifndef PAWL_HTTP_ORIGINS_H
#define PAWL_HTTP_ORIGINS_H

#include "base/text/url.h"
#include "http/call/call.h"

struct http_origins;

struct http_origins_config {
    struct tls_client *tls;   /* its files, for each https origin under its own name; NULL: none is
                                 asked for */
    const char *unix_socket;  /* where all connections go; NULL: to the host of the URL */
    struct http_guard *guard; /* judges URLs and where their hosts are; NULL: none does */
    size_t max;               /* origins kept, at least one */
    size_t max_idle;          /* connections kept, of each */
    int64_t idle_us;          /* and for how long */
    int64_t fresh_us;         /* how long the addresses of a name count */
};

/* Takes references of its own to `tls` and `guard`; `unix_socket` is borrowed. NULL: no memory. */
struct http_origins *http_origins_new(const struct http_origins_config *config);

/* Until then there were none: takes a reference. */
void http_origins_set_tls(struct http_origins *origins, struct tls_client *tls);

/* Accepts NULL. */
void http_origins_free(struct http_origins *origins);

/* The pool for a URL, with one reference of the caller's (http_pool_unref); looks the host up where
 * it is new, or was refused. DONE; UNREACHABLE, FORBIDDEN: `*ret_problem` is a literal that says
 * why; NO_MEMORY. */
enum http_call_result http_origins_find(struct http_origins *origins, const struct url *url,
                                        int64_t until_us, struct http_pool **ret_pool,
                                        const char **ret_problem);

/* A request of pawl's own. */
struct http_origins_request {
    struct slice method;
    const struct url *url;
    const struct headers *headers; /* with a Host, that one is sent; no field about the framing */
    struct slice body;
    bool has_body; /* says its length, also where that is 0 */
};

/* Appends its headers, the empty line included. */
void http_origins_write(struct buf *buf, const struct http_origins_request *request);

#endif
