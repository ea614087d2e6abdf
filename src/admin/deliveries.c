/* SPDX-License-Identifier: Apache-2.0 */
/* Deliveries of events, and events that were received, in the JSON of `pawl webhook --json` and
 * `pawl inbox --json`, and acts on them. */
#include "admin/admin_priv.h"
#include "base/json/json.h"
#include "operator/tasks.h"

#define QUERY_MAX ((size_t)64 * 1024)
#define REASON_MAX ((size_t)1024 * 1024) /* understood JSON takes up to 64 times its text */
#define ID_MOST ((uint64_t)INT64_MAX)

/* Where the listener shows tasks of a kind. */
static const struct {
    struct slice path;
    const struct tasks_kind *kind;
} all_shown[] = {
    {{"/deliveries", 11}, &tasks_kinds[TASKS_KIND_WEBHOOK]},
    {{"/inbox", 6}, &tasks_kinds[TASKS_KIND_INBOX]},
};

static struct tasks_source tasks_of_session(const struct session *session,
                                            const struct tasks_kind *kind)
{
    return (struct tasks_source){session->admin->config.store, fiber_parker(),
                                 slice_of(kind->name)};
}

/* ---- lists ---- */

/* A list as it is asked for. */
struct asked {
    const struct tasks_kind *kind;
    struct tasks_wanted wanted;
    size_t limit;
};

/* NULL: taken; else what was expected. */
static const char *take_tasks_pair(void *to, struct slice name, struct slice value)
{
    struct asked *asked = to;
    struct tasks_wanted *wanted = &asked->wanted;
    uint64_t number = 0;
    if (slice_eq(name, SLICE("state"))) {
        ptrdiff_t state = slice_item(SLICE(TASKS_STATE_NAMES), '|', value);
        if (state < 0)
            return "waiting, sending, done, dead, dropped or parked";
        tasks_want_state(wanted, (size_t)state);
        return NULL;
    }
    if (slice_eq(name, slice_of(asked->kind->lane))) {
        wanted->lane = value;
        return NULL;
    }
    if (slice_eq(name, SLICE("limit"))) {
        if (!slice_to_u64(value, TASKS_PAGE_MOST, &number) || number == 0)
            return "1 to 256";
        asked->limit = (size_t)number;
        return NULL;
    }
    if (!slice_eq(name, SLICE("after")))
        return "state, limit, after, and endpoint or source";
    if (!slice_to_u64(value, INT64_MAX, &number))
        return "the `next` of the response before";
    wanted->after = (int64_t)number;
    return NULL;
}

static void reply_tasks(struct session *session, const struct tasks_kind *kind, struct reply *reply)
{
    ARENA_AUTO struct arena arena = arena_make(QUERY_MAX);
    TASKS_PAGE_AUTO struct tasks_page page = {0};
    struct asked asked = {.kind = kind, .limit = TASKS_PAGE_MOST};
    struct tasks_source source = tasks_of_session(session, kind);
    if (!session_read_query(session, &arena, take_tasks_pair, &asked, reply) ||
        !session_enter_store(session, reply))
        return;
    enum store_status status = tasks_list(&source, &asked.wanted, &page);
    session_leave_store(session);
    if (status != STORE_DONE) {
        reply_store_failed(reply, status);
        return;
    }
    if (page.n > asked.limit)
        page.next = page.rows[asked.limit - 1].stored->row.id;
    page.n = page.n < asked.limit ? page.n : asked.limit;
    reply->type = "application/json";
    buf_printf(&reply->body, "{\"%s\":[", kind->nouns);
    for (size_t i = 0; i < page.n; i++) {
        json_next_item(&reply->body);
        tasks_add_json(&reply->body, &page.rows[i]);
    }
    buf_add_char(&reply->body, ']');
    json_add_known_i64(&reply->body, "next", page.next);
    buf_add_str(&reply->body, "}\n");
}

/* ---- one ---- */

static void reply_no_task(const struct tasks_kind *kind, int64_t id, struct reply *reply)
{
    reply_problem(reply, 404, "there is no %s %lld", kind->noun, (long long)id);
}

static void reply_task(struct session *session, const struct tasks_kind *kind, int64_t id,
                       struct reply *reply)
{
    TASKS_WHOLE_AUTO struct tasks_whole whole = {0};
    struct tasks_source source = tasks_of_session(session, kind);
    if (!session_enter_store(session, reply))
        return;
    enum store_status status = tasks_read(&source, id, &whole);
    session_leave_store(session);
    if (status != STORE_DONE) {
        reply_store_failed(reply, status);
    } else if (!whole.stored) {
        reply_no_task(kind, id, reply);
    } else {
        reply->type = "application/json";
        tasks_add_whole_json(&reply->body, &whole);
        buf_add_char(&reply->body, '\n');
    }
}

