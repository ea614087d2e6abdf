/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and replies of a connection, each read and sent as a whole. */
#include "admin/admin_priv.h"
#include "http/headers_out.h"
#include <assert.h>

#define FIELDS_MAX ((size_t)1024)
#define HEAD_MAX ((size_t)4 * 1024)

static_assert(offsetof(struct session, http) == 0, "sessions of http are cast into these");

static struct reply reply_make(void)
{
    return (struct reply){.status = 200,
                          .type = "text/plain; charset=utf-8",
                          .fields = buf_make(FIELDS_MAX),
                          .body = buf_make(ADMIN_REPLY_MAX)};
}

static void reply_fini(struct reply *reply)
{
    buf_fini(&reply->fields);
    buf_fini(&reply->body);
}
#define REPLY_AUTO __attribute__((cleanup(reply_fini)))

/* True: the connection may be used again. */
static bool send_admin_reply(struct session *session, struct reply *reply)
{
    BUF_AUTO struct buf head = buf_make(HEAD_MAX);
    if (!buf_ok(&reply->body) || !buf_ok(&reply->fields))
        reply_problem(reply, 500, "the response is too large, or memory ran out");
    bool keep = !reply->close && http_session_may_go_on(&session->http);
    headers_write_status(&head, reply->status, slice_of(NULL));
    headers_write_date(&head);
    headers_write_field(&head, "Content-Type", slice_of(reply->type));
    headers_write_number(&head, "Content-Length", reply->body.len);
    headers_write_field(&head, "Cache-Control", SLICE("no-store"));
    headers_write_field(&head, "X-Content-Type-Options", SLICE("nosniff"));
    buf_add_slice(&head, buf_slice(&reply->fields));
    headers_end_response(&head, session->http.request, keep);
    return http_session_write(&session->http, &head, buf_slice(&reply->body)) && keep;
}

static void open_session(struct http_session *http, const struct sockaddr_storage *peer)
{
    (void)peer;
    ((struct session *)http)->admin = http->data;
}

static bool serve_operator(struct http_session *http, struct arena *arena)
{
    struct session *session = (struct session *)http;
    REPLY_AUTO struct reply reply = reply_make();
    session->arena = arena;
    route_operator(session, &reply);
    return send_admin_reply(session, &reply);
}

static void refuse_operator(struct http_session *http, const struct http_complaint *complaint)
{
    REPLY_AUTO struct reply reply = reply_make();
    reply_problem(&reply, complaint->status, "%s", complaint->text);
    (void)send_admin_reply((struct session *)http, &reply);
}

const struct http_service admin_service = {
    .session_size = sizeof(struct session),
    .open = open_session,
    .serve = serve_operator,
    .refuse = refuse_operator,
};
