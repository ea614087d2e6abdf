/* SPDX-License-Identifier: Apache-2.0 */
/*
 * origin: which request made a claim, for an operator who has to find out how it ended. Stored with
 * a pending record as text and dropped with its outcome: `METHOD PATH`, client, correlation id and
 * trace id, a line each, and behind them the beginning of the body where the rule keeps it. Behind
 * the path, after a tab, the type of the event that its success is published as (core/emit.h), and
 * after another one `-` where that event does not have the response. Behind the trace id, after a
 * tab, how the key was spelled to the service: `bare` or `quoted`. Nothing else is decided by it.
 */
#ifndef PAWL_CORE_ORIGIN_H
#define PAWL_CORE_ORIGIN_H

#include "base/arena.h"
#include "base/buf.h"
#include "core/emit.h"
#include "core/request/key_header.h"

#define ORIGIN_MAX ((size_t)64 * 1024) /* bytes of the text */

/* Empty: not known. No text but the body holds a line feed. */
struct origin {
    struct slice method;
    struct slice path;
    struct slice client; /* address */
    struct slice correlation_id;
    struct slice trace_id;
    struct slice body; /* its beginning */
    struct slice emit; /* the type of an event; empty: none */
    bool emit_without_response;
    enum key_forward spelling; /* KEY_FORWARD_BY_SYNTAX: not known */
};

/* Appends the text. */
void origin_write(const struct origin *origin, struct buf *buf);

/* The same from its text; slices point into it. False: there is none. */
bool origin_read(struct slice text, struct origin *ret_origin);

/* What the event of its success has as data, by whoever does not know the request: the response's
 * body, or nothing. Empty also where there is no event. False: no memory (emit_read_body). */
bool origin_read_event_data(struct slice text, struct slice response, struct slice *ret_data);

/* How the key was spelled; KEY_FORWARD_BY_SYNTAX: not known. */
enum key_forward origin_spelling(struct slice text);

/* The text with another spelling, in `arena`. `.at` NULL: no memory. */
struct slice origin_respell(struct slice text, enum key_forward spelling, struct arena *arena);

#endif
