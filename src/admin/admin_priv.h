/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the admin folder: the listener, one connection, and the replies to its
 * requests. All of it lives on the one thread of the loop.
 *
 * session.c serves a connection, route.c finds what is requested, guard.c says whether the caller
 * may; keys.c, acts.c, audit.c, events.c, endpoints.c, sources.c and deliveries.c respond.
 */
#ifndef PAWL_ADMIN_ADMIN_PRIV_H
#define PAWL_ADMIN_ADMIN_PRIV_H

#include "admin/admin.h"
#include "core/errors.h"
#include "fiber/fiber.h"
#include "http/server.h"
#include <stdatomic.h>

#define ADMIN_CONNECTIONS_MAX ((size_t)32) /* one more, and the oldest is cut off */
#define ADMIN_QUERIES_AT_ONCE 2            /* requests that query the store; */
#define ADMIN_TURN_US (2 * CLOCK_US_PER_S) /* others wait so long for their turn */
#define ADMIN_BODY_MAX ((size_t)2 * 1024 * 1024)
#define ADMIN_REPLY_MAX ((size_t)8 * 1024 * 1024)
#define ADMIN_TOKEN_MAX 512

/* A request that waits until it may query the store, in its fiber. */
struct admin_turn {
    struct parker *parker;
    struct admin_turn *next;
    bool came;
};

struct admin {
    struct admin_config config;
    struct http_server *http;
    size_t store_busy;
    struct admin_turn *turns; /* who waits, in order */
    int64_t refused;          /* callers, since the last line about them */
    int64_t refused_line_at;
    atomic_bool log_keys_hashed;
    char token[ADMIN_TOKEN_MAX];
};

struct session {
    struct http_session http; /* first: the two are cast into each other */
    struct admin *admin;
};

struct reply {
    int status;
    const char *type;  /* Content-Type */
    struct buf fields; /* further header lines */
    struct buf body;
    bool close; /* what follows on the connection cannot be trusted or was not read */
};

/* What a connection is served by. */
extern const struct http_service admin_service;

/* Reads the request's body, up to what `body` may hold. False: `reply` says why not. */
bool session_read_body(struct session *session, struct buf *body, struct reply *reply);

/* Reads why an act is done, for the audit: {"reason": "..."}, or no body (`ret_reason` is empty
 * then). It is in the arena. False: the reply says what was wrong. */
bool session_read_reason(struct session *session, struct arena *arena, struct slice *ret_reason,
                         struct reply *reply);

/* Whether a member of a body is a reason, which it then is. */
bool session_is_reason(const struct json *member, struct slice *ret_reason);

/* Who asks, for logs and the audit: "admin:NAME@ADDRESS" by X-Operator, else "admin:ADDRESS". Its
 * bytes are in `name`. */
struct slice session_actor(const struct session *session, struct buf *name);

/* Whether X-Operator names somebody, if it is there. False: the reply says what it may be. */
bool session_knows_operator(const struct session *session, struct reply *reply);

/* Whether the request says that its body is of this media type. */
bool session_body_is(const struct session *session, struct slice media);

/* Reads the request's query by a function that takes one parameter: NULL, or what was expected of
 * it. Values are in the arena. False: the reply says what was wrong. */
typedef const char *query_taker(void *to, struct slice name, struct slice value);
bool session_read_query(const struct session *session, struct arena *arena, query_taker *take,
                        void *to, struct reply *reply);

/* Bounds concurrent queries of the store: waits for its turn, which session_leave_store ends.
 * False: `reply` says that there are too many. */
bool session_enter_store(struct session *session, struct reply *reply);
void session_leave_store(struct session *session);

/* Makes the reply that of a store operation that was not applied. */
void reply_store_failed(struct reply *reply, enum store_status status);

/* Makes the reply the JSON object of something that is removed. */
void reply_removed(struct reply *reply, struct slice name);

/* Makes the reply a problem (RFC 9457): its title is the status's own phrase, `detail` one sentence
 * (printf). */
void reply_problem(struct reply *reply, int status, const char *detail, ...)
    __attribute__((format(printf, 3, 4)));

/* The same with status and code of the table of errors: its `error_code`, and Error-Code. */
void reply_coded(struct reply *reply, enum error error, const char *detail, ...)
    __attribute__((format(printf, 3, 4)));

/* Appends `Retry-After`. */
void reply_retry_after(struct reply *reply, int64_t seconds);

/* ---- route.c ---- */

/* Fills the reply to the session's request. */
void route(struct session *session, struct reply *reply);

/* Whether it is a POST, for an act, or else a GET. False: the reply says which there is. */
bool admin_method_is(const struct session *session, bool act, struct reply *reply);

/* 404, and what there is. */
void admin_no_page(struct reply *reply);

/* ---- guard.c ---- */

/* Whether the request is admitted. False: `reply` says why not. */
bool guard_admits(const struct session *session, struct reply *reply);

/* ---- keys.c ---- */

struct keys_row;
struct keys_found;

/* GET /keys */
void keys_reply_list(struct session *session, struct reply *reply);

/* GET /keys/ID */
void keys_reply_one(struct session *session, int64_t id, struct reply *reply);

/* The record of that row. False: `reply` says why not. `*ret_found` (keys_found_fini) owns it. */
bool keys_find_row(struct session *session, int64_t id, struct keys_found *ret_found,
                   struct keys_row **ret_row, struct reply *reply);

#define KEYS_SCANS_MOST 50 /* slices of the store for one list: it goes on from `next` */

/* ---- audit.c ---- */

/* GET /audit */
void audit_reply(struct session *session, struct reply *reply);

/* ---- endpoints.c ---- */

/* /endpoints, with /NAME and /NAME/ACT. False: the path is none of these. */
bool endpoints_reply(struct session *session, struct reply *reply);

/* ---- sources.c ---- */

/* POST /inbox/sources/NAME/remove. False: the path is another one. */
bool sources_reply(struct session *session, struct reply *reply);

/* ---- events.c ---- */

/* POST /events */
void events_reply(struct session *session, struct reply *reply);

/* ---- deliveries.c ---- */

/* Deliveries, and received events: /deliveries and /inbox, with /ID and /ID/{replay,drop}. False:
 * the path is none of these. */
bool deliveries_reply(struct session *session, struct reply *reply);

/* ---- acts.c ---- */

#define ACTS_MANY (-1)

/* POST /keys/ID/NAME; or, with ACTS_MANY for an id, POST /keys/NAME. False: there is no such act.
 */
bool acts_reply(struct session *session, int64_t id, struct slice name, struct reply *reply);

#endif
