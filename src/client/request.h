/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request: what a caller says of a request (a command line, or a program through client.h), made
 * into an operation that can be sent: checked, with curl's default headers, and a key.
 */
#ifndef PAWL_CLIENT_REQUEST_H
#define PAWL_CLIENT_REQUEST_H

#include "client/operation.h"
#include "http/call/origins.h"

#define CLIENT_BODY_MAX ((size_t)64 * 1024 * 1024) /* of a request, and of a response */

/* All zero but for what is wanted. Borrowed by what is made of it. */
struct client_request {
    const char *method; /* NULL: POST with a body, else GET */
    const char *url;
    const char *key;        /* NULL: that of `headers`, else a new one */
    bool dated;             /* a new one says when it was made (UUIDv7) */
    struct headers headers; /* an empty value takes a default away */
    struct slice body;
    bool has_body;
    bool is_json;      /* else a form, where no header says what it is */
    struct slice user; /* of Basic authentication, `user:password`; empty: that of the URL */
};

/* The operation, and what it borrows from. Zeroed; large. */
struct client_made {
    struct client_operation operation;
    struct headers sent;
    struct arena arena;
    char minted[CLIENT_KEY_SIZE]; /* the key, if it is new; else empty */
};

/* Makes it. False: `problem` has a sentence, and `*made` is to be given back all the same. */
bool client_make(const struct client_request *request, struct client_made *made,
                 struct buf *problem);
void client_made_fini(struct client_made *made);

/* Of the connection, of the framing, or pawl's own: nobody else sets them. `headers` are all. */
bool client_is_reserved(const struct headers *headers, struct slice name);

/* How its URL is reached. */
struct client_route {
    const char *ca;       /* PEM; NULL: the system's */
    const char *cert;     /* of the client; NULL: none */
    const char *cert_key; /* NULL: in the same file */
    const char *unix_socket;
    bool insecure;
    size_t max;      /* origins whose connections are kept; 0: one URL, and nothing is kept */
    size_t max_idle; /* connections kept, of each */
};

/* The connections to the URL (NULL: to any), for the loop of the calling thread. NULL: `problem`
 * says why. */
struct http_origins *client_connect(const struct client_route *route, const struct url *url,
                                    struct buf *problem);

#endif
