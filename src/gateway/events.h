/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events: each response is counted once, where it is written, and each request has one log line
 * when it has ended (contract section 10; docs/decisions/0007 says what counts as what).
 */
#ifndef PAWL_GATEWAY_EVENTS_H
#define PAWL_GATEWAY_EVENTS_H

#include "gateway/result.h"
#include "gateway/server.h"
#include "http/call/call.h"

#define METHOD_SHOWN 64 /* bytes of what has no limit but the headers's: no line is too long */
#define PATH_SHOWN 2048

/* ---- counting ---- */

/* Counts the response that is about to leave under client->rule, and how long it took. */
void request_count(const struct client *client, enum result result);

/* Counts a refusal for want of what a limit bounds. */
void limit_count(const struct server *server, enum metrics_limit limit);

/* Counts how long an exchange with the upstream took, for the rule of that name ("": none). */
void upstream_took(const struct server *server, struct slice rule, const struct http_call *call);

/* Counts what it came to: a response, or why there was none. */
void upstream_ended(const struct server *server, const struct http_call *call,
                    enum http_call_result result);

/* Counts an operation that its participant had not completed. */
void participant_missed(const struct server *server, struct slice rule);

/* It proceeds on what was in doubt, as the hold of that has ended. */
void hold_ended(const struct server *server, struct slice rule);
/* It starts a life of its key while records may be missing, and nobody was asked. */
void begin_unproved(const struct server *server, struct slice rule);

/* Of a rule that retries: counts an operation, for the budget, too; takes a retry from the budget
 * (false: there is none). From any loop. */
void retry_began(const struct server *server, enum retry_profile profile);
bool retry_takes_budget(const struct server *server, int64_t now);

/* Gives the series of these rules their zeros. */
void rules_count_from_zero(const struct gateway_config *config, const struct rule_set *rules);

/* ---- log lines ---- */

/* How a request ended. */
struct event {
    int status; /* 0: it had no response */
    enum result result;
    enum error error;       /* ERROR_NONE: the response was no error of pawl's own */
    const char *unreached;  /* why there was no connection to the upstream; NULL: there was one */
    const char *malformed;  /* what of the upstream's response was; NULL or "": nothing */
    bool warns;             /* whatever its status */
    struct slice key, once; /* what the log may have to hide; `.at` NULL: not known */
};

/* Begins the line of a request (log_line_str adds to it), and ends it. False: there is no log. */
bool event_start(struct log_line *line, const struct client *client, const char *name,
                 const struct event *event);
void event_end(struct log_line *line, const struct client *client, const struct event *event);

/* The whole line of a request that has no exchange. */
void request_log(const struct client *client, const struct event *event);

/* ---- what a request says of its sender ---- */

/* The last address of X-Forwarded-For that no trusted proxy has, where the peer is one; else the
 * peer. */
struct slice request_sender(const struct client *client);

/* The trace's id, where the line has the form that it should have; else empty. */
struct slice request_trace_id(const struct headers *headers);

/* The client's own id of the request, and (unless NULL) the header that it came in; `.at` NULL:
 * none. */
struct slice request_correlation_id(const struct headers *headers, struct slice *ret_header);

#endif
