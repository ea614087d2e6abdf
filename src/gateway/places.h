/* SPDX-License-Identifier: Apache-2.0 */
/*
 * places: who may hold a client connection. There are max_connections places over all loops. When
 * they are taken, the connection of this loop that has been idle longest (between two requests, or
 * before its first) makes room for a newcomer: one that sends nothing keeps nobody out. Until it is
 * gone there is one connection more, PLACES_SPARE at the most; so the loop accepts no more while
 * PLACES_LEAVING_MAX are about to go.
 */
#ifndef PAWL_GATEWAY_PLACES_H
#define PAWL_GATEWAY_PLACES_H

#include "gateway/server.h"

#define PLACES_LEAVING_MAX 8

/* Takes a place. False: all are taken, and nobody here is idle. */
bool places_take(struct server *server);
void places_leave(struct server *server);

/* Before accepting: waits until those that make room are gone. */
void places_wait(const struct server *server);

/* The client waits for a request from now on; or no longer. */
void places_idle(struct client *client);
void places_busy(struct client *client);

#endif
