/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server: listens on one address and serves what connects, on one or more loops. It owns listeners,
 * loops and threads, and all that is the same whatever is served: which clients may connect, how
 * long a client may take, what becomes of a connection behind a response, and how everything ends.
 * What is served is a service: a few functions, called in the connection's fiber.
 *
 * A connection is a session. Its states:
 *
 *             accepted          first byte             whole headers
 *      (NEW) ----------> IDLE -------------> READING -------------> BUSY
 *                        |  ^                   |                    | |
 *                        |  '-------------------|--- responded, -----' | responded: the last one
 *                        |                      |    body read away    |
 *                        | idle too long,       | refused, too late    |
 *                        | drained              |                      |
 *                        '----------------> ENDING <-------------------'
 *                                           |   ^
 *                   what is still sent must |   | it closed, was silent, or its time is over
 *                   not reset the response  v   |
 *                                         LINGERING
 *
 * While a body is read from the client, the session is not BUSY but
 *
 *      OWING     the body is gathered (or dropped): nothing of the request was begun or forwarded
 *      PASSING   it is streamed on as it comes
 *
 * and BUSY again once it has come, or was given up.
 *
 * Slots: there are max_connections over all loops. When they are taken, a session makes room for a
 * newcomer, the longest first of
 *
 *  1. those that are idle, have not sent all their headers or linger, and those that are OWING and
 *     stall: over the last second or more the client sent less than HTTP_BODY_RATE_LEAST;
 *  2. if there are none on any loop: those that are PASSING and stall. Of their requests the other
 *     side has a part. So none is passed on that must end with a known outcome: such a body is
 *     gathered first.
 *
 * So a client that sends nothing, headers byte by byte or no body keeps none out; a client that
 * sends its body keeps its slot, and so does a request that is under way. A newcomer without a slot
 * is refused (HTTP_FULL). All times are microseconds, all deadlines absolute on the boot clock.
 *
 * The life of a session is in session.c.
 */
#ifndef PAWL_HTTP_SERVER_H
#define PAWL_HTTP_SERVER_H

#include "base/arena.h"
#include "http/address.h"
#include "http/conn.h"
#include "http/peers.h"
#include "http/settings.h"
#include <sys/socket.h>

struct http_server;
struct http_door; /* one loop's listener, and what came in by it */

#define HTTP_SLOTS_SPARE ((size_t)64)     /* connections above max_connections, on their way out */
#define HTTP_TURNED_AWAY_MAX ((size_t)32) /* a loop: those that are being refused */
#define HTTP_BODY_RATE_LEAST 1024         /* bytes a second: a body that comes slower stalls */

enum http_session_state {
    HTTP_SESSION_NEW,
    HTTP_SESSION_IDLE,
    HTTP_SESSION_READING,
    HTTP_SESSION_BUSY,
    HTTP_SESSION_OWING,
    HTTP_SESSION_PASSING,
    HTTP_SESSION_ENDING,
    HTTP_SESSION_LINGERING,
};

/* The first member of the service's own struct of a connection, which begins as zeros. */
struct http_session {
    struct http_conn conn;
    void *data; /* its loop's, see http_server_config */
    char peer[ADDRESS_HOST_SIZE];
    const struct http_request *request; /* under way; NULL: none that could be read */
    int64_t began_us;                   /* boot time: its headers were read */
    uint64_t sent_before;               /* conn.sent then */
    /* The service's to set: */
    struct parker *waiting; /* by which a drain interrupts what its fiber waits for; may be NULL */
    bool cut_off; /* a response that only the connection's end ends broke off: RST, no FIN */
    /* The server's own: */
    struct http_door *door;
    struct http_session *next; /* among all of its loop */
    struct http_session *prev;
    struct http_session *older; /* among those that can make room, of its queue */
    struct http_session *newer;
    int64_t queued_at;   /* boot time: since when it is there, or its body was seen to come */
    uint64_t queued_got; /* conn.received then */
    enum http_session_state state;
    struct peer address;
    bool counted;    /* among its address's */
    bool leaving;    /* it makes room for another: closed behind the request under way */
    bool makes_room; /* it is waited for */
};

/* Why there is no request to serve, or none with its body: what to respond, and a text for it.
 * MALFORMED: session->conn.refusal knows both. */
#define HTTP_REFUSED(X)                                                                            \
    X(MALFORMED, 400, "")                                                                          \
    X(LATE, 408, "the request headers did not arrive in time")                                     \
    X(ADDRESS_FULL, 429, "too many connections from this address")                                 \
    X(FULL, 503, "all connections are in use")                                                     \
    X(BODY_LATE, 408, "the body did not arrive in time")                                           \
    X(BODY_LARGE, 413, "the body is too large")                                                    \
    X(NO_MEMORY, 503, "out of memory")

