/* SPDX-License-Identifier: Apache-2.0 */
/* /inbox/sources/NAME/remove: a source that no config has any more. */
#include "operator/sources.h"
#include "admin/admin_priv.h"

static void log_source_act(const struct session *session, struct slice name, enum sources_end end)
{
    struct log_line line;
    log_line_start(&line, LOG_LEVEL_INFO, "source_act");
    log_line_str(&line, "act", SLICE("remove"));
    log_line_str(&line, "client", slice_of(session->http.peer));
    log_line_str(&line, "source", name);
    log_line_bool(&line, "done", end == SOURCES_REMOVED);
    log_line_end(session->admin->config.log, &line);
}

static void reply_source_end(struct slice name, enum sources_end end, struct reply *reply)
{
    if (end == SOURCES_NOT_FOUND) {
        reply_problem(reply, 404, "there is no source %.*s", SLICE_ARG(name));
        return;
    }
    if (end == SOURCES_SERVED) {
        reply_problem(reply, 409,
                      "%.*s is a source of a config that is in force; nothing was changed (take it "
                      "out of the config of every pawl first)",
                      SLICE_ARG(name));
        return;
    }
    reply_removed(reply, name);
}

void sources_reply_removal(struct session *session, struct reply *reply)
{
    BUF_AUTO struct buf actor_name = buf_make(STORE_ACTOR_MAX);
    struct store *store = session->admin->config.store;
    struct slice name = session->place.name;
    struct store_actor actor = {.name = session_actor(session, &actor_name)};
    enum sources_end end = SOURCES_NOT_FOUND;
    if (!session_read_reason(session, &actor.reason, reply) ||
        reply_store_failure(reply, sources_remove(store, fiber_parker(), name, &actor, &end)))
        return;
    log_source_act(session, name, end);
    reply_source_end(name, end, reply);
    session_tell_published(session);
}
