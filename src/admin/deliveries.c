/* SPDX-License-Identifier: Apache-2.0 */
/* Deliveries of events, and events that were received, in the JSON of `pawl webhook --json` and
 * `pawl inbox --json`, and acts on them. */
#include "admin/admin_priv.h"
#include "base/check.h"
#include "base/json/json.h"
#include "operator/tasks.h"

static struct tasks_source tasks_of_session(const struct session *session)
{
    CHECK(session->place.kind);
    return (struct tasks_source){session->admin->config.store, fiber_parker(),
                                 slice_of(session->place.kind->name)};
}

/* ---- lists ---- */

/* A list as it is asked for. */
struct tasks_query {
    const struct tasks_kind *kind;
    struct tasks_wanted wanted;
    size_t limit;
};

/* NULL: taken; else what was expected. */
static const char *take_tasks_pair(void *to, struct slice name, struct slice value)
{
    struct tasks_query *asked = to;
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

void deliveries_reply_list(struct session *session, struct reply *reply)
{
    const struct tasks_kind *kind = session->place.kind;
    TASKS_PAGE_AUTO struct tasks_page page = {0};
    struct tasks_query asked = {.kind = kind, .limit = TASKS_PAGE_MOST};
    struct tasks_source source = tasks_of_session(session);
    if (!session_read_query(session, take_tasks_pair, &asked, reply) ||
        !session_enter_store(session, reply) ||
        !session_leave_store(session, tasks_list(&source, &asked.wanted, &page), reply))
        return;
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

static void reply_no_task(const struct place *place, struct reply *reply)
{
    reply_problem(reply, 404, "there is no %s %lld", place->kind->noun, (long long)place->id);
}

void deliveries_reply_one(struct session *session, struct reply *reply)
{
    TASKS_WHOLE_AUTO struct tasks_whole whole = {0};
    struct tasks_source source = tasks_of_session(session);
    CHECK(session->place.id > 0);
    if (!session_enter_store(session, reply) ||
        !session_leave_store(session, tasks_read(&source, session->place.id, &whole), reply))
        return;
    if (!whole.stored) {
        reply_no_task(&session->place, reply);
    } else {
        reply->type = "application/json";
        tasks_add_whole_json(&reply->body, &whole);
        buf_add_char(&reply->body, '\n');
    }
}

/* ---- acts ---- */

static void log_task_act(const struct session *session, const struct tasks_acted *acted)
{
    const struct place *place = &session->place;
    struct log_line line;
    log_line_start(&line, LOG_LEVEL_INFO, "task_act");
    log_line_str(&line, "kind", slice_of(place->kind->name));
    log_line_str(&line, "act", place->act);
    log_line_str(&line, "client", slice_of(session->http.peer));
    log_line_i64(&line, "id", place->id);
    log_line_str(&line, "from_state", task_state_name(acted->state));
    log_line_bool(&line, "done", acted->end == TASKS_ACTED);
    log_line_end(session->admin->config.log, &line);
}

static void refuse_act(const struct place *place, const struct tasks_acted *acted,
                       struct reply *reply)
{
    const char *noun = place->kind->noun;
    long long id = place->id;
    if (acted->end == TASKS_NOT_FOUND)
        reply_no_task(place, reply);
    else if (acted->end == TASKS_DISABLED)
        reply_problem(reply, 409,
                      "the endpoint of %s %lld is disabled; nothing was changed (enable it, or use "
                      "?force=true)",
                      noun, id);
    else if (acted->end == TASKS_LATE)
        reply_problem(reply, 409,
                      "%s %lld was first handled more than 7 days ago, and its handler may not "
                      "know the key any more; nothing was changed (?force=true)",
                      noun, id);
    else
        reply_problem(reply, 409, "%s %lld is %.*s; nothing was changed", noun, id,
                      SLICE_ARG(task_state_name(acted->state)));
}

void deliveries_reply_act(struct session *session, struct reply *reply)
{
    BUF_AUTO struct buf actor = buf_make(STORE_ACTOR_MAX);
    const struct place *place = &session->place;
    struct tasks_wish wish = {
        .id = place->id,
        .act = slice_eq(place->act, SLICE("replay")) ? TASKS_REPLAY : TASKS_DROP,
        .actor = {session_actor(session, &actor),
                  slice_eq(session->http.request->query, SLICE("force=true"))}};
    struct tasks_source source = tasks_of_session(session);
    struct tasks_acted acted = {0};
    if (!session_read_reason(session, &wish.actor.reason, reply) ||
        reply_store_failure(reply, tasks_act(&source, &wish, &acted)))
        return;
    log_task_act(session, &acted);
    if (acted.end != TASKS_ACTED) {
        refuse_act(place, &acted, reply);
        return;
    }
    deliveries_reply_one(session, reply);
    session_tell_published(session);
}
