/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server: one loop thread of the gateway, what its fibers share, and how client.c serves them.
 * Nothing in it is locked but what is marked shared.
 */
#ifndef PAWL_GATEWAY_SERVER_H
#define PAWL_GATEWAY_SERVER_H

#include "base/compress/compress.h"
#include "base/thread.h"
#include "core/retry/retry.h"
#include "gateway/certificates.h"
#include "gateway/config.h"
#include "gateway/plan.h"
#include "http/peers.h"
#include "http/server.h"
#include <stdatomic.h>

#define VIA_SIZE sizeof "pawl-01234567"

/* What all loops share: counted, and never waited for longer than another one counts. */
struct gateway_shared {
    atomic_size_t in_flight;
    atomic_ullong buffered; /* bytes of bodies on ruled routes */
    struct peers *tenants;  /* requests in flight of each tenant */
    struct mutex retrying;  /* for `budget`: of retries to the upstream, of all loops together */
    struct retry_budget budget;
    struct certificates_logged told;
};

/* A loop's part in a reload (reload.c). */
struct reload {
    struct loop_post post;
    struct plan *next; /* prepared; main's until it is taken, then the loop's */
    bool held;         /* the loop's: requests that are about to begin are held back */
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
    atomic_size_t reloading;       /* loops whose last post was not called yet */
    struct thread_parker reloaded; /* the main thread's: none is left */
    atomic_bool prepared;          /* other plans were made, and are in force or dropped soon */
    size_t n_servers;
    struct server servers[];
};

struct client {
    struct http_session session; /* first: the two are cast into each other */
    struct server *server;
    struct plan *plan;    /* one reference, of the request under way; NULL between two */
    struct arena *arena;  /* of the request under way; NULL: there is none */
    struct slice address; /* of the peer, as text */
    struct slice rule;    /* by which the request is counted; empty: none */
    char instance[46];    /* `instance` of the problem that it was answered with; "": none */
    struct network_address network;
};

/* How a client connection is served: client.c. */
extern const struct http_service client_service;

#endif
