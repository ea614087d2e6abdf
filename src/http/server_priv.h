/* SPDX-License-Identifier: Apache-2.0 */
/* What server.c, session.c and slots.c share. Internal to http; users include server.h. */
#ifndef PAWL_HTTP_SERVER_PRIV_H
#define PAWL_HTTP_SERVER_PRIV_H

#include "base/thread.h"
#include "http/server.h"
#include <stdatomic.h>

#define HTTP_LEAVING_MAX 8 /* connections of a loop that make room at one time */

/* Those that can make room for others, by what they do. */
enum http_queue_kind {
    HTTP_QUEUE_IDLE,  /* also: reads headers, lingers */
    HTTP_QUEUE_OWING, /* at once only where its body stalls, as the next */
    HTTP_QUEUE_PASSING,
    HTTP_QUEUES
};

/* In the order of queued_at. */
struct http_queue {
    struct http_session *oldest;
    struct http_session *newest;
    _Atomic int64_t from; /* boot time: from when on its oldest may go, other loops look at it;
                             CLOCK_NEVER: there is none */
};

struct http_idle {
    struct http_queue queues[HTTP_QUEUES];
    size_t n_leaving;           /* taken out of the list to make room, and not ended yet */
    atomic_bool asked;          /* `make_room` is posted and was not run yet */
    struct loop_post make_room; /* another loop needs a slot */
};

struct http_door {
    struct http_server *server;
    struct loop *loop;
    struct thread thread;
    struct fiber_io listener;
    struct http_limits limits;
    void *data;
    struct http_session *sessions; /* all of this loop, the newest first */
    struct http_idle idle;
    size_t turned_away;      /* connections without a slot that are being refused */
    struct parker *acceptor; /* of the fiber that accepts; NULL: it has not begun */
    atomic_bool needs_slot;  /* it waits for one that another loop makes */
    struct loop_post drain;
    struct loop_post cut;
};

struct http_server {
    struct http_server_config config;
    struct peers *peers; /* connections of each address */
    atomic_size_t connections;
    atomic_size_t leaving;    /* those among them that are about to make room, or asked to */
    atomic_size_t needs_slot; /* loops that wait for a slot */
    atomic_size_t running;    /* loops that have not ended */
    int ended;                /* eventfd: readable once none runs */
    atomic_bool draining;
    atomic_bool cutting;
    size_t n_doors;
    struct http_door doors[];
};

/* ---- server.c ---- */

/* Closes the connection and frees it with its slot. */
void http_session_end(struct http_session *session);

/* ---- session.c ---- */

/* Serves a connection to its end; the fiber's function, argument a struct http_session. */
void http_session_run(void *argument);

/* Lets the service answer that there is nothing to serve. */
void http_session_refuse(struct http_session *session, enum http_refused why,
                         const struct http_request *malformed);

/* ---- slots.c: which connections may stay ---- */

void http_slots_init(struct http_door *door);

/* Takes a slot; from the fiber that accepts. False: all are taken, and none is idle. Until the
 * one that makes room has ended there is one connection more, HTTP_SLOTS_SPARE at the most. */
bool http_slots_take(struct http_door *door);
/* Gives the session's slot back. */
void http_slots_leave(struct http_session *session);

/* Before accepting: waits while HTTP_LEAVING_MAX are about to go. */
void http_slots_wait(const struct http_door *door);

/* The session's next state, and with it whether it may make room for another. */
void http_slots_move(struct http_session *session, enum http_session_state next);

#endif
