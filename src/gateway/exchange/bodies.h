/* SPDX-License-Identifier: Apache-2.0 */
/* bodies: memory of bodies, counted across all loops against max_buffered (contract section 4). */
#ifndef PAWL_GATEWAY_EXCHANGE_BODIES_H
#define PAWL_GATEWAY_EXCHANGE_BODIES_H

#include "gateway/exchange/exchange.h"

/* Counts the bodies that are held now, and `more` bytes that are about to come. True: all bodies
 * together are within max_buffered. */
bool bodies_count(struct exchange *x, uint64_t more);
/* Whether they would be admitted; reserves nothing. */
bool bodies_would_fit(const struct exchange *x, uint64_t more);
void bodies_release(struct exchange *x);

/* Counts an outcome while it is on its way, once however many hold it. False: with it they are not
 * within max_buffered (it is held all the same). Drop also gives the reference back. */
bool bodies_hold(struct exchange *x, struct outcome *outcome);
void bodies_drop(struct exchange *x, struct outcome *outcome);

/* Packs the body of an outcome for the store (outcome_pack), and counts that until the bodies are
 * counted next. */
void bodies_pack(struct exchange *x, struct outcome *outcome);
/* Decompresses the response found by a begin. */
enum outcome_unpacked bodies_unpack_found(struct exchange *x);

/* Reads the request's body into x->body, counting as it grows: a client that sends slowly, or
 * announces more than it sends, holds no more than came. `*ret_fits` false: there was no room for
 * all of it. */
enum http_read bodies_read_request(struct exchange *x, int64_t deadline_us, bool *ret_fits);

/* Reads the upstream's body into x->response. Counted too, but never refused: the effect has
 * happened, and its response is not to be lost. New requests are, until then. */
enum http_call_result bodies_read_response(struct exchange *x, int64_t deadline_us);

/* The whole body of x->response came in that coding: from now on it is `coded`, and `body` what is
 * in it. False: nobody can read it. */
bool bodies_decode_response(struct exchange *x, struct slice coding);

#endif
