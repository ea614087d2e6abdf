/* SPDX-License-Identifier: Apache-2.0 */
/* reply: what the client gets: decided by the step that knows, written in one place. */
#ifndef PAWL_GATEWAY_EXCHANGE_REPLY_H
#define PAWL_GATEWAY_EXCHANGE_REPLY_H

#include "gateway/exchange/exchange.h"

/* ---- for the steps: each says what, and that RESPOND is next ---- */

/* pawl's own error. `detail` (NULL: none) goes behind what x->detail holds; together they are a
 * sentence about this case. */
enum exchange_step reply_error(struct exchange *x, enum error error, const char *detail);
/* The same, where the request came to something else than the error says in general. */
enum exchange_step reply_result(struct exchange *x, enum error error, const char *detail,
                                enum result result);

/* The failure that a probe was to clear up. A response of the upstream that was in doubt goes to
 * the client as it is; else pawl says what happened. `not_done`: so the probe found, and that is
 * stored; else it settled nothing. */
enum exchange_step reply_failure(struct exchange *x, bool not_done);
/* An inquiry found that it was not done, which is not believed yet. */
enum exchange_step reply_unbelieved(struct exchange *x);

/* max_buffered leaves no room for a body. */
enum exchange_step reply_no_room(struct exchange *x);

/* An upstream's response, as the first one. One that is not whole is read on from x->call. */
enum exchange_step reply_upstream(struct exchange *x, const struct upstream_response *response,
                                  enum result result);

/* The outcome that was found, or (RESULT_ACKED) no more than that there is one. */
enum exchange_step reply_found(struct exchange *x, enum result result);

/* Nothing: the client left, or may get no response any more. */
enum exchange_step reply_nothing(struct exchange *x);

/* ---- responding ---- */

/* Sends pawl's own error to a client that still waits; the exchange goes on. */
void reply_early(struct exchange *x, enum error error, const char *detail);

/* The same for one whose own time is over, if it is. `goes_on`: its operation may still be done. */
bool reply_late(struct exchange *x, bool goes_on);

/* RESPOND: writes the response, if the client still waits. */
enum exchange_step reply_write(struct exchange *x);

#endif
