/* SPDX-License-Identifier: Apache-2.0 */
/* What a request says, what is replied to it, and its turn at the store. */
#include "admin/admin_priv.h"

#include "base/check.h"
#include "base/json/json.h"
#include "base/text/percent.h"
#include "core/request/query.h"
#include "operator/keys.h"
#include <stdarg.h>
#include <stdio.h>

#define DETAIL_MAX 1024
#define OPERATOR_MAX 100
#define REASON_BODY_MAX ((size_t)8 * 1024)
#define OPERATOR_MARKS "-._@+"

/* ---- replies ---- */

/* `code` empty: it has none. */
static void write_problem(struct reply *reply, int status, struct slice code, const char *detail,
                          va_list arguments)
{
    char text[DETAIL_MAX];
    CHECK(status >= 400 && status <= 599);
    vsnprintf(text, sizeof text, detail, arguments);
    reply->status = status;
    reply->type = "application/problem+json";
    buf_clear(&reply->body);
    buf_add_char(&reply->body, '{');
    json_add_text(&reply->body, "type", SLICE("about:blank"));
    json_add_text(&reply->body, "title", slice_of(http_reason(status)));
    json_add_i64(&reply->body, "status", status);
    json_add_text(&reply->body, "detail", slice_of(text));
    if (code.len > 0)
        json_add_text(&reply->body, "error_code", code);
    buf_add_str(&reply->body, "}\n");
}

void reply_problem(struct reply *reply, int status, const char *detail, ...)
{
    va_list arguments;
    va_start(arguments, detail);
    write_problem(reply, status, SLICE(""), detail, arguments);
    va_end(arguments);
}

void reply_coded(struct reply *reply, enum error error, const char *detail, ...)
{
    const struct error_row *row = error_row(error);
    va_list arguments;
    va_start(arguments, detail);
    write_problem(reply, row->status, slice_of(row->code), detail, arguments);
    va_end(arguments);
    buf_printf(&reply->fields, "Error-Code: %s\r\n", row->code);
}

void reply_retry_after(struct reply *reply, int64_t seconds)
{
    buf_printf(&reply->fields, "Retry-After: %lld\r\n", (long long)(seconds > 0 ? seconds : 1));
}

bool reply_store_failure(struct reply *reply, enum store_status status)
{
    if (status == STORE_DONE)
        return false;
    reply_retry_after(reply, 1);
    reply_problem(reply, 503, "%s", keys_status_text(status));
    return true;
}

void reply_removed(struct reply *reply, struct slice name)
{
    reply->type = "application/json";
    buf_add_char(&reply->body, '{');
    json_add_text(&reply->body, "name", name);
    json_add_bool(&reply->body, "removed", true);
    buf_add_str(&reply->body, "}\n");
}

/* ---- what a request says ---- */

static const struct header *find_operator(const struct session *session)
{
    return headers_find(&session->http.request->headers, SLICE("X-Operator"));
}

struct slice session_actor(const struct session *session, struct buf *name)
{
    const struct header *operator= find_operator(session);
    buf_add_str(name, "admin:");
    if (operator)
        buf_printf(name, "%.*s@", SLICE_ARG(operator->value));
    buf_add_str(name, session->http.peer);
    return buf_ok(name) ? buf_slice(name) : SLICE("admin");
}

bool session_knows_operator(const struct session *session, struct reply *reply)
{
    const struct header *operator= find_operator(session);
    struct slice name = operator? operator->value : SLICE("somebody");
    if (name.len <= OPERATOR_MAX && slice_is_word(name, OPERATOR_MARKS))
        return true;
    reply_problem(
        reply, 400,
        "X-Operator: expected a name of up to 100 letters, digits, or any of " OPERATOR_MARKS);
    return false;
}

bool session_body_is(const struct session *session, struct slice media)
{
    const struct header *type =
        headers_find(&session->http.request->headers, SLICE("Content-Type"));
    struct slice given = {0};
    if (type)
        slice_cut(type->value, ';', &given);
    return slice_eq_nocase(slice_trim(given), media);
}

