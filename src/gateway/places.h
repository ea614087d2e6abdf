/* SPDX-License-Identifier: Apache-2.0 */
/*
 * places: who may hold a client connection. There are max_connections places over all loops. When
 * they are taken, an idle connection of this loop makes room for a newcomer: one that waits for a
 * request, has not sent the whole head of one, or lingers behind its answer; the one that has done
 * so longest goes first. So whoever sends nothing, or a head byte by byte, keeps nobody out. Where
 * this loop has none, another is asked for its own, and the newcomer waits a moment. Until one is
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

/* The client may make room for another from now on, or no longer; then: whether a request came. */
void places_idle(struct client *client);
/* Others are to make room before it: it has sent something. */
void places_newest(struct client *client);
void places_busy(struct client *client, bool came);

#endif
