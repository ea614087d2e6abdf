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

#define PLACES_SPARE ((size_t)64) /* connections above max_connections, on their way out */
#define TURNED_AWAY_MAX                                                                            \
    ((size_t)32) /* a loop: connections that are told that they may not stay                       \
                  */

#define VIA_SIZE sizeof "pawl-01234567"

/* What all loops share: counted, never waited for. */
struct gateway_shared {
    atomic_size_t connections;
    atomic_size_t leaving; /* those among them that are about to make room, or asked to */
    atomic_size_t in_flight;
    atomic_ullong buffered; /* bytes of bodies on ruled routes */
    atomic_size_t servers;  /* loops that have not ended */
    atomic_bool draining;
    struct peers *peers;   /* connections of each address */
    struct peers *tenants; /* requests in flight of each tenant */
};

struct client;

/* Clients that can make room for others. */
struct idle_list {
    struct client *oldest;
    struct client *newest;
    atomic_size_t n;            /* in the list; other loops look at it */
    size_t n_leaving;           /* taken out of the list to make room, and not gone yet */
    atomic_bool asked;          /* `make_room` is posted and was not run yet */
    struct loop_post make_room; /* another loop needs a place */
};

struct server {
    struct gateway *gateway;
    const struct gateway_config *config;
    struct gateway_shared *shared;
    struct loop *loop;
    struct thread thread;
    struct fiber_io listener;
    struct plan *plan; /* what new requests are served by */
    struct reload reload;
    struct client *clients;  /* every connection of this loop */
    struct idle_list idle;   /* those among them that can make room */
    size_t turned_away;      /* connections without a place that are being told so */
    struct parker *acceptor; /* the accept fiber's, to be woken by a drain; NULL: it has ended */
    struct loop_post drain;
    struct compress compress; /* of small bodies */
};

struct gateway {
    struct gateway_config config;
    char via[VIA_SIZE]; /* what it calls itself in Via: the same for all that share its store */
    struct gateway_shared shared;
    size_t n_servers;
    struct server servers[];
};

/* What a client connection is doing, for the drain. */
enum client_state {
    CLIENT_IDLE,      /* between two requests: closed at once */
    CLIENT_BUSY,      /* ends by itself */
    CLIENT_WAITING,   /* a duplicate that waits: gives up its place */
    CLIENT_LINGERING, /* it has its answer, and what it still sends is dropped: closed at once */
};

struct client {
    struct http_conn conn;
    struct server *server;
    struct plan *plan; /* one reference: of the request under way, else the loop's present one */
    struct client *next;
    struct client *prev;
    enum client_state state;
    bool cut_off;    /* an answer that ends with the connection was not whole: RST, no FIN */
    bool leaving;    /* it makes room for another: closed behind the request under way */
    bool makes_room; /* among shared->leaving */
    bool idle_listed;
    struct client *idle_older; /* with idle_listed */
    struct client *idle_newer;
    bool counted;           /* among its address's: max_connections_per_address */
    struct peer peer;       /* with that */
    struct parker *waiting; /* with CLIENT_WAITING: interrupted by a drain */
    struct slice address;   /* of the peer, as text */
    char address_text[64];
    struct slice let_by; /* the rule that says that this request passes; empty: none says so */
    char instance[46];   /* `instance` of the problem that it was answered with; "": none */
    struct network_address network;
    int64_t began;        /* boot time: the head of the request under way was read */
    uint64_t sent_before; /* conn.sent then */
};

/* Serves a connection to its end; the fiber's function, argument a struct client. */
void client_run(void *argument);

/* Whether the connection can serve another request after an answer to this one: nobody drains, it
 * need not make room, and what is left of its body is small enough to be read and dropped. */
bool client_may_go_on(const struct client *client, const struct http_request *request);

/* Append what an answer of pawl's own ends with: the lines for browsers; Connection, and the empty
 * line. `request` NULL: its head could not be read. */
void client_write_cors(const struct client *client, const struct http_request *request,
                       struct buf *head);
void client_end_head(const struct http_request *request, bool keep_alive, struct buf *head);

/* Sends 100 Continue where the client waits for it before its body. False: it did not go out. */
bool client_ask_for_body(struct client *client, const struct http_request *request);

/* The URI of this occurrence, for a problem and its log line (RFC 9457): made once a request. */
const char *client_instance(struct client *client);

/* Writes pawl's own error outside an exchange. */
struct refusal {
    const struct http_request *request; /* NULL: its head could not be read */
    enum error error;
    int status;          /* 0: the table's */
    struct slice detail; /* may be empty */
    bool keep_alive;
    const char *mark; /* Idempotency-Status; NULL: none */
    int unreached;    /* why there was no connection to the upstream: an errno, or 0 */
};
void client_refuse(struct client *client, const struct refusal *refusal);
/* The same for a connection for which there is no place. */
void client_refuse_crowd(struct client *client);

/* The accept fiber's function, argument a struct server. */
void server_accept(void *argument);

/* Whether the gateway is draining: answers say Connection: close. */
static inline bool server_draining(const struct server *server)
{
    return atomic_load_explicit(&server->shared->draining, memory_order_relaxed);
}

#endif
