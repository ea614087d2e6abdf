/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events: each answer is counted once, where it is written, and each request has one log line when
 * it has ended (contract section 10; docs/decisions/0007 says what counts as what).
 */
#ifndef PAWL_GATEWAY_EVENTS_H
#define PAWL_GATEWAY_EVENTS_H

#include "gateway/exchange/exchange.h"

/* ---- requests with a rule ---- */

/* Counts the answer that is about to leave, and how long it took. */
void exchange_count(const struct exchange *x);

/* Remembers the state in which the record was found, at the first decision. */
void exchange_note_state(struct exchange *x, enum engine_verdict verdict);

/* Makes attempt.origin: which request this is, for the person who finds its record unknown. */
void exchange_note_origin(struct exchange *x);

/* One line about how it ended. */
void exchange_log(const struct exchange *x);

/* Counts a refusal for want of what a limit bounds. */
void limit_count(const struct server *server, enum metrics_limit limit);

/* ---- the upstream ---- */

/* Counts how long an exchange took, for the rule of that name ("": none). */
void upstream_took(const struct server *server, struct slice rule, const struct http_call *call);

/* Counts what it came to: a response, or why there was none. */
void upstream_ended(const struct server *server, const struct http_call *call,
                    enum http_call_result result);

/* ---- requests without one ---- */

/* Counts an answer of the upstream that passes. */
void pass_count(const struct client *client, const char *mark);

/* One line about a request that passed; status 0: it had no answer. */
void pass_log(const struct client *client, const struct http_request *request, int status,
              const char *mark);

/* Counts pawl's own error and writes its line. */
void refusal_report(const struct client *client, const struct refusal *refusal, int status);

/* ---- all ---- */

/* Gives the series of these rules their zeros. */
void rules_count_from_zero(const struct gateway_config *config, const struct rule_set *rules);

#endif
