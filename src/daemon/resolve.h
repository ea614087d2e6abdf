/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of the config, made ready for bind and connect. Blocks: start-up only. */
#ifndef PAWL_DAEMON_RESOLVE_H
#define PAWL_DAEMON_RESOLVE_H

#include "config/config.h"
#include "http/pool.h"

/* Resolves host and port to listen on. False: `*ret_problem` (mem_free) is one line that says why.
 */
bool resolve_address(const struct config_address *address, struct sockaddr_storage *ret_address,
                     unsigned *ret_len, char **ret_problem);

/* Resolves host and port to connect to, its first two addresses. As resolve_address. */
bool resolve_upstream(const struct config_address *address, struct http_upstream *ret_upstream,
                      char **ret_problem);

#endif
