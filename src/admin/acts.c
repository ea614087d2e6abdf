/* SPDX-License-Identifier: Apache-2.0 */
/* Acts on records, by the rules of `pawl keys`: resolve and release name the token that a look at
 * the record told; or a rule and a time, for all of its records that are in doubt. */
#include "admin/session.h"
#include "base/json.h"
#include "base/timestamp.h"
#include "operator/keys.h"

#define ARENA_MAX ((size_t)128 * 1024 * 1024) /* understood JSON takes up to 64 times its text */
#define TEXT_MAX ((size_t)1024)
#define MANY_DEFAULT 100
#define MANY_REPLY_FULL ((size_t)4 * 1024 * 1024) /* of ADMIN_REPLY_MAX: one more always fits */
#define FORCE_HINT "send \"force\": true"

/* What the body says. */
struct act {
    struct session *session;
    const char *name; /* NULL: there is no such act */
    enum keys_act_kind kind;
    int64_t token; /* 0: none */
    bool force;
    bool released; /* resolve: it did not happen */
    struct keys_answer answer;
    bool has_answer;       /* status, headers or body */
    bool is_many;          /* no record is named, but: */
    struct keys_many many; /* its rule, tenant, before, after, limit */
};

/* ---- reading ---- */

static bool read_bool(const struct json *value, bool *ret_value)
{
    *ret_value = value->type == JSON_TRUE;
    return value->type == JSON_TRUE || value->type == JSON_FALSE;
}

static bool read_integer(const struct json *value, int64_t lowest, int64_t highest,
                         int64_t *ret_value)
{
    uint64_t number;
    if (value->type != JSON_NUMBER || !slice_to_u64(value->text, (uint64_t)highest, &number) ||
        (int64_t)number < lowest)
        return false;
    *ret_value = (int64_t)number;
    return true;
}

/* {"Name": "value"} or [["Name", "value"]], the form in which a record shows them. */
static bool read_headers(const struct json *value, struct headers *ret_headers)
{
    if (value->type != JSON_OBJECT && value->type != JSON_ARRAY)
        return false;
    for (const struct json *line = value->first; line; line = line->next) {
        bool pair = value->type == JSON_ARRAY;
        if (pair &&
            (line->type != JSON_ARRAY || line->count != 2 || line->first->type != JSON_STRING))
            return false;
        struct slice name = pair ? line->first->text : line->name;
        const struct json *text = pair ? line->first->next : line;
        if (text->type != JSON_STRING || !header_is_valid(name, text->text) ||
            !headers_add(ret_headers, name, slice_trim(text->text)))
            return false;
    }
    return true;
}

static bool read_outcome(struct act *act, const struct json *member, const char **ret_expected)
{
    int64_t number = 0;
    act->has_answer = true;
    if (slice_eq(member->name, SLICE("status"))) {
        *ret_expected = "200 to 599";
        bool good = read_integer(member, 200, 599, &number);
        act->answer.status = (int)number;
        return good;
    }
    if (slice_eq(member->name, SLICE("headers"))) {
        *ret_expected = "an object of header names and values";
        return read_headers(member, &act->answer.headers);
    }
    *ret_expected = "a string";
    act->answer.body = member->text;
    return member->type == JSON_STRING;
}

static bool read_text(const struct json *value, struct slice *ret_text)
{
    *ret_text = value->text;
    return value->type == JSON_STRING;
}

/* Which records an act on many is for. `*ret_known`: the member is one of those. */
static bool read_which(struct keys_many *many, const struct json *member, bool *ret_known,
                       const char **ret_expected)
{
    struct slice name = member->name, text;
    int64_t number = 0;
    *ret_known = true;
    *ret_expected = "a string";
    if (slice_eq(name, SLICE("rule")))
        return read_text(member, &many->rule);
    if (slice_eq(name, SLICE("tenant")))
        return read_text(member, &many->tenant);
    if (slice_eq(name, SLICE("before"))) {
        *ret_expected = "a time such as \"2026-01-31T12:00:00Z\"";
        return read_text(member, &text) && timestamp_parse(text, &many->before) && many->before > 0;
    }
    if (slice_eq(name, SLICE("limit"))) {
        *ret_expected = "1 to 1000";
        bool good = read_integer(member, 1, KEYS_MANY_MOST, &number);
        many->limit = (size_t)number;
        return good;
    }
    *ret_expected = "the `next` of the response before";
    *ret_known = slice_eq(name, SLICE("after"));
    return *ret_known && read_integer(member, 1, KEYS_TOKEN_MOST, &many->after);
}