/* ---- acts ---- */

static void log_task_act(const struct session *session, const struct tasks_kind *kind,
                         struct slice name, int64_t id, const struct tasks_acted *acted)
{
    struct log_line line;
    log_line_start(&line, LOG_LEVEL_INFO, "task_act");
    log_line_str(&line, "kind", slice_of(kind->name));
    log_line_str(&line, "act", name);
    log_line_str(&line, "client", slice_of(session->http.peer));
    log_line_i64(&line, "id", id);
    log_line_str(&line, "from_state", task_state_name(acted->state));
    log_line_bool(&line, "done", acted->end == TASKS_ACTED);
    log_line_end(session->admin->config.log, &line);
}

static void refuse_act(const struct tasks_kind *kind, int64_t id, const struct tasks_acted *acted,
                       struct reply *reply)
{
    if (acted->end == TASKS_NOT_FOUND)
        reply_no_task(kind, id, reply);
    else if (acted->end == TASKS_DISABLED)
        reply_problem(reply, 409,
                      "the endpoint of %s %lld is disabled; nothing was changed (enable it, or use "
                      "?force=true)",
                      kind->noun, (long long)id);
    else if (acted->end == TASKS_LATE)
        reply_problem(reply, 409,
                      "%s %lld was first handled more than 7 days ago, and its handler may not "
                      "know the key any more; nothing was changed (?force=true)",
                      kind->noun, (long long)id);
    else
        reply_problem(reply, 409, "%s %lld is %.*s; nothing was changed", kind->noun, (long long)id,
                      SLICE_ARG(task_state_name(acted->state)));
}

static void reply_task_act(struct session *session, const struct tasks_kind *kind, int64_t id,
                           struct slice name, struct reply *reply)
{
    BUF_AUTO struct buf actor = buf_make(STORE_ACTOR_MAX);
    ARENA_AUTO struct arena arena = arena_make(REASON_MAX);
    bool replays = slice_eq(name, SLICE("replay"));
    struct tasks_wish wish = {
        .id = id,
        .act = replays ? TASKS_REPLAY : TASKS_DROP,
        .actor = {session_actor(session, &actor),
                  slice_eq(session->http.request->query, SLICE("force=true"))}};
    struct tasks_source source = tasks_of_session(session, kind);
    struct tasks_acted acted = {0};
    if (!replays && !slice_eq(name, SLICE("drop"))) {
        admin_no_page(reply);
        return;
    }
    if (!session_read_reason(session, &arena, &wish.actor.reason, reply))
        return;
    enum store_status status = tasks_act(&source, &wish, &acted);
    if (status != STORE_DONE) {
        reply_store_failed(reply, status);
        return;
    }
    log_task_act(session, kind, name, id, &acted);
    if (acted.end != TASKS_ACTED) {
        refuse_act(kind, id, &acted, reply);
        return;
    }
    reply_task(session, kind, id, reply);
    session->admin->config.published(session->admin->config.argument);
}

/* ---- all ---- */

/* /ID and /ID/ACT */
static void route_one(struct session *session, const struct tasks_kind *kind, struct slice rest,
                      struct reply *reply)
{
    struct slice digits;
    uint64_t id = 0;
    struct slice act = slice_cut(rest, '/', &digits);
    if (!slice_to_u64(digits, ID_MOST, &id) || id == 0)
        admin_no_page(reply);
    else if (!admin_method_is(session, act.at, reply))
        return;
    else if (act.at)
        reply_task_act(session, kind, (int64_t)id, act, reply);
    else
        reply_task(session, kind, (int64_t)id, reply);
}

bool deliveries_reply(struct session *session, struct reply *reply)
{
    struct slice path = session->http.request->path;
    for (size_t i = 0; i < sizeof all_shown / sizeof *all_shown; i++) {
        const struct tasks_kind *kind = all_shown[i].kind;
        if (!slice_starts(path, all_shown[i].path))
            continue;
        struct slice rest = slice_skip(path, all_shown[i].path.len);
        bool is_list = rest.len == 0;
        if (!is_list && rest.at[0] != '/')
            continue;
        if (!is_list)
            route_one(session, kind, slice_skip(rest, 1), reply);
        else if (admin_method_is(session, false, reply))
            reply_tasks(session, kind, reply);
        return true;
    }
    return false;
}
