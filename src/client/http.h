/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client/http: the executor of the runner that sends an operation over HTTP. What it takes for a
 * success, a final failure or another try is core/retry's to say; what it keeps is the response to
 * a success (`remember: success`).
 */
#ifndef PAWL_CLIENT_HTTP_H
#define PAWL_CLIENT_HTTP_H

#include "client/operation.h"
#include "http/call/origins.h"
#include "runner/runner.h"

/* In a fiber of the loop of `origins`. Large, and zeroed by the caller. */
struct client_http {
    struct runner_executor executor; /* first: the two are cast into each other */

    /* The caller's, borrowed. */
    const struct client_operation *operation;
    struct http_origins *origins;
    int64_t connect_us;                  /* for a connection */
    uint64_t max_body;                   /* of a response */
    const struct retry_choices *choices; /* NULL: none */

    /* What the last attempt sent and got; empty without a response. */
    struct buf request;                  /* its headers */
    struct http_call call;               /* closed */
    int status;                          /* 0: no complete response */
    struct slice reason;                 /* of its status line */
    struct buf fields;                   /* header lines as they came, each with its CR LF */
    struct buf kept;                     /* those that are kept, likewise */
    struct buf body;                     /* as much as fits into max_body */
    bool truncated;                      /* there was more */
    char note[HTTP_MALFORMED_SIZE + 64]; /* what was wrong with the last that was */
    struct arena arena;                  /* of its error code */
    struct compress compress;            /* of outcomes */
};

/* Fills in what is the executor's. */
void client_http_init(struct client_http *http);
void client_http_fini(struct client_http *http);

#endif
