/* SPDX-License-Identifier: Apache-2.0 */
/* /inbox/sources/NAME/remove: a source that no config has any more. */
#include "operator/sources.h"
#include "admin/admin_priv.h"
#include "base/text/percent.h"

#define ARENA_MAX ((size_t)1024 * 1024) /* understood JSON takes up to 64 times its text */

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

static void remove_source(struct session *session, struct slice name, struct arena *arena,
                          struct reply *reply)
{
    BUF_AUTO struct buf actor_name = buf_make(STORE_ACTOR_MAX);
    const struct admin_config *config = &session->admin->config;
    struct store_actor actor = {.name = session_actor(session, &actor_name)};
    enum sources_end end = SOURCES_NOT_FOUND;
    if (!session_read_reason(session, arena, &actor.reason, reply))
        return;
    enum store_status status = sources_remove(config->store, fiber_parker(), name, &actor, &end);
    if (status != STORE_DONE) {
        reply_store_failed(reply, status);
        return;
    }
    log_source_act(session, name, end);
    reply_source_end(name, end, reply);
    config->published(config->argument);
}

bool sources_reply(struct session *session, struct reply *reply)
{
    static const struct slice path = {"/inbox/sources/", 15};
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct slice raw, rest = session->http.request->path;
    if (!slice_starts(rest, path))
        return false;
    struct slice act = slice_cut(slice_skip(rest, path.len), '/', &raw);
    struct slice name = percent_decode(raw, false, &arena);
    if (!percent_is_valid(raw) || name.len == 0 || !act.at || !slice_eq(act, SLICE("remove")))
        admin_no_page(reply);
    else if (admin_method_is(session, true, reply))
        remove_source(session, name, &arena, reply);
    return true;
}
