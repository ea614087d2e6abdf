/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One outgoing HTTP/1.1 exchange (RFC 9110, 9112), in a fiber: a connection, kept or new, a request
 * once, its response. Each step reads as a blocking call:
 *
 *           http_call_connect         http_call_send          http_call_receive
 *   CLOSED -----------------> OPEN ------------------> SENT --------------------> RESPONDED
 *     ^                        |   nothing has left      |   call->sent bytes have   |
 *     '---- http_call_close ---+-------------------------+---------------------------'
 *
 * A body that is not in memory (`streams`) is written by http_call_write while SENT. A peer may
 * respond before it has all of the request: then it is RESPONDED from there on. The response's body
 * is read by http_call_read_body, or by http_conn_read_some on call->conn; its headers lie in the
 * connection's buffer until the call is closed.
 *
 * A step waits until a moment of the boot clock. HTTP_CALL_TIMEOUT loses nothing: the same step may
 * be taken again, with a later moment, and goes on where it stopped. Any other failure ends the
 * exchange. Nothing is ever sent twice here: a kept connection that died may have carried the
 * request to its end. A request that may be repeated is, by http_call_again.
 *
 * The struct is the caller's memory, zeroed as far as HTTP_CALL_ZEROED, and too large for a fiber's
 * stack. `method`, `headers`, `body` and the pool must outlive the call.
 */
#ifndef PAWL_HTTP_CALL_H
#define PAWL_HTTP_CALL_H

#include "base/clock.h"
#include "core/retry/cause.h"
#include "core/retry/exchange_end.h"
#include "http/call/pool.h"

/* The result of a step. One table; the names are for messages. */
#define HTTP_CALL_RESULTS(X)                                                                       \
    X(DONE, "done")                                                                                \
    X(TIMEOUT, "timeout")         /* the moment passed, or the kernel gave up connecting */        \
    X(LATE, "late")               /* `first_by` passed: nothing has left, and nothing may */       \
    X(REFUSED, "refused")         /* no listener there */                                          \
    X(UNREACHABLE, "unreachable") /* no connection for another cause: call->unreached */           \
    X(FORBIDDEN, "forbidden")     /* the guard refuses where it goes: call->unreached */           \
    X(TLS, "tls")                 /* no handshake: call->tls_problem */                            \
    X(BROKEN, "broken")           /* closed or reset, or it speaks another protocol now */         \
    X(MALFORMED, "malformed")     /* what it sent is not HTTP: call->malformed */                  \
    X(TOO_LARGE, "too large")     /* the body is longer than `max`: the rest may be streamed */    \
    X(NO_MEMORY, "no memory")

enum http_call_result {
#define X(name, text) HTTP_CALL_##name,
    HTTP_CALL_RESULTS(X)
#undef X
};

enum http_call_state {
    HTTP_CALL_CLOSED,    /* no connection is held */
    HTTP_CALL_OPEN,      /* one is; of the request call->sent bytes have left */
    HTTP_CALL_SENT,      /* what is in memory has left, or as much as the peer would take */
    HTTP_CALL_RESPONDED, /* call->response has the headers of the final response */
};

#define HTTP_MALFORMED_SIZE 192

struct http_call {
    /* The caller's, set before http_call_connect. */
    struct http_pool *pool;
    bool fresh; /* on a new connection */
    struct slice method;
    struct slice headers; /* of the request, its empty line included */
    struct slice body;    /* behind it; may be empty */
    bool streams;         /* instead: a body follows, by the caller */
    bool upgrades;        /* a 101 is a final response; the connection is never kept */
    int64_t first_by;     /* from this moment on no first byte leaves; 0: it may at any time */

    /* The call's. */
    enum http_call_state state;
    struct http_conn *conn; /* lent while not CLOSED */
    bool unsent; /* the peer may lack part of the request; also set while it is streamed */
    const char *unreached;     /* why there is no connection, a literal; NULL: there is one */
    const char *tls_problem;   /* the same, where the handshake failed */
    enum http_refusal refusal; /* of the response, where it is MALFORMED; outlives the same */
    char malformed[HTTP_MALFORMED_SIZE]; /* what is wrong with the response, where it is MALFORMED:
                                          * the field and the byte, not its value; printable ASCII;
                                          * outlives http_call_close */
    int interims;                        /* 1xx responses since the request was sent */
    uint64_t sent;     /* bytes of headers and body that may have left; outlives http_call_close */
    int64_t sent_at;   /* boot time: of the write with the first of them; likewise */
    uint64_t received; /* by conn, when it was lent */
    int64_t connected_us;          /* boot time: since when it is lent */
    struct http_response response; /* last: the slots of its headers are not zeroed */
};

#define HTTP_CALL_ZEROED offsetof(struct http_call, response.headers.hops)

/* CLOSED to OPEN. TIMEOUT, REFUSED, UNREACHABLE, FORBIDDEN, TLS, BROKEN: no connection, nothing
 * sent. */
enum http_call_result http_call_connect(struct http_call *call, int64_t until_us);

/* OPEN to SENT: headers and body, as much of them as the peer takes: one that responds or closes
 * early has its response read. TIMEOUT; LATE and BROKEN: no byte has left. */
enum http_call_result http_call_send(struct http_call *call, int64_t until_us);

/* Writes more of the request, with `streams`. False: the peer took no more of it in time, responded
 * or closed: receive. */
bool http_call_write(struct http_call *call, struct iovec *parts, size_t n, int64_t until_us);

/* SENT to RESPONDED: drops interim responses. TIMEOUT, BROKEN, MALFORMED, NO_MEMORY. TLS: the peer
 * refused the connection after all (tls_refusal), so nothing counts as sent. */
enum http_call_result http_call_receive(struct http_call *call, int64_t until_us);

/* RESPONDED: appends the response's body, or at least `part` bytes more of it, to `body`
 * (http_conn_body_left). TOO_LARGE as soon as it is known to pass `max`, and as in receive. BROKEN
 * also of JSON that ends by the connection's end, and inside its text: `body` held nothing before.
 */
enum http_call_result http_call_read_body(struct http_call *call, uint64_t max, uint64_t part,
                                          int64_t until_us, struct buf *body);

/* How long a whole call may take, and what it may read. */
struct http_call_limits {
    int64_t connect_by; /* a new connection, from the caller's clock on */
    int64_t until;      /* all of it */
    uint64_t max_body;  /* of the response */
};

/* All four steps in a row, up to and with the response's body. The call stays open: its response
 * can be looked at until http_call_close. */
enum http_call_result http_call_run(struct http_call *call, const struct http_call_limits *limits,
                                    struct buf *body);

/* What a call's last result means for the operation. `stale`: the response refuses the token. */
enum exchange_end http_call_end(const struct http_call *call, enum http_call_result result,
                                bool stale);

/* Why that end leaves the operation in doubt, if it does: a cause, or the response's status. */
int http_call_cause(const struct http_call *call, enum exchange_end end);

/* Names in call->malformed what of the response was refused, if anything was: for a caller that
 * reads the body by http_conn_read_some. The steps above do it by themselves. */
void http_call_name_malformed(struct http_call *call);

/* Whether that failure means that a kept connection had died unused: no byte of a response came.
 * Then the call can be connected again, to a new one, if its request may be repeated. */
bool http_call_again(struct http_call *call, enum http_call_result result);

/* From another fiber of its loop, or a post: what the call is at ends at once, BROKEN; one that is
 * not connected yet ends when it is, LATE. */
void http_call_cut(struct http_call *call);

/* Gives the connection back; kept if nothing can be left on it. Accepts a CLOSED call. */
void http_call_close(struct http_call *call);

#endif
