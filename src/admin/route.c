/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/admin_priv.h"
#include "base/text/percent.h"
#include "observe/page.h"
#include "operator/tasks.h"

#define PROBLEM_MAX ((size_t)512)
#define PATH_SHOWN ((size_t)256)
#define REFUSED_LINES_US CLOCK_US_PER_S /* between two lines about refused callers */

static void reply_live(struct session *session, struct reply *reply)
{
    (void)session;
    buf_add_str(&reply->body, "alive\n");
}

static void reply_ready(struct session *session, struct reply *reply)
{
    const struct admin_config *config = &session->admin->config;
    BUF_AUTO struct buf why = buf_make(PROBLEM_MAX);
    if (config->is_ready(config->argument, &why))
        buf_printf(&reply->body, "ready\n%.*s", SLICE_ARG(buf_slice(&why)));
    else
        reply_problem(reply, 503, "%.*s", SLICE_ARG(buf_slice(&why)));
}

static void reply_metrics(struct session *session, struct reply *reply)
{
    const struct admin_config *config = &session->admin->config;
    reply->type = PAGE_CONTENT_TYPE;
    config->write_metrics(config->argument, &reply->body);
}

/* What a page is found by. A request for another path, or by another method, is refused here and
 * nowhere else. */
static const struct route {
    const char *path; /* ID, NAME and {a,b} stand for a segment each, see struct place */
    bool acts;        /* POST; else it is read: GET or HEAD */
    void (*reply)(struct session *session, struct reply *reply);
    const struct tasks_kind *kind; /* of the tasks that it is about */
    bool open;                     /* to everybody: health */
    const char *shown;             /* to callers that are lost; NULL: its path */
} routes[] = {
#define READ false
#define ACT true
#define DELIVERIES &tasks_kinds[TASKS_KIND_WEBHOOK]
#define INBOX &tasks_kinds[TASKS_KIND_INBOX]
    {"/livez", READ, reply_live, .open = true},
    {"/readyz", READ, reply_ready, .open = true},
    {"/metrics", READ, reply_metrics},
    {"/audit", READ, audit_reply},
    {"/keys", READ, keys_reply_list},
    {"/keys/ID", READ, keys_reply_one},
    {"/keys/ID/{resolve,release,forget}", ACT, acts_reply_one},
    {"/keys/{resolve,release}", ACT, acts_reply_many},
    {"/events", ACT, events_reply},
    {"/deliveries", READ, deliveries_reply_list, DELIVERIES},
    {"/deliveries/ID", READ, deliveries_reply_one, DELIVERIES},
    {"/deliveries/ID/{replay,drop}", ACT, deliveries_reply_act, DELIVERIES},
    {"/inbox", READ, deliveries_reply_list, INBOX, .shown = "the same of /inbox"},
    {"/inbox/ID", READ, deliveries_reply_one, INBOX, .shown = ""},
    {"/inbox/ID/{replay,drop}", ACT, deliveries_reply_act, INBOX, .shown = ""},
    {"/inbox/sources/NAME/remove", ACT, sources_reply_removal},
    {"/endpoints", READ, endpoints_reply_list},
    {"/endpoints", ACT, endpoints_reply_addition, .shown = ""},
    {"/endpoints/NAME", READ, endpoints_reply_one},
    {"/endpoints/NAME/{enable,disable,rotate,remove}", ACT, endpoints_reply_act},
#undef READ
#undef ACT
#undef DELIVERIES
#undef INBOX
};
#define N_ROUTES (sizeof routes / sizeof *routes)

/* Somebody guesses the token, or tries from a browser. Counted each; a line a second at most, so
 * that guesses do not push other lines out of the log. */
static void note_refused(struct session *session, const struct reply *reply)
{
    struct admin *admin = session->admin;
    int64_t now = clock_boot_us();
    struct slice path = session->http.request->path;
    metrics_admin_refused(admin->config.metrics, reply->status);
    admin->refused++;
    if (now < admin->refused_line_at)
        return;
    struct log_line line;
    log_line_start(&line, LOG_LEVEL_WARN, "admin_refused");
    log_line_str(&line, "client", slice_of(session->http.peer));
    log_line_str(&line, "path", slice_first(path, PATH_SHOWN));
    log_line_i64(&line, "status", reply->status);
    log_line_i64(&line, "refused", admin->refused);
    log_line_end(admin->config.log, &line);
    admin->refused = 0;
    admin->refused_line_at = clock_after(now, REFUSED_LINES_US);
}

static bool is_of_method(const struct route *route, struct slice method)
{
    if (route->acts)
        return slice_eq(method, SLICE("POST"));
    return slice_eq(method, SLICE("GET")) || slice_eq(method, SLICE("HEAD"));
}

/* One segment of a request's path, by that of a route. */
static bool match_place_segment(struct slice given, struct slice expected, struct place *place)
{
    uint64_t id = 0;
    if (slice_eq(expected, SLICE("ID"))) {
        bool good = slice_to_u64(given, INT64_MAX, &id) && id > 0;
        place->id = (int64_t)id;
        return good;
    }
    if (slice_eq(expected, SLICE("NAME"))) {
        place->name = given;
        return given.len > 0 && percent_is_valid(given);
    }
    if (!slice_starts(expected, SLICE("{")))
        return slice_eq(given, expected);
    place->act = given;
    return slice_item(slice_first(slice_skip(expected, 1), expected.len - 2), ',', given) >= 0;
}

static bool match_place(struct slice path, struct slice expected, struct place *ret_place)
{
    struct place place = {0};
    struct slice one, wanted;
    while (slice_next(&expected, '/', &wanted))
        if (!slice_next(&path, '/', &one) || !match_place_segment(one, wanted, &place))
            return false;
    if (path.at)
        return false;
    *ret_place = place;
    return true;
}

/* The route of the request's path; of two, that of its method or the first. NULL: there is none. */
static const struct route *find_route(struct session *session)
{
    const struct http_request *request = session->http.request;
    const struct route *found = NULL;
    for (const struct route *route = routes; route < routes + N_ROUTES; route++)
        if (match_place(request->path, slice_of(route->path), &session->place) &&
            (!found || is_of_method(route, request->method)))
            found = route;
    return found;
}

static void refuse_path(struct reply *reply)
{
    BUF_AUTO struct buf all = buf_make(PROBLEM_MAX);
    for (const struct route *route = routes; route < routes + N_ROUTES; route++) {
        const char *shown = route->shown ? route->shown : route->path;
        buf_printf(&all, "%s%s", all.len > 0 && *shown ? ", " : "", shown);
    }
    reply_problem(reply, 404, "not found; this listener serves %.*s", SLICE_ARG(buf_slice(&all)));
}

static void refuse_method(const struct route *route, struct reply *reply)
{
    buf_printf(&reply->fields, "Allow: %s\r\n", route->acts ? "POST" : "GET, HEAD");
    reply_problem(reply, 405, "use %s here", route->acts ? "POST" : "GET");
}

void route_operator(struct session *session, struct reply *reply)
{
    const struct route *route = find_route(session);
    if (!(route && route->open) && !guard_admits(session, reply)) {
        note_refused(session, reply);
        return;
    }
    if (!session_knows_operator(session, reply))
        return;
    if (!route) {
        refuse_path(reply);
    } else if (!is_of_method(route, session->http.request->method)) {
        refuse_method(route, reply);
    } else {
        session->place.kind = route->kind;
        session->place.name = percent_decode(session->place.name, false, session->arena);
        route->reply(session, reply);
    }
}