static const char *members_of(const struct act *act)
{
    bool resolves = act->kind == KEYS_RESOLVE;
    if (act->is_many)
        return resolves ? "rule, before, tenant, limit, after, status, headers, body, released and "
                          "force only"
                        : "rule, before, tenant, limit, after and force only";
    return resolves ? "token, status, headers, body, released and force only"
                    : "token and force only";
}

static bool read_member(struct act *act, const struct json *member, const char **ret_expected)
{
    struct slice name = member->name;
    bool resolves = act->kind == KEYS_RESOLVE, known = false;
    bool good = act->is_many && read_which(&act->many, member, &known, ret_expected);
    if (known)
        return good;
    if (!act->is_many && slice_eq(name, SLICE("token"))) {
        *ret_expected = "the token that the record shows";
        return read_integer(member, 1, KEYS_TOKEN_MOST, &act->token);
    }
    *ret_expected = "true or false";
    if (slice_eq(name, SLICE("force")))
        return read_bool(member, &act->force);
    if (resolves && slice_eq(name, SLICE("released")))
        return read_bool(member, &act->released);
    if (resolves && (slice_eq(name, SLICE("status")) || slice_eq(name, SLICE("headers")) ||
                     slice_eq(name, SLICE("body"))))
        return read_outcome(act, member, ret_expected);
    *ret_expected = members_of(act);
    return false;
}

/* NULL: it can be done; else one sentence. */
static const char *what_is_missing(const struct act *act)
{
    if (act->is_many && !act->many.rule.at)
        return "`rule` is missing: the one whose records are meant";
    if (act->is_many && act->many.before == 0)
        return "`before` is missing: only records that were last tried before that time are meant";
    if (!act->is_many && act->kind != KEYS_FORGET && act->token == 0)
        return "`token` is missing: it is the token that GET of the record shows";
    if (act->kind == KEYS_RESOLVE && act->released && act->has_answer)
        return "`released` has no status, headers or body";
    if (act->kind == KEYS_RESOLVE && !act->released && act->answer.status == 0)
        return "how did it end? give `status`, or `released`: true";
    return NULL;
}

static bool is_json(const struct session *session)
{
    const struct header *type =
        headers_find(&session->http.request->headers, SLICE("Content-Type"));
    struct slice media = {0};
    if (type)
        slice_cut(type->value, ';', &media);
    return slice_eq_nocase(slice_trim(media), SLICE("application/json"));
}

static bool parse(struct act *act, struct arena *arena, struct slice body, struct reply *reply)
{
    struct json *root = NULL;
    const char *expected = NULL;
    enum json_error error = json_parse(arena, body, &root, NULL);
    if (error != JSON_OK || root->type != JSON_OBJECT) {
        reply_problem(reply, 400, "the body is not a JSON object%s%s", error ? ": " : "",
                      error ? json_error_text(error) : "");
        return false;
    }
    for (const struct json *member = root->first; member; member = member->next) {
        if (read_member(act, member, &expected))
            continue;
        reply_problem(reply, 400, "`%.*s` in the body: expected %s", SLICE_ARG(member->name),
                      expected);
        return false;
    }
    const char *missing = what_is_missing(act);
    if (missing)
        reply_problem(reply, 400, "%s", missing);
    return !missing;
}

/* ---- one record ---- */

