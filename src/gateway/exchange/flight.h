/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flight: slots of max_in_flight and of a tenant's share of it: taken before begin, so that
 * simultaneous begins cannot pass the limit together; given back by an exchange that waits, or
 * that does not own the operation after all. One that owns it after a wait takes a slot beyond the
 * limit: what was admitted runs.
 */
#ifndef PAWL_GATEWAY_EXCHANGE_FLIGHT_H
#define PAWL_GATEWAY_EXCHANGE_FLIGHT_H

#include "gateway/exchange/exchange.h"

/* ADMIT: takes a slot, before anything is acquired. */
enum exchange_step flight_admit(struct exchange *x);

/* An owner that gave its slot back while it waited takes one, whatever the limit. */
void flight_take_beyond(struct exchange *x);
void flight_give_back(struct exchange *x);

#endif
