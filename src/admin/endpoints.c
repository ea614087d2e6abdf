/* SPDX-License-Identifier: Apache-2.0 */
/* /endpoints: who is told of events, in the JSON of `pawl webhook endpoint --json`, and acts. */
#include "operator/endpoints.h"
#include "admin/admin_priv.h"
#include "base/check.h"
#include "base/json/json.h"
#include "base/time/duration.h"

#define ARENA_MAX ((size_t)64 * 1024 * 1024)

static struct endpoints_source endpoints_of_admin(const struct session *session)
{
    const struct admin_config *config = &session->admin->config;
    return (struct endpoints_source){config->store, fiber_parker(), config->read_endpoint};
}

/* ---- reading ---- */

/* False: the reply says why not. */
static bool read_registry(struct session *session, struct arena *arena, struct registry *registry,
                          struct reply *reply)
{
    if (!session_enter_store(session, reply))
        return false;
    enum store_status status =
        registry_read(session->admin->config.store, fiber_parker(), arena, registry);
    return session_leave_store(session, status, reply);
}

void endpoints_reply_list(struct session *session, struct reply *reply)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct registry registry;
    if (!read_registry(session, &arena, &registry, reply))
        return;
    reply->type = "application/json";
    buf_add_str(&reply->body, "{\"endpoints\":[");
    for (size_t i = 0; i < registry.n; i++) {
        json_next_item(&reply->body);
        endpoints_add_json(&reply->body, &registry.at[i], registry.now);
    }
    buf_add_str(&reply->body, "]}\n");
}

static void reply_no_endpoint(struct slice name, struct reply *reply)
{
    reply_problem(reply, 404, "there is no endpoint %.*s", SLICE_ARG(name));
}

/* With the secret that was minted now, which is not shown again; empty: none was. */
static void reply_endpoint(struct session *session, struct slice name, struct slice secret,
                           struct arena *arena, struct reply *reply)
{
    struct registry registry;
    if (!read_registry(session, arena, &registry, reply))
        return;
    const struct registry_entry *entry = registry_find(&registry, name);
    if (!entry) {
        reply_no_endpoint(name, reply);
        return;
    }
    reply->type = "application/json";
    endpoints_add_json(&reply->body, entry, registry.now);
    if (secret.len > 0) {
        reply->body.len--; /* its '}' */
        json_add_text(&reply->body, "secret", secret);
        buf_add_char(&reply->body, '}');
    }
    buf_add_char(&reply->body, '\n');
}

void endpoints_reply_one(struct session *session, struct reply *reply)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    reply_endpoint(session, session->place.name, SLICE(""), &arena, reply);
}

/* ---- acts ---- */

static void log_endpoint_act(const struct session *session, struct slice act,
                             const struct endpoints_acted *acted)
{
    struct log_line line;
    log_line_start(&line, LOG_LEVEL_INFO, "endpoint_act");
    log_line_str(&line, "act", act);
    log_line_str(&line, "client", slice_of(session->http.peer));
    log_line_str(&line, "endpoint", acted->name);
    log_line_bool(&line, "done", acted->end == ENDPOINTS_DONE);
    log_line_end(session->admin->config.log, &line);
}

/* False: nothing was done. */
static bool reply_endpoint_refusal(const struct endpoints_acted *acted, struct reply *reply)
{
    switch (acted->end) {
    case ENDPOINTS_DONE:
    case ENDPOINTS_ALREADY:
        return true;
    case ENDPOINTS_NOT_FOUND:
        reply_no_endpoint(acted->name, reply);
        return false;
    case ENDPOINTS_TAKEN:
        reply_problem(reply, 409, "there is an endpoint %.*s; nothing was changed",
                      SLICE_ARG(acted->name));
        return false;
    case ENDPOINTS_OF_CONFIG:
        reply_problem(reply, 409,
                      "%.*s is an endpoint of a config, and is changed there; nothing was changed",
                      SLICE_ARG(acted->name));
        return false;
    case ENDPOINTS_SERVED:
        reply_problem(reply, 409,
                      "%.*s is an endpoint of a config that is in force; nothing was changed (take "
                      "it out of the config of every pawl first)",
                      SLICE_ARG(acted->name));
        return false;
    case ENDPOINTS_RENAMED:
        reply_problem(reply, 409, "%.*s is called %.*s now; nothing was changed (give that name)",
                      SLICE_ARG(acted->name), SLICE_ARG(acted->heir));
        return false;
    case ENDPOINTS_BAD:
        reply_problem(reply, 400, "%s", acted->problem);
        return false;
    }
    return false;
}

