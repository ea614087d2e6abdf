/* SPDX-License-Identifier: Apache-2.0 */
/* Acts on records, by the rules of `pawl keys`: resolve and release name the token that a look at
 * the record told. */
#include "admin/session.h"
#include "base/json.h"
#include "engine/keys.h"

#define ARENA_MAX ((size_t)128 * 1024 * 1024) /* understood JSON takes up to 64 times its text */
#define TEXT_MAX ((size_t)1024)

/* What the body says. */
struct act {
    struct session *session;
    const char *name;
    enum store_op_kind kind;
    int64_t token; /* 0: none */
    bool force;
    bool released; /* resolve: it did not happen */
    struct keys_answer answer;
    bool has_answer; /* status, headers or body */
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

static bool read_member(struct act *act, const struct json *member, const char **ret_expected)
{
    struct slice name = member->name;
    bool resolves = act->kind == STORE_RESOLVE;
    if (slice_eq(name, SLICE("token"))) {
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
    *ret_expected =
        resolves ? "token, status, headers, body, released and force only" : "token and force only";
    return false;
}

/* NULL: it can be done; else one sentence. */
static const char *what_is_missing(const struct act *act)
{
    if (act->kind != STORE_FORGET && act->token == 0)
        return "`token` is missing: it is the token that GET of the record shows";
    if (act->kind == STORE_RESOLVE && act->released && act->has_answer)
        return "`released` has no status, headers or body";
    if (act->kind == STORE_RESOLVE && !act->released && act->answer.status == 0)
        return "how did it end? give `status`, or `released`: true";
    return NULL;
}

static bool is_json(const struct session *session)
{
    const struct header *type = headers_find(&session->request.headers, SLICE("Content-Type"));
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

/* ---- doing ---- */

static const char *const ends[] = {
    [KEYS_DONE] = "done",   [KEYS_SAME] = "same",   [KEYS_LATE] = "late",
    [KEYS_STALE] = "stale", [KEYS_EARLY] = "early", [KEYS_LIVE] = "live",
};

static void log_act(const struct act *act, const struct keys_row *row, const struct store_op *op,
                    enum keys_end end)
{
    const struct admin *admin = act->session->admin;
    struct slice secret = store_secret(admin->config.store);
    const struct store_row *store = &row->store;
    struct log_line line;
    log_line_start(&line, LOG_LEVEL_INFO, "act");
    log_line_str(&line, "act", slice_of(act->name));
    log_line_str(&line, "actor", op->actor);
    log_line_str(&line, "rule", store->rule);
    if (store->tenant.len > 0)
        log_line_keyed(&line, "tenant_hash", secret, store->tenant);
    if (atomic_load(&admin->log_keys_hashed))
        log_line_keyed(&line, "idempotency_key", secret, store->key);
    else
        log_line_str(&line, "idempotency_key", store->key);
    log_line_i64(&line, "token", op->token);
    log_line_bool(&line, "force", op->force);
    if (op->http_status != 0)
        log_line_i64(&line, "status", op->http_status);
    log_line_str(&line, "from_state", slice_of(record_status_name(store->record.status)));
    log_line_str(&line, "to_state", slice_of(record_status_name(op->record.status)));
    log_line_str(&line, "result", slice_of(ends[end]));
    log_line_end(admin->config.log, &line);
}

static void tell_done(const struct act *act, const struct keys_row *row, const struct store_op *op,
                      struct slice what, struct reply *reply)
{
    struct slice secret = store_secret(act->session->admin->config.store);
    struct keys_view view = {&row->store, &op->record, op->lease, op->store_now, NULL, secret};
    reply->type = "application/json";
    buf_add_str(&reply->body, "{\"message\":");
    json_add_string(&reply->body, what);
    json_add_bool(&reply->body, "changed", op->write == RECORD_WRITTEN);
    json_add_name(&reply->body, "key");
    if (op->record.status == RECORD_ABSENT)
        buf_add_str(&reply->body, "null");
    else
        keys_add_json(&reply->body, &view, false);
    buf_add_str(&reply->body, "}\n");
}

static void tell(const struct act *act, const struct keys_row *row, const struct store_op *op,
                 struct reply *reply)
{
    BUF_AUTO struct buf what = buf_make(TEXT_MAX);
    enum keys_end end = keys_describe(op, "send \"force\": true", &what);
    log_act(act, row, op, end);
    if (end == KEYS_DONE || end == KEYS_SAME) {
        tell_done(act, row, op, buf_slice(&what), reply);
        return;
    }
    if (end == KEYS_EARLY)
        reply_retry_after(reply, keys_seconds_left(op->store_now, op->record.quiet_at));
    if (end == KEYS_LIVE)
        reply_retry_after(reply, keys_seconds_left(0, op->lease_left_us));
    reply_problem(reply, end == KEYS_EARLY ? 425 : 409, "%.*s", SLICE_ARG(buf_slice(&what)));
}

static void apply(const struct act *act, const struct keys_row *row, struct outcome *outcome,
                  struct reply *reply)
{
    BUF_AUTO struct buf actor = buf_make(STORE_ACTOR_MAX);
    buf_printf(&actor, "admin:%s", act->session->peer);
    struct store_op op = {
        .kind = act->released ? STORE_RELEASE_SETTLED : act->kind,
        .key_hash = row->store.key_hash,
        .row_hint = row->store.id,
        .token = act->token,
        .force = act->force,
        .http_status = act->answer.status,
        .outcome = outcome,
        .actor = buf_ok(&actor) ? buf_slice(&actor) : SLICE("admin"),
    };
    store_run(act->session->admin->config.store, &op, fiber_parker(),
              clock_after(clock_boot_us(), KEYS_PATIENCE_US));
    if (op.status != STORE_DONE) {
        keys_refused(reply, op.status);
        return;
    }
    if (op.kind == STORE_FORGET && op.write == RECORD_WRITTEN)
        fiber_sleep_until(clock_after(clock_boot_us(), KEYS_CACHES_US));
    tell(act, row, &op, reply);
}

static void run(const struct act *act, int64_t id, struct reply *reply)
{
    KEYS_FOUND_AUTO struct keys_found found = {0};
    BUF_AUTO struct buf problem = buf_make(TEXT_MAX);
    struct keys_row *row = NULL;
    struct outcome *outcome = NULL;
    if (!keys_find_row(act->session, id, &found, &row, reply))
        return;
    if (act->has_answer && !keys_make_outcome(&act->answer, &problem, &outcome)) {
        reply_problem(reply, 400, "%.*s", SLICE_ARG(buf_slice(&problem)));
        return;
    }
    apply(act, row, outcome, reply);
    outcome_unref(outcome);
}

bool acts_answer(struct session *session, int64_t id, struct slice name, struct reply *reply)
{
    static const struct act acts[] = {
        {.name = "resolve", .kind = STORE_RESOLVE},
        {.name = "release", .kind = STORE_RELEASE_SETTLED},
        {.name = "forget", .kind = STORE_FORGET},
    };
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    BUF_AUTO struct buf body = buf_make(ADMIN_BODY_MAX);
    struct act act = {0};
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++)
        if (slice_eq(name, slice_of(acts[i].name)))
            act = acts[i];
    act.session = session;
    if (!act.name)
        return false;
    if (!slice_eq(session->request.method, SLICE("POST"))) {
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
