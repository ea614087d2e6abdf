/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `retry:` of a rule: further tries of the gateway's own (contract section 6, docs/decisions/0026,
 * 0062). One is made only where the try before it cannot have had an effect, or may have had one
 * and the record is under `unknown: retry`: under the same token, or, if a probe found out that
 * nothing was done, by a begin as any. They are one course, from the exchange's first try on.
 */
#ifndef PAWL_GATEWAY_EXCHANGE_RETRY_H
#define PAWL_GATEWAY_EXCHANGE_RETRY_H

#include "gateway/exchange/exchange.h"

/* Before the first try under a token: begins the course of the exchange's tries, or goes on in it
 * after a probe. */
void retry_begin_course(struct exchange *x);

/* Nothing was sent: a first try does not count, nor does its time. */
void retry_take_back(struct exchange *x);

/* Before each try: x->deadline, by the rule's `try_timeout` within the time of all tries. */
void retry_time_try(struct exchange *x);

/* The disposition of a try, given the earlier tries under its token: if one of them may have had
 * its effect, a later response that says "not done" does not end the doubt. */
struct disposition retry_keep_doubt(struct exchange *x, struct disposition disposition);

/* After a try, while its response is there: whether another one follows, at x->retry_at. */
bool retry_plans_again(struct exchange *x, enum exchange_end end);

/* The rule's `unknown:` sends nothing again, and no probe is to find out more. Not counted as
 * exhausted: nothing was to be tried. */
void retry_ends_unknown(const struct exchange *x);

/* After a try that a probe found not to be done, which is stored: the same, by a begin. */
bool retry_plans_begin(struct exchange *x);

#endif
