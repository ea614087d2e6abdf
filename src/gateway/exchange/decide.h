/* SPDX-License-Identifier: Apache-2.0 */
/* decide: asks the store what is to be done, waiting where it is to wait. */
#ifndef PAWL_GATEWAY_EXCHANGE_DECIDE_H
#define PAWL_GATEWAY_EXCHANGE_DECIDE_H

#include "gateway/exchange/exchange.h"

/* DECIDE: engine_begin, and the step that its verdict means. */
enum exchange_step decide_attempt(struct exchange *x);

#endif