enum http_refused {
#define X(name, status, text) HTTP_##name,
    HTTP_REFUSED(X)
#undef X
};

struct http_complaint {
    enum http_refused why;
    int status;
    const char *text;
    const struct http_request *malformed; /* as far as it was understood; NULL: not at all */
};

/* Called in the connection's fiber, but `open` and a refusal of FULL or ADDRESS_FULL, which are in
 * the fiber that accepts. */
struct http_service {
    size_t session_size; /* of the struct that begins with a struct http_session */
    /* A connection was accepted; may be NULL. Nothing is to be released at its end. */
    void (*open)(struct http_session *session, const struct sockaddr_storage *peer);
    /* Answers a request. True: the response let the connection live on (http_session_may_go_on);
     * what is left of the body is read away. `arena` is the request's. */
    bool (*serve)(struct http_session *session, struct arena *arena);
    /* Answers what is no request; the connection ends behind it. */
    void (*refuse)(struct http_session *session, const struct http_complaint *complaint);
};

struct http_server_config {
    const struct http_service *service;
    struct sockaddr_storage address; /* port 0: any free one, with one loop */
    const char *name;                /* of the threads; at most 15 bytes */
    struct http_limits limits;
    size_t loops; /* >= 1, each a thread; with more than one the port is shared among them */
    size_t max_connections;
    bool cut_busy; /* when no slot is free and none idle, the oldest connection of all goes */
    void *data;    /* an array of `loops` elements of `data_size` bytes, ready for requests: the */
    size_t data_size; /* one of its loop is each session's `data` */
};

/* Binds, starts the threads, serves. NULL: `*ret_error` is the negative errno; -EADDRINUSE, after
 * five tries in 2 s, also when another process shares the port among its loops. */
struct http_server *http_server_start(const struct http_server_config *config, int *ret_error);

/* The address it listens on, its port known. */
const struct sockaddr_storage *http_server_address(const struct http_server *server);

/* The i-th loop, for loop_post; and, on that loop's thread, other limits for its connections. */
struct loop *http_server_loop(const struct http_server *server, size_t i);
void http_server_set_limits(struct http_server *server, size_t i, const struct http_limits *limits);

/* How many connections there are, with those on their way out. From any thread. */
size_t http_server_connections(const struct http_server *server);

/* Begins to drain: accepts until the queue is empty and no more, serves what has come on these
 * connections or comes within a second, closes what is idle or lingers, interrupts those that wait,
 * lets the others end. From any thread; again: no effect. */
void http_server_drain(struct http_server *server);
bool http_server_is_draining(const struct http_server *server);

/* Drains, and closes every connection: what was not answered by then is not. */
void http_server_cut(struct http_server *server);

/* A descriptor for poll, the server's: readable once all connections and loops have ended. */
int http_server_ended(const struct http_server *server);
/* Waits for that, at most until `deadline_us`. False: it has not ended. */
bool http_server_wait(const struct http_server *server, int64_t deadline_us);

/* Only after http_server_wait said true, and once nothing can wake a fiber of its loops any more
 * (fiber/fiber.h). Accepts NULL. */
void http_server_free(struct http_server *server);

/* ---- for a service ---- */

/* Whether the server drains: responses say Connection: close. */
bool http_session_is_draining(const struct http_session *session);

/* Whether the connection can serve another request after a response to this one: the client lets
 * it, the server does not drain, it need not make room, and what is left of the body is small
 * enough to be read and dropped. */
bool http_session_may_go_on(const struct http_session *session);

/* Sends 100 Continue where the client waits for it before its body. False: it did not go out. */
bool http_session_send_continue(struct http_session *session);

/* Before the body is read from session->conn by other calls than the next, and behind them: what
 * the client owes meanwhile can make room for a newcomer; `passes`: it is streamed on. */
void http_session_await_body(struct http_session *session, bool passes);
void http_session_had_body(struct http_session *session);

/* Whether the body broke off because a newcomer needs the slot: to be refused as HTTP_FULL. */
bool http_session_makes_room(const struct http_session *session);

/* Reads the request's body whole, up to the bytes that `body` may hold, asking for it first. False:
 * `*ret_complaint` says what to answer; the connection must end behind it. */
bool http_session_read_body(struct http_session *session, struct buf *body,
                            struct http_complaint *ret_complaint);

/* Writes a response; without its body to a HEAD. False: not all of it left, and nothing may follow.
 */
bool http_session_write(struct http_session *session, const struct buf *headers, struct slice body);

#endif
