/* SPDX-License-Identifier: Apache-2.0 */
/* client: what a client connection is served by: which way each of its requests takes. */
#ifndef PAWL_GATEWAY_CLIENT_H
#define PAWL_GATEWAY_CLIENT_H

#include "http/server.h"

extern const struct http_service client_service;

#endif
