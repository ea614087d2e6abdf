/* SPDX-License-Identifier: Apache-2.0 */
/* log: what is told of an exchange to those who look later: its log line, and its record's origin.
 */
#ifndef PAWL_GATEWAY_EXCHANGE_LOG_H
#define PAWL_GATEWAY_EXCHANGE_LOG_H

#include "gateway/exchange/exchange.h"

/* Remembers the state in which the record was found, at the first decision. */
void exchange_note_state(struct exchange *x, enum engine_verdict verdict);

/* Makes attempt.origin: which request this is, for the person who finds its record unknown. */
void exchange_note_origin(struct exchange *x);

/* One line about how it ended. */
void exchange_log(const struct exchange *x);

#endif
