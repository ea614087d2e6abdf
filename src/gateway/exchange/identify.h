/* SPDX-License-Identifier: Apache-2.0 */
/*
 * identify: who asks for what: tenant, key, body, hashes (contract sections 3 and 4). What can be
 * judged by the head is judged before the body is asked for.
 */
#ifndef PAWL_GATEWAY_EXCHANGE_IDENTIFY_H
#define PAWL_GATEWAY_EXCHANGE_IDENTIFY_H

#include "gateway/exchange/exchange.h"

/* IDENTIFY: fills x->attempt. The body is read unless it was, before a reload. */
enum exchange_step identify_request(struct exchange *x);

/* Hashes again by the recipe of the record that was found, and decides again. */
enum exchange_step identify_again(struct exchange *x);

/* Appends in what this request differs from the first one under its key, for the answer to a
 * mismatch of the target, or of the body. */
void identify_difference(struct exchange *x, bool target, struct buf *buf);

/* Understands the request's body (found.facts.payload; `as_json`: whatever its type), and lets go
 * of that again: understood JSON takes up to 32 times its text, so it is held for as long as it is
 * looked at, and no wait. */
enum payload_error payload_open(struct exchange *x, bool as_json);
void payload_close(struct exchange *x);

#endif
