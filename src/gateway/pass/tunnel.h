/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tunnel: a connection that left HTTP for the WebSocket protocol (RFC 6455): bytes pass both ways
 * unread, from the upstream's 101 until both sides have ended theirs, one breaks off, or nothing
 * moved for the idle time. A side that ends its own direction (half-close) still gets the other.
 * What has arrived and not left yet is bounded by TUNNEL_ROOM bytes a direction; a tunnel in which
 * nothing moves holds no buffer.
 */
#ifndef PAWL_GATEWAY_PASS_TUNNEL_H
#define PAWL_GATEWAY_PASS_TUNNEL_H

#include "http/conn.h"

#define TUNNEL_ROOM ((size_t)36 * 1024) /* not below what may lie behind headers */

/* Whether the client asks for it, in the one way in which every server reads it: GET of HTTP/1.1
 * without a body, one Upgrade line that says websocket, and Connection that names it. */
bool tunnel_asked_for(const struct http_request *request);

/* Whether this 101 agrees to just that. */
bool tunnel_agreed(const struct http_response *response);

/* Passes bytes, beginning with those that both sides sent behind their header sections. True: both
 * sides ended theirs, or nothing moved for `idle_us`. False: one broke off, or there was no memory.
 */
bool tunnel_run(struct http_conn *client, struct http_conn *upstream, int64_t idle_us);

#endif
