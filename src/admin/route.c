/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/admin_priv.h"
#include "observe/page.h"

#define ID_MOST ((uint64_t)INT64_MAX)
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

static const struct page {
    struct slice path;
    bool open; /* to everybody: health */
    void (*reply)(struct session *session, struct reply *reply);
} pages[] = {
    {{"/livez", 6}, true, reply_live},       {{"/readyz", 7}, true, reply_ready},
    {{"/metrics", 8}, false, reply_metrics}, {{"/keys", 5}, false, keys_reply_list},
    {{"/audit", 6}, false, audit_reply},
};

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

bool admin_method_is(const struct session *session, bool act, struct reply *reply)
{
    struct slice method = session->http.request->method;
    bool reads = slice_eq(method, SLICE("GET")) || slice_eq(method, SLICE("HEAD"));
    if (act ? slice_eq(method, SLICE("POST")) : reads)
        return true;
    buf_add_str(&reply->fields, act ? "Allow: POST\r\n" : "Allow: GET, HEAD\r\n");
    reply_problem(reply, 405, "use %s here", act ? "POST" : "GET");
    return false;
}

void admin_no_page(struct reply *reply)
{
    reply_problem(
        reply, 404,
        "not found; this listener serves /livez, /readyz, /metrics, /audit, /keys, /keys/ID, "
        "/keys/ID/{resolve,release,forget}, /keys/{resolve,release}, /events, "
        "/deliveries, /deliveries/ID, /deliveries/ID/{replay,drop}, the same of /inbox, "
        "/inbox/sources/NAME/remove, "
        "/endpoints, /endpoints/NAME, /endpoints/NAME/{enable,disable,rotate,remove}");
}

/* /keys/ID, /keys/ID/ACT and /keys/ACT */
static void route_key(struct session *session, struct slice rest, struct reply *reply)
{
    struct slice digits;
    uint64_t id = 0;
    struct slice act = slice_cut(rest, '/', &digits);
    if (!act.at && acts_reply(session, ACTS_MANY, rest, reply))
        return;
    if (!slice_to_u64(digits, ID_MOST, &id) || (act.at && act.len == 0)) {
        admin_no_page(reply);
        return;
    }
    if (act.at && !acts_reply(session, (int64_t)id, act, reply))
        admin_no_page(reply);
    else if (!act.at && admin_method_is(session, false, reply))
        keys_reply_one(session, (int64_t)id, reply);
}

void route(struct session *session, struct reply *reply)
{
    struct slice path = session->http.request->path;
    const struct page *page = NULL;
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
        if (slice_eq(path, pages[i].path))
            page = &pages[i];
    if (!(page && page->open) && !guard_admits(session, reply)) {
        note_refused(session, reply);
        return;
    }
    if (!session_knows_operator(session, reply))
        return;
    if (page && admin_method_is(session, false, reply))
        page->reply(session, reply);
    else if (!page && slice_starts(path, SLICE("/keys/")))
        route_key(session, slice_skip(path, strlen("/keys/")), reply);
    else if (!page && slice_eq(path, SLICE("/events")) && admin_method_is(session, true, reply))
        events_reply(session, reply);
    else if (!page && slice_eq(path, SLICE("/events")))
        return;
    else if (!page && !endpoints_reply(session, reply) && !sources_reply(session, reply) &&
             !deliveries_reply(session, reply))
        admin_no_page(reply);
}
