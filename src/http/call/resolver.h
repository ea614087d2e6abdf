/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resolver: asks the system for the addresses of a host. Builds with hooks look into the file that
 * $PAWL_TEST_HOSTS names first, at every call, so that a test says what a name is answered with
 * and changes its mind: lines of a host and its addresses.
 */
#ifndef PAWL_HTTP_RESOLVER_H
#define PAWL_HTTP_RESOLVER_H

#include <netdb.h>

/* As getaddrinfo for a TCP connection; its result is given back by freeaddrinfo. Blocks. */
int resolver_ask(const char *host, const char *port, struct addrinfo **ret_found);

#endif