static struct store_actor actor_of_session(const struct session *session, struct buf *name)
{
    return (struct store_actor){session_actor(session, name),
                                slice_eq(session->http.request->query, SLICE("force=true"))};
}

void endpoints_reply_addition(struct session *session, struct reply *reply)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    BUF_AUTO struct buf body = buf_make(ADMIN_BODY_MAX), name = buf_make(STORE_ACTOR_MAX);
    const struct endpoints_source source = endpoints_of_admin(session);
    const struct store_actor actor = actor_of_session(session, &name);
    struct endpoints_acted acted;
    if (!session_body_is(session, SLICE("application/json"))) {
        reply_problem(reply, 415, "send an endpoint as application/json");
        return;
    }
    if (!session_read_body(session, &body, reply) ||
        reply_store_failure(reply,
                            endpoints_add(&source, buf_slice(&body), &actor, &arena, &acted)))
        return;
    log_endpoint_act(session, SLICE("add"), &acted);
    if (!reply_endpoint_refusal(&acted, reply))
        return;
    session_tell_published(session);
    reply_endpoint(session, acted.name, acted.secret, &arena, reply);
    if (reply->status == 200)
        reply->status = 201;
}

/* What a rotation says, {secret?, overlap?, reason?}; no body says nothing. */
static bool read_rotation(struct session *session, struct arena *arena, struct endpoints_wish *wish,
                          struct reply *reply)
{
    BUF_AUTO struct buf body = buf_make(ADMIN_BODY_MAX);
    struct json *root = NULL;
    if (!session_read_body(session, &body, reply))
        return false;
    if (body.len == 0)
        return true;
    struct slice text = arena_copy(arena, buf_slice(&body));
    bool good = json_parse(arena, text, &root, NULL) == JSON_OK && root->type == JSON_OBJECT;
    for (const struct json *one = good ? root->first : NULL; one; one = one->next) {
        bool is_text = one->type == JSON_STRING;
        if (session_is_reason(one, &wish->actor.reason))
            continue;
        if (is_text && slice_eq(one->name, SLICE("secret")) && one->text.len > 0)
            wish->secret = one->text;
        else if (!is_text || !slice_eq(one->name, SLICE("overlap")) ||
                 !duration_parse(one->text, &wish->overlap_us) || wish->overlap_us < 0)
            good = false;
    }
    if (!good)
        reply_problem(reply, 400,
                      "expected {\"secret\": \"whsec_..\", \"overlap\": \"24h\", \"reason\": "
                      "\"...\"}, or a part of it");
    return good;
}

void endpoints_reply_act(struct session *session, struct reply *reply)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    BUF_AUTO struct buf actor_name = buf_make(STORE_ACTOR_MAX);
    const struct endpoints_source source = endpoints_of_admin(session);
    const struct place *place = &session->place;
    ptrdiff_t at = slice_item(SLICE(ENDPOINTS_ACT_NAMES), '|', place->act);
    struct endpoints_wish wish = {.name = place->name,
                                  .act = (enum endpoints_act)at,
                                  .actor = actor_of_session(session, &actor_name),
                                  .overlap_us = ENDPOINTS_OVERLAP_US};
    struct endpoints_acted acted;
    CHECK(at >= 0);
    bool is_read = wish.act == ENDPOINTS_ROTATE
                       ? read_rotation(session, &arena, &wish, reply)
                       : session_read_reason(session, &wish.actor.reason, reply);
    if (!is_read || reply_store_failure(reply, endpoints_act(&source, &wish, &arena, &acted)))
        return;
    log_endpoint_act(session, place->act, &acted);
    if (!reply_endpoint_refusal(&acted, reply))
        return;
    session_tell_published(session);
    if (wish.act == ENDPOINTS_REMOVE)
        reply_removed(reply, place->name);
    else
        reply_endpoint(session, place->name, acted.secret, &arena, reply);
}
