/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAWL_GATEWAY_EXCHANGE_RUN_H
#define PAWL_GATEWAY_EXCHANGE_RUN_H

#include "gateway/server.h"

/* Runs a request that `found` says a rule covers. True: the connection may be used again. */
bool exchange_run(struct client *client, const struct http_request *request,
                  const struct rule_found *found);

#endif
