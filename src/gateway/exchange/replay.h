/* SPDX-License-Identifier: Apache-2.0 */
/* replay: a kept response as this request gets it. */
#ifndef PAWL_GATEWAY_EXCHANGE_REPLAY_H
#define PAWL_GATEWAY_EXCHANGE_REPLAY_H

#include "gateway/exchange/exchange.h"

/* Makes of the outcome that a begin found, which is unpacked, this request's own, with the members
 * that the rule copies. False: there is no room for that now. */
bool replay_copy_members(struct exchange *x);

#endif