bool session_read_body(struct session *session, struct buf *body, struct reply *reply)
{
    struct http_complaint complaint;
    if (http_session_read_body(&session->http, body, &complaint))
        return true;
    reply->close = true;
    reply_problem(reply, complaint.status, "%s", complaint.text);
    return false;
}

bool session_is_reason(const struct json *member, struct slice *ret_reason)
{
    bool is = slice_eq(member->name, SLICE("reason")) && member->type == JSON_STRING &&
              member->text.len > 0 && member->text.len <= STORE_REASON_MAX;
    if (is)
        *ret_reason = member->text;
    return is;
}

static bool parse_reason(struct slice text, struct arena *arena, struct slice *ret_reason)
{
    struct json *root = NULL;
    if (json_parse(arena, arena_copy(arena, text), &root, NULL) != JSON_OK ||
        root->type != JSON_OBJECT)
        return false;
    return root->count == 0 || (root->count == 1 && session_is_reason(root->first, ret_reason));
}

bool session_read_reason(struct session *session, struct slice *ret_reason, struct reply *reply)
{
    BUF_AUTO struct buf body = buf_make(REASON_BODY_MAX);
    *ret_reason = SLICE("");
    if (!session_read_body(session, &body, reply))
        return false;
    if (body.len == 0)
        return true;
    if (!session_body_is(session, SLICE("application/json"))) {
        reply_problem(reply, 415, "send the reason as application/json");
        return false;
    }
    if (parse_reason(buf_slice(&body), session->arena, ret_reason))
        return true;
    reply_problem(reply, 400,
                  "expected {\"reason\": \"...\"} only: 1 to 1024 bytes, for the audit");
    return false;
}

bool session_read_query(const struct session *session, query_taker *take, void *to,
                        struct reply *reply)
{
    struct slice query = session->http.request->query, pair, name;
    while (query_take(&query, &pair)) {
        struct slice raw = slice_cut(pair, '=', &name);
        struct slice value = percent_decode(raw, true, session->arena);
        bool good = percent_is_valid(raw) && value.at;
        const char *expected = good ? take(to, name, value) : "a well-formed query";
        if (!expected)
            continue;
        reply_problem(reply, 400, "`%.*s` in the query: expected %s", SLICE_ARG(pair), expected);
        return false;
    }
    return true;
}

/* ---- turns at the store ---- */

/* Whether its turn came in time. */
static bool wait_for_turn(struct admin *admin)
{
    struct admin_turn turn = {.parker = fiber_parker()}, **at = &admin->turns;
    CHECK(admin->store_busy == ADMIN_QUERIES_AT_ONCE);
    int64_t deadline = clock_after(clock_boot_us(), ADMIN_TURN_US);
    while (*at)
        at = &(*at)->next;
    *at = &turn;
    while (!turn.came && turn.parker->park(turn.parker, deadline))
        continue;
    if (turn.came)
        return true;
    for (at = &admin->turns; *at != &turn;)
        at = &(*at)->next;
    *at = turn.next;
    return false;
}

bool session_enter_store(struct session *session, struct reply *reply)
{
    struct admin *admin = session->admin;
    if (admin->store_busy < ADMIN_QUERIES_AT_ONCE) {
        admin->store_busy++;
        return true;
    }
    if (wait_for_turn(admin))
        return true;
    reply_retry_after(reply, 1);
    reply_problem(reply, 429, "too many concurrent store queries; try again later");
    return false;
}

/* The first that waits has the turn from now on. */
bool session_leave_store(struct session *session, enum store_status status, struct reply *reply)
{
    struct admin *admin = session->admin;
    struct admin_turn *next = admin->turns;
    CHECK(admin->store_busy > 0 && admin->store_busy <= ADMIN_QUERIES_AT_ONCE);
    if (next) {
        admin->turns = next->next;
        next->came = true;
        parker_wake(next->parker);
    } else {
        admin->store_busy--;
    }
    return !reply_store_failure(reply, status);
}

void session_tell_published(const struct session *session)
{
    const struct admin_config *config = &session->admin->config;
    config->published(config->argument);
}
