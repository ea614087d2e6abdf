/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server: one loop thread of the gateway, and what its fibers share. Nothing in it is locked but
 * what is marked shared.
 */
#ifndef PAWL_GATEWAY_SERVER_H
#define PAWL_GATEWAY_SERVER_H

#include "base/compress.h"
#include "core/errors.h"
#include "gateway/reload.h"
#include "http/peers.h"
#include "http/server.h"

#define VIA_SIZE sizeof "pawl-01234567"

/* What all loops share: counted, never waited for. */
struct gateway_shared {
    atomic_size_t in_flight;
    atomic_ullong buffered; /* bytes of bodies on ruled routes */
    struct peers *tenants;  /* requests in flight of each tenant */
};

/* The `data` of its loop's sessions. */
struct server {
    struct gateway *gateway;
    const struct gateway_config *config;
    struct gateway_shared *shared;
    struct plan *plan; /* what new requests are served by */
    struct reload reload;
    struct compress compress; /* of small bodies */
};

struct gateway {
    struct gateway_config config;
    char via[VIA_SIZE]; /* what it calls itself in Via: the same for all that share its store */
    struct gateway_shared shared;
    struct http_server *http;
    size_t n_servers;
    struct server servers[];
};

struct client {
    struct http_session session; /* first: the two are cast into each other */
    struct server *server;
    struct plan *plan;    /* one reference, of the request under way; NULL between two */
    struct slice address; /* of the peer, as text */
    struct slice let_by;  /* the rule that says that this request passes; empty: none says so */
    char instance[46];    /* `instance` of the problem that it was answered with; "": none */
    struct network_address network;
};

/* What a client connection is served by. */
extern const struct http_service client_service;

/* Appends the lines for browsers of an answer of pawl's own. */
void client_write_cors(const struct client *client, struct buf *head);

/* The URI of this occurrence, for a problem and its log line (RFC 9457): made once a request. */
const char *client_instance(struct client *client);

/* Writes pawl's own error outside an exchange. */
struct refusal {
    enum error error;
    int status;          /* 0: the table's */
    struct slice detail; /* may be empty */
    bool keep_alive;
    const char *mark; /* Idempotency-Status; NULL: none */
    int unreached;    /* why there was no connection to the upstream: an errno, or 0 */
};
void client_refuse(struct client *client, const struct refusal *refusal);

#endif
