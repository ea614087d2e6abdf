/* SPDX-License-Identifier: Apache-2.0 */
/* key: what the operation of an exchange is called, to whom. */
#ifndef PAWL_GATEWAY_EXCHANGE_KEY_H
#define PAWL_GATEWAY_EXCHANGE_KEY_H

#include "gateway/exchange/exchange.h"

/* The key as it is shown, and as probes ask by it: the key text; with {window:} the window's begin
 * behind it, so that two windows are two keys to the upstream, too. */
struct slice operation_key(struct exchange *x);

/* The Idempotency-Key line for the upstream: operation_key in the rule's one spelling. Of a record
 * from before there was one (its recipe says so) it is as the client wrote it: so the upstream
 * knows an operation that is in doubt. */
struct slice upstream_key(struct exchange *x);

/* The key of the record that the exchange owns, with its window: this client's or, where it goes on
 * in another one's record, that one's, which no client is told. */
struct slice holder_key(struct exchange *x);

#endif
