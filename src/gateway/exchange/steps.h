/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of an exchange, each in the source of its name: identify.c (and identify_names.c),
 * authorize.c, decide.c, forward.c, retry.c, settle.c, ADMIT in flight.c. They return the next;
 * JUDGE is in exchange.h, RESPOND in reply.h.
 */
#ifndef PAWL_GATEWAY_EXCHANGE_STEPS_H
#define PAWL_GATEWAY_EXCHANGE_STEPS_H

#include "gateway/exchange/exchange.h"

/* IDENTIFY: tenant, key, body, hashes (contract sections 3 and 4): fills
 * x->attempt. What the headers decide is decided before the body is asked for. */
enum exchange_step identify_request(struct exchange *x);
/* Hashes again by the recipe of the record that was found, and decides again. */
enum exchange_step identify_again(struct exchange *x);
/* Appends how this request differs from the first one under its key, for the response to a
 * mismatch of the target, or of the body. */
void identify_difference(struct exchange *x, bool target, struct buf *buf);

/* What IDENTIFY does of any request: reads tenant and body; understands and hashes the body; makes
 * its key by the rule's template. False: x->reply says why not. */
bool identify_read_request(struct exchange *x);
bool identify_read_payload(struct exchange *x);
bool identify_read_key(struct exchange *x);

/* Fills in the names of x->attempt, by its texts. False: no memory. */
bool identify_name(struct exchange *x);

/* Understands the request's body (found.facts.payload; `as_json`: whatever its type), and lets go
 * of that again: understood JSON takes up to 32 times its text, so it is held for as long as it is
 * looked at, and no wait. */
enum payload_error identify_open_payload(struct exchange *x, bool as_json);
void identify_close_payload(struct exchange *x);
/* Whether to understand it is a worker's. */
bool identify_takes_long(const struct exchange *x);

/* ADMIT: takes a slot of max_in_flight and of its tenant's share, before anything is acquired, so
 * that simultaneous begins cannot pass the limit together. An exchange that waits gives them back;
 * one that owns the operation after that takes them whatever the limit: what was admitted runs. */
enum exchange_step flight_admit(struct exchange *x);
void flight_take_beyond(struct exchange *x);
void flight_give_back(struct exchange *x);

/* AUTHORIZE: asks the upstream, where the rule says so, whether this caller may act as its tenant.
 */
enum exchange_step authorize_caller(struct exchange *x);

/* DECIDE: engine_begin, waiting where it is to wait, and the step that its verdict means. */
enum exchange_step decide_attempt(struct exchange *x);

/* FORWARD: sends the request, once, under the attempt's token, and reads what becomes of it. Of a
 * client that was told that nothing was done it is given back. */
enum exchange_step forward_request(struct exchange *x);
/* RETRY: waits for the time of the next try (retry.h); SETTLE: there is none. */
enum exchange_step retry_wait(struct exchange *x);
/* PROBE: asks the upstream what became of the operation (contract section 5, `unknown: probe`). A
 * probe is an acquisition of its own, and only a GET. */
enum exchange_step forward_probe(struct exchange *x);
/* INQUIRE: asks the upstream whether it was done before, and sends nothing yet (contract section 5,
 * `first:`); the same GET. */
enum exchange_step forward_inquiry(struct exchange *x);
/* UNPROTECTED: sends the request without any record: `store_down: pass`. */
enum exchange_step forward_unprotected(struct exchange *x);

/* SETTLE: stores x->disposition, what became of it, under the attempt's token; only then the client
 * may get it (invariants 3, 7 and 12). */
enum exchange_step settle_disposition(struct exchange *x);

#endif
