/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cors: which pages of other origins may read pawl's responses (contract section 5, `cors:`). A
 * browser hides a response without these lines from the page, which takes it for a network error
 * and tries again under a new key. Pure.
 */
#ifndef PAWL_CORE_CORS_H
#define PAWL_CORE_CORS_H

#include "base/buf.h"
#include "base/headers.h"

#define CORS_ORIGINS_MAX 32

/* All zero: off, nothing is added. */
struct cors_policy {
    bool any;         /* `*`; never with `credentials` */
    bool credentials; /* responses to requests with cookies may be read, too */
    size_t n;
    struct slice origins[CORS_ORIGINS_MAX]; /* as browsers send them; somebody else's texts */
};

static inline bool cors_is_on(const struct cors_policy *cors)
{
    return cors->any || cors->n > 0;
}

/* Whether `text` is an origin as browsers send it: scheme://host[:port], in lower case, without the
 * scheme's own port, without a slash at its end (RFC 6454 6.2). */
bool cors_is_origin(struct slice text);

/* Whether a response's line says what pawl says itself: Access-Control-*. */
bool cors_is_own(struct slice name);

/* Appends the lines for a request that came from `origin` (its Origin line; empty: none). `fields`
 * are the response's other lines: Vary is not said twice. Nothing when it is off. */
void cors_write_fields(const struct cors_policy *cors, struct slice origin, struct slice fields,
                       struct buf *buf);

#endif
