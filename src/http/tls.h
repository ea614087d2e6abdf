/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls: the client's side of TLS 1.2 and 1.3 (RFC 5246, 8446) on a connected socket, in a fiber. The
 * one file that uses OpenSSL's libssl.
 *
 *              tls_connect            tls_read, tls_write           tls_end
 *   (no tls) --------------> open ---------------------------> closing --------> tls_free
 *              |                        what has left: below     close_notify
 *              '-- failed: nothing but the handshake was sent
 *
 * OpenSSL sees memory only: what it wants to send is put into `out`, what was received is taken
 * from `in`, and all waiting is done here, between its calls. Its queue of errors belongs to the
 * thread, so no fiber gives way within one.
 *
 * The server is known by a certificate for its name or address (RFC 9110 4.3.4, RFC 9525: subject
 * alternative names only) that leads to the own CA file or, without one, to the system's roots.
 * No renegotiation, no early data, no resumption: each connection proves anew which server it is.
 *
 * Which byte has left: bytes count as sent from the moment in which the kernel took the first byte
 * of their record. A record that cannot leave yet is held; the next write gives the same
 * bytes once more, as to a write(2) that took only some. The last byte of what is held counts when
 * all of it has left.
 *
 * An end of stream without close_notify is an error (-ECONNRESET): it may be an attacker's.
 */
#ifndef PAWL_HTTP_TLS_H
#define PAWL_HTTP_TLS_H

#include "base/slice.h"
#include "fiber/fiber.h"

/* How connections to one server are made. Shared by threads. */
struct tls_client;

struct tls_config {
    const char *server; /* the name or address in its certificate; a name is sent as SNI. NULL: for
                           tls_client_for alone */
    const char *ca;     /* PEM files; NULL: the system's roots, no client certificate */
    const char *cert;   /* with the chain behind it */
    const char *key;    /* not encrypted */
    bool insecure;      /* whatever certificate the server has */
};

/* What is wrong with a config; the text is a literal. */
struct tls_complaint {
    const char *file; /* the one of the config's; "TLS": no library; NULL: no memory */
    const char *text;
};

/* Reads the files. One reference is the caller's. NULL: `*ret_complaint`. */
struct tls_client *tls_client_new(const struct tls_config *config,
                                  struct tls_complaint *ret_complaint);

/* The same files, which are not read again, for another server. NULL: no memory. */
struct tls_client *tls_client_for(const struct tls_client *like, struct slice server);

/* Both accept NULL. */
struct tls_client *tls_client_ref(struct tls_client *client);
void tls_client_unref(struct tls_client *client);

/* One connection. */
struct tls;

/* The handshake on a connected socket: 0, -ETIMEDOUT, -errno (of OpenSSL's: -EPROTO). On failure
 * `*ret_problem` is a literal that says why. `client` and `io` must outlive the connection. */
int tls_connect(struct tls_client *client, struct fiber_io *io, int64_t deadline_us,
                struct tls **ret_tls, const char **ret_problem);

/* As fiber_read; 0 is an end that the server announced. Marks the socket as readable where more can
 * be read without it. */
ptrdiff_t tls_read(struct tls *tls, void *ret_bytes, size_t n, int64_t deadline_us);

/* As fiber_write, and `*ret_sent` counts bytes of the parts. */
int tls_write(struct tls *tls, struct iovec *parts, size_t n_parts, int64_t deadline_us,
              size_t *ret_sent);

/* Whether the server neither ended the connection nor sent what no request asked for. */
bool tls_stays_silent(struct tls *tls);

/* Why the server broke off the handshake after this side had finished its own (TLS 1.3: it judges
 * the client's certificate last), a literal; NULL: it did not. What was sent since, no application
 * has seen. */
const char *tls_refusal(const struct tls *tls);

/* Announces the end of this side, if nothing is held. Waits for nothing. */
void tls_end(struct tls *tls);

/* Accepts NULL. The socket stays open. */
void tls_free(struct tls *tls);

#endif
