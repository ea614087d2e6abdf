/* SPDX-License-Identifier: Apache-2.0 */
/* Deliveries of events, in the JSON of `pawl webhook --json`, and acts on them. */
#include "admin/admin_priv.h"
#include "base/json.h"
#include "base/percent.h"
#include "core/query.h"
#include "operator/tasks.h"
#include "webhook/fanout.h"

#define QUERY_MAX ((size_t)64 * 1024)

static struct tasks_source source_of(const struct session *session)
{
    return (struct tasks_source){session->admin->config.store, fiber_parker(), SLICE(WEBHOOK_KIND)};
}

/* ---- lists ---- */

/* NULL: taken; else what was expected. */
static const char *take_pair(struct tasks_wanted *wanted, struct slice name, struct slice value)
{
    uint64_t number = 0;
    if (slice_eq(name, SLICE("state"))) {
        ptrdiff_t state = slice_item(SLICE(TASKS_STATE_NAMES), '|', value);
        wanted->has_state = state >= 0;
        wanted->state = (enum task_state)state;
        return wanted->has_state ? NULL : "waiting, sending, done, dead or dropped";
    }
    if (slice_eq(name, SLICE("endpoint"))) {
        wanted->lane = value;
        return NULL;
    }
    if (!slice_eq(name, SLICE("after")))
        return "state, endpoint or after";
    if (!slice_to_u64(value, INT64_MAX, &number))
        return "the `next` of the response before";
    wanted->after = (int64_t)number;
    return NULL;
}

static bool read_query(struct slice query, struct arena *arena, struct tasks_wanted *wanted,
                       struct reply *reply)
{
    struct slice pair, name;
    while (query_take(&query, &pair)) {
        struct slice raw = slice_cut(pair, '=', &name);
        struct slice value = percent_decode(raw, true, arena);
        bool good = percent_is_valid(raw) && value.at;
        const char *expected = good ? take_pair(wanted, name, value) : "a well-formed query";
        if (!expected)
            continue;
        reply_problem(reply, 400, "`%.*s` in the query: expected %s", SLICE_ARG(pair), expected);
        return false;
    }
    return true;
}

void deliveries_reply_list(struct session *session, struct reply *reply)
{
    ARENA_AUTO struct arena arena = arena_make(QUERY_MAX);
    TASKS_PAGE_AUTO struct tasks_page page = {0};
    struct tasks_wanted wanted = {0};
    struct tasks_source source = source_of(session);
    if (!read_query(session->http.request->query, &arena, &wanted, reply) ||
        !keys_enter(session, reply))
        return;
    enum store_status status = tasks_list(&source, &wanted, &page);
    keys_leave(session);
    if (status != STORE_DONE) {
        keys_refused(reply, status);
        return;
    }
    reply->type = "application/json";
    buf_add_str(&reply->body, "{\"deliveries\":[");
    for (size_t i = 0; i < page.n; i++) {
        json_next_item(&reply->body);
        tasks_add_json(&reply->body, &page.rows[i]);
    }
    buf_add_char(&reply->body, ']');
    json_add_known_i64(&reply->body, "next", page.next);
    buf_add_str(&reply->body, "}\n");
}

/* ---- one ---- */

static void no_delivery(int64_t id, struct reply *reply)
{
    reply_problem(reply, 404, "there is no delivery %lld", (long long)id);
}

void deliveries_reply_one(struct session *session, int64_t id, struct reply *reply)
{
    TASKS_WHOLE_AUTO struct tasks_whole whole = {0};
    struct tasks_source source = source_of(session);
    if (!keys_enter(session, reply))
        return;
    enum store_status status = tasks_read(&source, id, &whole);
    keys_leave(session);
    if (status != STORE_DONE) {
        keys_refused(reply, status);
    } else if (!whole.stored) {
        no_delivery(id, reply);
    } else {
        reply->type = "application/json";
        tasks_add_whole_json(&reply->body, &whole);
        buf_add_char(&reply->body, '\n');
    }
}

/* ---- acts ---- */

static void log_act(const struct session *session, struct slice name, int64_t id,
                    const struct tasks_acted *acted)
{
    struct log_line line;
    log_line_start(&line, LOG_LEVEL_INFO, "delivery_act");
    log_line_str(&line, "act", name);
    log_line_str(&line, "client", slice_of(session->http.peer));
    log_line_i64(&line, "delivery", id);
    log_line_str(&line, "from_state", task_state_name(acted->state));
    log_line_bool(&line, "done", acted->end == TASKS_ACTED);
    log_line_end(session->admin->config.log, &line);
}

bool deliveries_reply_act(struct session *session, int64_t id, struct slice name,
                          struct reply *reply)
{
    bool replays = slice_eq(name, SLICE("replay"));
    struct tasks_wish wish = {.id = id, .act = replays ? TASKS_REPLAY : TASKS_DROP};
    struct tasks_source source = source_of(session);
    struct tasks_acted acted = {0};
    if (!replays && !slice_eq(name, SLICE("drop")))
        return false;
    enum store_status status = tasks_act(&source, &wish, &acted);
    if (status != STORE_DONE) {
        keys_refused(reply, status);
        return true;
    }
    log_act(session, name, id, &acted);
    if (acted.end == TASKS_ACTED)
        deliveries_reply_one(session, id, reply);
    else if (acted.end == TASKS_NOT_FOUND)
        no_delivery(id, reply);
    else
        reply_problem(reply, 409, "delivery %lld is %.*s; nothing was changed", (long long)id,
                      SLICE_ARG(task_state_name(acted.state)));
    if (acted.end == TASKS_ACTED)
        session->admin->config.published(session->admin->config.argument);
    return true;
}
