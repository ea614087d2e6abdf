/* SPDX-License-Identifier: Apache-2.0 */
/* upstream: one exchange with it: connect, send, read. What may have left is never sent again. */
#ifndef PAWL_GATEWAY_EXCHANGE_UPSTREAM_H
#define PAWL_GATEWAY_EXCHANGE_UPSTREAM_H

#include "gateway/exchange/exchange.h"

/* Sends the client's request or, with a `target`, a GET of pawl's own with what of its headers may
 * go along, and reads the response: its headers and, unless it is too large or a stream, its body
 * into x->response. x->call holds the connection, and the headers of what it answered with it,
 * until it is closed. No memory for the headers: nothing is sent. */
enum exchange_end upstream_exchange(struct exchange *x, struct slice target);

#endif
