/* SPDX-License-Identifier: Apache-2.0 */
/* What no rule covers goes through as it is, both bodies streaming; unsafe verbs, and requests with
 * a key, are marked `bypassed`. */
#ifndef PAWL_GATEWAY_PASS_PASS_H
#define PAWL_GATEWAY_PASS_PASS_H

#include "gateway/server.h"

/* Passes one request whose headers were read. True: the client connection may be used again. */
bool pass_run(struct client *client, const struct http_request *request);

#endif
