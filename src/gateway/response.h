/* SPDX-License-Identifier: Apache-2.0 */
/*
 * response: how every response leaves, of whatever way through the gateway: its headers are made
 * line by line in `headers`, and one of the calls below ends it, counts it (once, before its first
 * byte leaves) and writes it.
 *
 *      response_make -> headers_write_field(&response.headers, ..) -> response_write | _stream |
 * _switch | _write_problem
 */
#ifndef PAWL_GATEWAY_RESPONSE_H
#define PAWL_GATEWAY_RESPONSE_H

#include "core/web/problem.h"
#include "gateway/events.h"
#include "gateway/headers_out.h"
#include "gateway/result.h"
#include "gateway/server.h"
#include "http/call/call.h"

struct response {
    struct client *client;
    int status;
    enum result result;
    bool as_is;      /* an upstream's that passes: no Date and no lines for browsers are added */
    bool keep_alive; /* the connection may go on behind it; made false where it may not */
    struct buf headers;
};

#define RESPONSE_AUTO __attribute__((cleanup(response_fini)))

/* The detail of ERROR_LIMITED where a newcomer needs the connection's slot. */
#define RESPONSE_FULL "all client connections of this gateway are in use"

/* Begins one with its status line; `reason` empty: the standard phrase. */
struct response response_make(struct client *client, int status, struct slice reason,
                              enum result result);
void response_fini(struct response *response);

/* With a body from memory, where its status has one. True: the connection may go on. */
bool response_write(struct response *response, struct slice body);

/* With the body of the upstream's response that `call` is at, as it comes, behind what was read of
 * it before. True: the connection may go on. */
bool response_stream(struct response *response, const struct http_call *call, struct slice begun);

/* Sends the 101 that ends HTTP on this connection. False: not all of it could be sent. */
bool response_switch(struct response *response);

/* pawl's own error, in the rule's words (NULL: those for no rule); `retry_after` seconds, 0: not
 * said. True: the connection may go on. */
bool response_write_problem(struct response *response, struct problem *problem,
                            const struct error_texts *texts, uint64_t retry_after);

/* Answers with pawl's own error outside an exchange (status 0: the table's), and writes its log
 * line. `detail` may be empty. True: the connection may go on, if `keep_alive` lets it. */
bool response_refuse(struct client *client, struct event event, struct slice detail,
                     bool keep_alive);

#endif
