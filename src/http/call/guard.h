/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard: where requests to URLs of other people's choosing may go (contract section 9, "Address
 * guard"). core/web/public_address.h knows what is public; a guard applies it to a URL before its
 * host is looked up, and to all that a look-up finds: one address that is refused refuses the name,
 * as whoever answers for it chooses which one comes first. A name (name.h) keeps only addresses
 * that were judged, and connections are made to those and to nothing else: a name that is answered
 * otherwise a moment later (DNS rebinding) changes nothing.
 *
 * Immutable, and shared by threads; the last reference frees it.
 */
#ifndef PAWL_HTTP_GUARD_H
#define PAWL_HTTP_GUARD_H

#include "base/text/url.h"
#include "core/web/networks.h"
#include <netdb.h>

struct http_guard;

struct http_guard_config {
    struct networks allow; /* an operator's word: these may be connected to */
    bool allow_http;       /* and URLs may be plain http */
};

/* NULL: no memory. */
struct http_guard *http_guard_new(const struct http_guard_config *config);
/* Both accept NULL. */
struct http_guard *http_guard_ref(struct http_guard *guard);
void http_guard_unref(struct http_guard *guard);

/* NULL: nothing is wrong with the URL. Otherwise a literal, as in "the URL ...". */
const char *http_guard_url_refusal(const struct http_guard *guard, const struct url *url);

/* NULL: requests may go to all of these addresses. Otherwise a literal that says what one of them
 * is, as in "it has ...". Asks the system for this machine's own addresses. */
const char *http_guard_refusal(const struct http_guard *guard, const struct addrinfo *found);

#endif