static void log_act(const struct session *session, const struct keys_act *act)
{
    const struct admin *admin = session->admin;
    const struct digest_key *key = store_digest_key(admin->config.store);
    const struct store_row *row = &act->row->store;
    struct log_line line;
    log_line_start(&line, LOG_LEVEL_INFO, "act");
    log_line_str(&line, "act", slice_of(keys_act_name(act)));
    log_line_str(&line, "actor", act->actor);
    log_line_str(&line, "rule", row->rule);
    if (row->tenant.len > 0)
        log_line_keyed(&line, "tenant_hash", key, row->tenant);
    if (atomic_load(&admin->log_keys_hashed))
        log_line_keyed(&line, "idempotency_key", key, row->key);
    else
        log_line_str(&line, "idempotency_key", row->key);
    log_line_i64(&line, "token", act->token);
    log_line_bool(&line, "force", act->force);
    if (act->http_status != 0)
        log_line_i64(&line, "status", act->http_status);
    log_line_str(&line, "from_state", slice_of(record_status_name(row->record.status)));
    log_line_str(&line, "to_state", slice_of(record_status_name(act->record.status)));
    log_line_str(&line, "result", slice_of(keys_end_name(act->end)));
    log_line_end(admin->config.log, &line);
}

static void tell_done(const struct session *session, const struct keys_act *act,
                      struct reply *reply)
{
    const struct digest_key *key = store_digest_key(session->admin->config.store);
    struct keys_view view = {&act->row->store, &act->record, act->lease, act->now, NULL, key};
    reply->type = "application/json";
    buf_add_char(&reply->body, '{');
    json_add_text(&reply->body, "message", buf_slice(&act->what));
    json_add_bool(&reply->body, "changed", act->changed);
    if (act->record.status == RECORD_ABSENT) {
        json_add_null(&reply->body, "key");
    } else {
        json_add_name(&reply->body, "key");
        keys_add_json(&reply->body, &view, false);
    }
    buf_add_str(&reply->body, "}\n");
}

static void tell(const struct session *session, const struct keys_act *act, struct reply *reply)
{
    log_act(session, act);
    if (act->end == KEYS_DONE || act->end == KEYS_SAME) {
        tell_done(session, act, reply);
        return;
    }
    if (act->end == KEYS_EARLY)
        reply_retry_after(reply, keys_seconds_left(act->now, act->record.quiet_at));
    if (act->end == KEYS_LIVE)
        reply_retry_after(reply, keys_seconds_left(0, act->lease_left_us));
    reply_problem(reply, act->end == KEYS_EARLY ? 425 : 409, "%.*s",
                  SLICE_ARG(buf_slice(&act->what)));
}

/* `actor` and `outcome` (NULL: none) outlive it. */
static struct keys_act make_act(const struct act *act, const struct buf *actor,
                                struct outcome *outcome)
{
    return (struct keys_act){
        .kind = act->released ? KEYS_RELEASE : act->kind,
        .token = act->token,
        .force = act->force,
        .http_status = act->answer.status,
        .outcome = outcome,
        .actor = buf_ok(actor) ? buf_slice(actor) : SLICE("admin"),
        .insist = FORCE_HINT,
    };
}

static void run_one(struct session *session, int64_t id, struct keys_act *act, struct reply *reply)
{
    KEYS_FOUND_AUTO struct keys_found found = {0};
    struct keys_row *row = NULL;
    if (!keys_find_row(session, id, &found, &row, reply))
        return;
    act->row = row;
    enum store_status status = keys_act(session->admin->config.store, act, fiber_parker());
    if (status == STORE_DONE)
        tell(session, act, reply);
    else
        keys_refused(reply, status);
    keys_act_fini(act);
}

/* ---- many records ---- */

struct many_reply {
    const struct session *session;
    struct buf keys; /* JSON objects */
};

static bool tell_one(void *argument, const struct keys_act *act)
{
    struct many_reply *many = argument;
    log_act(many->session, act);
    if (many->keys.len > 0)
        buf_add_char(&many->keys, ',');
    keys_add_act_json(&many->keys, act, store_digest_key(many->session->admin->config.store));
    return many->keys.len < MANY_REPLY_FULL && !http_session_is_draining(&many->session->http);
}

