/* SPDX-License-Identifier: Apache-2.0 */
/*
 * certificates: headers by which a proxy that ends TLS says whose certificate a client showed. A
 * service believes them; so they are taken from peers in trust_forwarded alone. What was removed is
 * logged once for each family of names and peer, CERTIFICATES_LOGGED at the most. From any loop.
 */
#ifndef PAWL_GATEWAY_CERTIFICATES_H
#define PAWL_GATEWAY_CERTIFICATES_H

#include "base/log.h"
#include <stdatomic.h>

#define CERTIFICATES_LOGGED 1024 /* lines of a process */

struct certificates_logged {
    atomic_ullong at[CERTIFICATES_LOGGED]; /* peer and family; 0: free */
};

/* Whether a service may take it for such a header: one that reads `_` as `-`, too (CGI). */
bool certificates_names(struct slice name);

/* It was removed from a request of this peer. `log` NULL: there is none. */
void certificates_removed(struct certificates_logged *told, struct log *log, struct slice peer,
                          struct slice name);

#endif
