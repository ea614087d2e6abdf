/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `retry:` of a rule: further tries of the gateway's own, under the token of the first (contract
 * section 6, docs/decisions/0026). One is made only where the try before it cannot have had an
 * effect, or may have had one and the record is under `unknown: retry`.
 */
#ifndef PAWL_GATEWAY_EXCHANGE_RETRY_H
#define PAWL_GATEWAY_EXCHANGE_RETRY_H

#include "gateway/exchange/exchange.h"

/* Before the first try under a token. */
void retry_begin_course(struct exchange *x);

/* Before each try: x->deadline, by the rule's `try_timeout` within the time of all tries. */
void retry_time_try(struct exchange *x);

/* The disposition of a try, given the earlier tries under its token: if one of them may have had
 * its effect, a later response that says "not done" does not end the doubt. */
struct disposition retry_keep_doubt(struct exchange *x, struct disposition disposition);

/* After a try, while its response is there: whether another one follows, at x->retry_at. */
bool retry_plans_again(struct exchange *x, enum exchange_end end);

#endif
