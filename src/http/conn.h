/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP/1.1 connection, at either end, read and written from a fiber.
 *
 * The input buffer is [headers of the current message | window of what follows]. Headers that were
 * read stays where it is, and its slices stay valid, until http_conn_next. Bodies are copied out
 * (whole, into the caller's buf) or lent run by run (streaming). No byte beyond the current message
 * is ever consumed, so pipelined requests are answered in order.
 *
 * All waits end at an absolute deadline (boot clock): one for the headers, one for the body, one
 * for the write; a peer that drips bytes gains nothing. An idle connection holds no buffer.
 */
#ifndef PAWL_HTTP_CONN_H
#define PAWL_HTTP_CONN_H

#include "base/buf.h"
#include "fiber/fiber.h"
#include "http/message.h"
#include "http/tls.h"

struct http_conn {
    struct fiber_io io;
    struct tls *tls; /* NULL: plain text */
    struct buf in;
    void *block;        /* where `in` begins: MEM_BLOCK_INPUT; NULL: it holds nothing */
    size_t scan;        /* how far the end of the current headers was searched */
    size_t headers_len; /* bytes of the current headers at the start of `in`; 0: none read yet */
    size_t used;        /* bytes of `in` that the current message has consumed (>= headers_len) */
    enum http_framing framing; /* of the current message's body */
    uint64_t left;             /* body bytes left, with HTTP_FRAMING_LENGTH */
    struct http_chunks chunks; /* with HTTP_FRAMING_CHUNKED */
    bool body_done;            /* the current message was read to its end */
    bool is_odd;               /* a response on it was: it carries no other request */
    uint64_t received;         /* bytes read, ever */
    uint64_t sent;             /* bytes handed to the kernel, ever; with TLS as in http/tls.h */
    enum http_refusal refusal; /* with HTTP_READ_REFUSED */
};

/* Takes over a connected, open descriptor. False: no resources (the descriptor is closed). */
bool http_conn_open(struct http_conn *conn, int fd);

/* Connects to `address`: 0, -ETIMEDOUT, -errno (then conn is closed). */
int http_conn_connect(struct http_conn *conn, const struct sockaddr_storage *address,
                      int64_t deadline_us);

/* Goes on under TLS, from the client's side: as tls_connect (on failure conn is closed). */
int http_conn_secure(struct http_conn *conn, struct tls_client *client, int64_t deadline_us,
                     const char **ret_problem);

/* Ends this side's direction; the other goes on. False: the connection is lost. */
bool http_conn_end(struct http_conn *conn);

/* Closes with FIN (bytes already given to the kernel still go out). Accepts a closed one. */
void http_conn_close(struct http_conn *conn);

/* Closes with RST, so that the peer of a message that ends with its connection can see that it did
 * not come whole. Accepts a closed one. */
void http_conn_abort(struct http_conn *conn);

/* Closes the way a server must after a refusal (RFC 9112 9.6): stops sending, then reads and drops
 * what comes until the peer closes, sends nothing for `idle_us`, or the deadline passed: closed any
 * earlier, a RST could overtake the response. However much comes is read, as by nginx. */
void http_conn_linger(struct http_conn *conn, int64_t idle_us, int64_t deadline_us);

enum http_read {
    HTTP_READ_OK,
    HTTP_READ_CLOSED,    /* the peer closed before the first byte of a message */
    HTTP_READ_BROKEN,    /* the peer closed or reset within a message */
    HTTP_READ_TIMEOUT,   /* the deadline passed */
    HTTP_READ_REFUSED,   /* malformed: conn->refusal */
    HTTP_READ_TOO_LARGE, /* the body is larger than `max` */
    HTTP_READ_NO_MEMORY,
};

/* Waits for the first byte of a message until `idle_deadline_us`; OK: there is one. */
enum http_read http_conn_wait(struct http_conn *conn, int64_t idle_deadline_us);

/* Reads the headers of the next request, or of a response to `method`. `ret` is valid until
 * http_conn_next. Filled also on REFUSED as far as it was understood. */
enum http_read http_conn_read_request(struct http_conn *conn, int64_t deadline_us,
                                      struct http_request *ret);
enum http_read http_conn_read_response(struct http_conn *conn, struct slice method,
                                       int64_t deadline_us, struct http_response *ret);

/* Reads the body behind the current headers and appends it to `body`. OK before its end, too, as
 * soon as at least `part` bytes more have been appended (http_conn_body_left), for a caller that
 * counts the memory as it is taken. TOO_LARGE as soon as the body is known to pass `max`
 * (Content-Length is judged before a byte is read); then `body` holds the beginning, and
 * http_conn_read_some lends all the rest. */
enum http_read http_conn_read_body(struct http_conn *conn, uint64_t max, uint64_t part,
                                   int64_t deadline_us, struct buf *body);

/* Lends the next run of body bytes: a slice valid until the next call on conn. Empty with OK: the
 * body has ended (body_done). For streaming. */
enum http_read http_conn_read_some(struct http_conn *conn, int64_t deadline_us,
                                   struct slice *ret_data);

/* Whether an unread body is left behind the current headers. */
bool http_conn_body_left(const struct http_conn *conn);

/* What has come behind the current message, for a protocol other than HTTP from there on: taken,
 * it is no part of a next message. Valid until the next call on conn. */
struct slice http_conn_take_rest(struct http_conn *conn);

/* Drops the current message; what follows it in the buffer is the start of the next one. The body
 * must have been read to its end. */
void http_conn_next(struct http_conn *conn);

/* ---- bytes: what a connection reads and writes goes through these, and open and close ---- */

/* Whether the peer neither closed nor sent what no request asked for (it would be taken for the
 * next response). The kernel is asked too, as the loop may not have seen the latest events yet. */
bool http_conn_stays_silent(struct http_conn *conn);

/* Reads at most `n` bytes to `at` and counts them. As fiber_read: > 0 bytes, 0 end of stream,
 * -ETIMEDOUT, -errno. For other protocols, and http itself. */
ptrdiff_t http_conn_receive(struct http_conn *conn, char *at, size_t n, int64_t deadline_us);

/* Writes all parts. 0 done, -ETIMEDOUT, -errno. conn->sent says how many bytes may have left. */
int http_conn_write(struct http_conn *conn, struct iovec *parts, size_t n_parts,
                    int64_t deadline_us);

/* As http_conn_write, for requests: stops with -EALREADY where it would have to wait and the peer
 * has something to say already (or closed), so that an early refusal of a large body is read. */
int http_conn_send(struct http_conn *conn, struct iovec *parts, size_t n_parts,
                   int64_t deadline_us);

#endif
