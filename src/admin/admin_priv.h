/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the admin folder: the listener, one connection, and the replies to its
 * requests. All of it lives on the one thread of the loop.
 *
 * Calls go one way: serve.c serves a connection of admin.c, route.c finds what is requested and
 * guard.c says whether the caller may; keys.c, acts.c, audit.c, events.c, endpoints.c, sources.c
 * and deliveries.c are the pages; they read and reply by session.c.
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

/* What a path names, where its route has ID, NAME and {a,b}. */
struct place {
    int64_t id;        /* above 0 */
    struct slice name; /* decoded */
    struct slice act;
    const struct tasks_kind *kind; /* of tasks; NULL: it names none */
};

struct session {
    struct http_session http; /* first: the two are cast into each other */
    struct admin *admin;
    struct arena *arena; /* of the request under way, */
    struct place place;  /* and what it names */
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
bool session_read_reason(struct session *session, struct slice *ret_reason, struct reply *reply);

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
bool session_read_query(const struct session *session, query_taker *take, void *to,
                        struct reply *reply);

/* Bounds concurrent queries of the store: waits for its turn, which session_leave_store ends.
 * False: `reply` says that there are too many; at the end, that the operation was not applied. */
bool session_enter_store(struct session *session, struct reply *reply);
bool session_leave_store(struct session *session, enum store_status status, struct reply *reply);

/* There are new events, or deliveries to make again. */
void session_tell_published(const struct session *session);

/* Whether an operation of the store was not applied, which the reply then says. */
bool reply_store_failure(struct reply *reply, enum store_status status);

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
void route_operator(struct session *session, struct reply *reply);

/* ---- guard.c ---- */

/* Whether the request is admitted. False: `reply` says why not. */
bool guard_admits(const struct session *session, struct reply *reply);

/* ---- the pages, as the table of route.c has them ---- */

struct keys_row;
struct keys_found;

#define KEYS_SCANS_MOST 50 /* slices of the store for one list: it goes on from `next` */

/* The record of the session's place. False: `reply` says why not. `*ret_found` (keys_found_fini)
 * owns it. */
bool keys_find_row(struct session *session, struct keys_found *ret_found, struct keys_row **ret_row,
                   struct reply *reply);

/* GET /keys */
void keys_reply_list(struct session *session, struct reply *reply);
/* GET /keys/ID */
void keys_reply_one(struct session *session, struct reply *reply);
/* POST /keys/ID/ACT */
void acts_reply_one(struct session *session, struct reply *reply);
/* POST /keys/ACT */
void acts_reply_many(struct session *session, struct reply *reply);
/* GET /audit */
void audit_reply(struct session *session, struct reply *reply);
/* POST /events */
void events_reply(struct session *session, struct reply *reply);
/* GET /deliveries, /inbox */
void deliveries_reply_list(struct session *session, struct reply *reply);
/* GET /deliveries/ID, /inbox/ID */
void deliveries_reply_one(struct session *session, struct reply *reply);
/* POST /deliveries/ID/ACT, /inbox/ID/ACT */
void deliveries_reply_act(struct session *session, struct reply *reply);
/* GET /endpoints */
void endpoints_reply_list(struct session *session, struct reply *reply);
/* POST /endpoints */
void endpoints_reply_addition(struct session *session, struct reply *reply);
/* GET /endpoints/NAME */
void endpoints_reply_one(struct session *session, struct reply *reply);
/* POST /endpoints/NAME/ACT */
void endpoints_reply_act(struct session *session, struct reply *reply);
/* POST /inbox/sources/NAME/remove */
void sources_reply_removal(struct session *session, struct reply *reply);

#endif
