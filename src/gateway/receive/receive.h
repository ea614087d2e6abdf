/* SPDX-License-Identifier: Apache-2.0 */
/*
 * receive: an event of `inbox:`. Its request is read and keyed as that of an exchange is, verified
 * over the bytes as they came, and stored before its sender is told (contract section 9). Nothing
 * of it is forwarded: the handler is called later (webhook/handler.h).
 */
#ifndef PAWL_GATEWAY_RECEIVE_RECEIVE_H
#define PAWL_GATEWAY_RECEIVE_RECEIVE_H

#include "gateway/server.h"

/* Receives a request that `found` says a source takes. True: the connection may be used again. */
bool receive_event(struct client *client, const struct http_request *request,
                   const struct rule_found *found);

#endif
