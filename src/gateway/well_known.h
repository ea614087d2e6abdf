/* SPDX-License-Identifier: Apache-2.0 */
/* The published policy, served by pawl itself: GET and HEAD of /.well-known/idempotency. */
#ifndef PAWL_GATEWAY_WELL_KNOWN_H
#define PAWL_GATEWAY_WELL_KNOWN_H

#include "gateway/server.h"

/* Whether the request asks for the policy, and the plan publishes it. Rules never come into it:
 * they cover no GET and no HEAD. */
bool well_known_is_asked(const struct client *client, const struct http_request *request);

/* Responds with it. True: the connection may be used again. */
bool well_known_respond(struct client *client, const struct http_request *request);

#endif
