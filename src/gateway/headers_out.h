/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Header sections as they leave: always written anew from their parsed form, never as raw bytes,
 * with exactly one framing field (contract section 5).
 */
#ifndef PAWL_GATEWAY_HEADERS_OUT_H
#define PAWL_GATEWAY_HEADERS_OUT_H

#include "http/headers_out.h"

struct client;

#define HEADERS_OUT_FIRST ((size_t)1024) /* what most take */
#define HEADERS_OUT_MAX ((size_t)96 * 1024)

/* What a request gets on its way to the upstream. */
struct headers_extra {
    const struct client *client;  /* whose address goes into X-Forwarded-For */
    bool ruled;                   /* Accept-Encoding: identity; own Idempotency-Key */
    bool keeps_encoding;          /* ruled: Accept-Encoding as it came */
    struct slice idempotency_key; /* ruled: the line to send; `.at` NULL: none */
    int64_t token;                /* ruled: Idempotency-Token; 0: none */
    int64_t attempt;              /* ruled: Idempotency-Attempt; 0: none */
    bool has_length;              /* send Content-Length: length */
    uint64_t length;
    struct slice host; /* Host instead of the request's, whose other words for it (Forwarded,
                          X-Forwarded-Host) do not pass; `.at` NULL: as it came */
    bool chunked;      /* send Transfer-Encoding: chunked */
    bool websocket;    /* send Upgrade: websocket */
};

/* Whether a signature of the request covers Accept-Encoding (SigV4's SignedHeaders, RFC 9421's
 * Signature-Input, `headers=` of its drafts): changed, the service would refuse it. */
bool headers_sign_encoding(const struct headers *headers);

/* Appends `METHOD target HTTP/1.1` and the fields of `request` that may pass, then the extras.
 * `target` with `.at` NULL: the request's own, in origin-form. */
void headers_write_request(struct buf *buf, struct slice method, struct slice target,
                           const struct http_request *request, const struct headers_extra *extra);

/* What of an upstream's response does not pass, beside hop-by-hop and framing lines. */
#define HEADERS_DROP_OWN 1U  /* pawl's own names, save Error-Code: PROVIDER.duplicate */
#define HEADERS_DROP_CORS 2U /* Access-Control-*: pawl says it */

/* Appends the end-to-end lines of an upstream's response, without what `drops` names. */
void headers_copy_response(struct buf *buf, const struct headers *headers, unsigned drops);

/* Appends the two fields that change the protocol. */
void headers_write_upgrade(struct buf *buf);

#endif