static void tell_many(const struct many_reply *many, const struct keys_tally *tally,
                      struct reply *reply)
{
    int64_t seconds = tally->too_early > 0 && tally->seconds == 0 ? 1 : tally->seconds;
    reply->type = "application/json";
    buf_add_char(&reply->body, '{');
    json_add_i64(&reply->body, "settled", (int64_t)tally->settled);
    json_add_i64(&reply->body, "too_early", (int64_t)tally->too_early);
    json_add_i64(&reply->body, "changed", (int64_t)tally->changed);
    json_add_known_i64(&reply->body, "retry_after", seconds);
    json_add_known_i64(&reply->body, "next", tally->next);
    json_open(&reply->body, "keys", '[');
    buf_add_slice(&reply->body, buf_slice(&many->keys));
    buf_add_str(&reply->body, "]}\n");
    if (!buf_ok(&many->keys))
        reply->body.failed = true;
}

/* False: the reply says why nothing is done. */
static bool knows_rule(struct session *session, const struct keys_many *many, struct reply *reply)
{
    BUF_AUTO struct buf problem = buf_make(TEXT_MAX);
    enum store_status status = keys_know_rule(session->admin->config.store, many->rule, many->scans,
                                              fiber_parker(), &problem);
    if (status != STORE_DONE)
        keys_refused(reply, status);
    else if (problem.len > 0)
        reply_problem(reply, 404, "%.*s", SLICE_ARG(buf_slice(&problem)));
    return status == STORE_DONE && problem.len == 0;
}

/* What was done before the store failed is told; the next call, from `next` on, says that it has.
 */
static void run_many(struct session *session, struct keys_many *many, struct reply *reply)
{
    struct many_reply told = {session, buf_make(ADMIN_REPLY_MAX)};
    struct keys_tally tally = {0};
    many->scans = KEYS_SCANS_MOST;
    many->each = tell_one;
    many->argument = &told;
    if (!keys_enter(session, reply))
        return;
    if (knows_rule(session, many, reply)) {
        enum store_status status =
            keys_act_on_many(session->admin->config.store, many, fiber_parker(), &tally);
        if (status == STORE_DONE || told.keys.len > 0)
            tell_many(&told, &tally, reply);
        else
            keys_refused(reply, status);
    }
    keys_leave(session);
    buf_fini(&told.keys);
}

static void run(struct act *act, int64_t id, struct reply *reply)
{
    BUF_AUTO struct buf actor = buf_make(STORE_ACTOR_MAX);
    BUF_AUTO struct buf problem = buf_make(TEXT_MAX);
    struct outcome *outcome = NULL;
    buf_printf(&actor, "admin:%s", act->session->http.peer);
    if (act->has_answer && !keys_make_outcome(&act->answer, &problem, &outcome)) {
        reply_problem(reply, 400, "%.*s", SLICE_ARG(buf_slice(&problem)));
        return;
    }
    struct keys_act one = make_act(act, &actor, outcome);
    act->many.act = one;
    if (act->is_many)
        run_many(act->session, &act->many, reply);
    else
        run_one(act->session, id, &one, reply);
    outcome_unref(outcome);
}

/* ---- requests ---- */

bool acts_answer(struct session *session, int64_t id, struct slice name, struct reply *reply)
{
    static const struct act acts[] = {
        {.name = "resolve", .kind = KEYS_RESOLVE},
        {.name = "release", .kind = KEYS_RELEASE},
        {.name = "forget", .kind = KEYS_FORGET},
    };
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    BUF_AUTO struct buf body = buf_make(ADMIN_BODY_MAX);
    struct act act = {0};
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++)
        if (slice_eq(name, slice_of(acts[i].name)))
            act = acts[i];
    act.session = session;
    act.is_many = id == ACTS_MANY;
    act.many.limit = MANY_DEFAULT;
    if (!act.name || (act.is_many && act.kind == KEYS_FORGET))
        return false;
    if (!slice_eq(session->http.request->method, SLICE("POST"))) {
        buf_add_str(&reply->fields, "Allow: POST\r\n");
        reply_problem(reply, 405, "use POST here");
    } else if (!is_json(session)) {
        reply_problem(reply, 415, "send a JSON object as Content-Type: application/json");
    } else if (session_read_body(session, &body, reply) &&
               parse(&act, &arena, buf_slice(&body), reply)) {
        run(&act, id, reply);
    }
    return true;
}
