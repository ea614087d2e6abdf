/* SPDX-License-Identifier: Apache-2.0 */
/* settle: stores what became of an exchange with the upstream (invariants 3, 7 and 12). */
#ifndef PAWL_GATEWAY_EXCHANGE_SETTLE_H
#define PAWL_GATEWAY_EXCHANGE_SETTLE_H

#include "gateway/exchange/exchange.h"

/* SETTLE: stores x->fate, under the attempt's token; and only then it may be told. */
enum exchange_step settle_fate(struct exchange *x);

#endif
