/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emit: an operation whose success is published as an event (`emit:` of a rule). The claim says so
 * in its record (core/web/origin.h), so that whoever completes it with 2xx writes the event in the
 * same transaction, be it a gateway, a probe, an operator or a participant. Pure.
 */
#ifndef PAWL_CORE_EMIT_H
#define PAWL_CORE_EMIT_H

#include "base/crypto/digest.h"

/* What the event says. */
enum emit_data {
    EMIT_RESPONSE, /* the body of the response */
    EMIT_REQUEST,  /* that of the request, where it is known */
    EMIT_NONE,
};
#define EMIT_DATA_NAMES "response|request|none" /* in that order */

struct emit {
    struct slice type; /* empty: no event */
    enum emit_data data;
};

#define EMIT_DATA_MAX ((size_t)1024 * 1024) /* bytes; above, the event has none */
#define EMIT_ID_LEN 36

/* The event's id, followed by a NUL: the same for a repeated completion, another one for the next
 * life of the key. */
void emit_id(const struct digest *key_hash, int64_t created_at, char ret_id[EMIT_ID_LEN + 1]);

/* A body as the event has it: itself if it is JSON and not too long, else empty. False: there is no
 * memory to look at it; it is empty, too. */
bool emit_read_body(struct slice body, struct slice *ret_data);

#endif
