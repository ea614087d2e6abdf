/* SPDX-License-Identifier: Apache-2.0 */
/* authorize: may this caller act as this tenant? */
#ifndef PAWL_GATEWAY_EXCHANGE_AUTHORIZE_H
#define PAWL_GATEWAY_EXCHANGE_AUTHORIZE_H

#include "gateway/exchange/exchange.h"

/* AUTHORIZE: asks the upstream, where the rule says so. */
enum exchange_step authorize_caller(struct exchange *x);

#endif
