/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of the config, made ready for bind and connect. */
#ifndef PAWL_DAEMON_RESOLVE_H
#define PAWL_DAEMON_RESOLVE_H

#include "config/config.h"
#include "http/call/pool.h"

/* Resolves host and port to listen on. Blocks: start-up only. False: `*ret_problem` (mem_free) is
 * one line that says why.
 */
bool resolve_address(const struct url_authority *address, struct sockaddr_storage *ret_address,
                     char **ret_problem);

/* Why nobody could listen on the address of the option: one line (mem_free), or NULL. `error`: a
 * negative errno; `denied` says what to do about -EACCES, NULL: nothing. */
char *listen_problem(const char *option, const struct url_authority *address, int error,
                     const char *denied);

/* Looks up the name of `upstream`, as http_name_find does, and reads the files of `upstream_tls`.
 * Fills a zeroed `*ret_upstream`, in part also where it gives false. */
bool resolve_upstream(const struct config *config, int stop_fd, struct http_upstream *ret_upstream,
                      char **ret_problem);

#endif
