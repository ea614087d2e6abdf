/* SPDX-License-Identifier: Apache-2.0 */
/*
 * places: who may hold a client connection. There are max_connections places over all loops. When
 * they are taken, the connection of this loop that has been idle longest (between two requests, or
 * before its first) makes room for a newcomer: one that sends nothing keeps nobody out. Where this
 * loop has none, another is asked for its own, and the newcomer waits a moment. Until one is
 * gone there is one connection more, PLACES_SPARE at the most; so the loop accepts no more while
 * PLACES_LEAVING_MAX are about to go.
 */
#ifndef PAWL_GATEWAY_PLACES_H
#define PAWL_GATEWAY_PLACES_H

#include "gateway/server.h"

#define PLACES_LEAVING_MAX 8

void places_init(struct server *server);

/* Takes a place; from the fiber that accepts. False: all are taken, and nobody is idle. */
bool places_take(struct server *server);
/* Gives the client's place back. */
void places_leave(struct client *client);

/* Before accepting: waits until those that make room are gone. */
void places_wait(const struct server *server);

/* The client waits for a request from now on; or no longer, and whether one came. */
void places_idle(struct client *client);
void places_busy(struct client *client, bool came);

#endif
