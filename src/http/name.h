/* SPDX-License-Identifier: Apache-2.0 */
/*
 * name: a host and its addresses, which may change while a process runs. It is looked up when it is
 * found, later when a connection is to be made and the addresses are older than their time, and
 * when none could be made. Later look-ups run on a thread of their own: until they end, and when
 * they find nothing, the addresses of before go on. Under a guard (guard.h) each look-up is judged
 * as a whole, and one that is refused leaves no addresses. Shared by threads.
 */
#ifndef PAWL_HTTP_NAME_H
#define PAWL_HTTP_NAME_H

#include "http/call/guard.h"
#include <sys/socket.h>

#define HTTP_ADDRESSES_MAX 8 /* more are left out */

/* In the order in which they are to be tried. */
struct http_addresses {
    const char *refused; /* a literal: what the guard says of one of them, and n is 0; else NULL */
    size_t n;
    struct sockaddr_storage at[HTTP_ADDRESSES_MAX];
};

struct http_name;

struct http_name_config {
    struct slice host;
    uint16_t port;
    int64_t fresh_us;         /* how long addresses count as those of now */
    struct http_guard *guard; /* the name takes a reference of its own; NULL: none */
};

/* Looks it up, also on a thread of its own, which is left alone as soon as `stop_fd` (-1: none) is
 * readable: a resolver that does not answer holds up nothing else. NULL: `*ret_problem` is a
 * literal that says why; NULL: no memory. */
struct http_name *http_name_find(const struct http_name_config *config, int stop_fd,
                                 const char **ret_problem);

/* The same from a fiber, which waits until the deadline at most. */
struct http_name *http_name_find_in_fiber(const struct http_name_config *config,
                                          int64_t deadline_us, const char **ret_problem);

/* Both accept NULL. */
struct http_name *http_name_ref(struct http_name *name);
void http_name_unref(struct http_name *name);

/* Whether both say the same of the same host and port. Accepts NULL. */
bool http_name_equals(const struct http_name *a, const struct http_name *b);

/* The addresses as far as they are known. Never blocks on a resolver. */
void http_name_addresses(struct http_name *name, struct http_addresses *ret_addresses);

/* Reports that no connection could be made: the name is looked up again at once, but at most once a
 * second. */
void http_name_failed(struct http_name *name);

#endif
