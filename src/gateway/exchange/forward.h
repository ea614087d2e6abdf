/* SPDX-License-Identifier: Apache-2.0 */
/* forward: what goes upstream: the request, once, under the token that was acquired; or a probe. */
#ifndef PAWL_GATEWAY_EXCHANGE_FORWARD_H
#define PAWL_GATEWAY_EXCHANGE_FORWARD_H

#include "gateway/exchange/exchange.h"

/* FORWARD: sends the request under the attempt's token, and reads what becomes of it. */
enum exchange_step forward_request(struct exchange *x);

/* Nothing was sent under this token: it is released, and the next begin is a new attempt (invariant
 * 13). */
enum exchange_step forward_give_back(struct exchange *x);

/* PROBE: asks the upstream what became of the operation (contract section 5, `unknown: probe`). A
 * probe is an acquisition of its own, and only a GET. */
enum exchange_step forward_probe(struct exchange *x);

/* UNPROTECTED: sends the request without any record: `store_down: pass`. */
enum exchange_step forward_unprotected(struct exchange *x);

#endif
