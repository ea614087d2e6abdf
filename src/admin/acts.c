/* SPDX-License-Identifier: Apache-2.0 */
/* Acts on records, by the rules of `pawl keys`: resolve and release name the token that
 * GET of the record shows; or a rule and a time, for all of its records that are in doubt. */
#include "admin/admin_priv.h"
#include "base/check.h"
#include "base/json/json.h"
#include "base/time/timestamp.h"
#include "operator/keys.h"

#define ARENA_MAX ((size_t)128 * 1024 * 1024) /* understood JSON takes up to 64 times its text */
#define TEXT_MAX ((size_t)1024)
#define MANY_DEFAULT 100
#define MANY_REPLY_FULL ((size_t)4 * 1024 * 1024) /* of ADMIN_REPLY_MAX: one more always fits */
#define FORCE_HINT "send \"force\": true"

/* What the body says. */
struct act {
    struct session *session;
    enum keys_act_kind kind;
    int64_t token; /* 0: none */
    bool force;
    struct slice reason;
    bool released;  /* resolve: it did not happen */
    int64_t status; /* of its response */
    int64_t limit;  /* of the many */
    struct keys_response response;
    bool has_response;     /* status, headers or body */
    bool is_many;          /* no record is named, but: */
    struct keys_many many; /* its rule, tenant, before, after, limit */
};

/* ---- reading ---- */

/* {"Name": "value"} or [["Name", "value"]], the form in which a record shows them. */
static bool read_act_headers(const struct json *value, struct headers *ret_headers)
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

/* Of which acts a member is. */
enum when { ALWAYS, OF_ONE, OF_MANY, TO_RESOLVE };
enum value { TEXT, TRUTH, NUMBER, TIME, HEADERS };

static const struct member {
    const char *name;
    enum when when;
    enum value value;
    size_t offset;       /* in struct act */
    int64_t least, most; /* of a number, or of a text's length: 0, any */
    const char *expected;
} members[] = {
#define AT(member) offsetof(struct act, member)
    {"token", OF_ONE, NUMBER, AT(token), 1, KEYS_TOKEN_MOST, "the token that the record shows"},
    {"rule", OF_MANY, TEXT, AT(many.rule), 0, 0, "a string"},
    {"before", OF_MANY, TIME, AT(many.before), 0, 0, "a time such as \"2026-01-31T12:00:00Z\""},
    {"tenant", OF_MANY, TEXT, AT(many.tenant), 0, 0, "a string"},
    {"limit", OF_MANY, NUMBER, AT(limit), 1, KEYS_MANY_MOST, "1 to 1000"},
    {"after", OF_MANY, NUMBER, AT(many.after), 1, KEYS_TOKEN_MOST,
     "the `next` of the response before"},
    {"status", TO_RESOLVE, NUMBER, AT(status), 200, 599, "200 to 599"},
    {"headers", TO_RESOLVE, HEADERS, AT(response.headers), 0, 0,
     "an object of header names and values"},
    {"body", TO_RESOLVE, TEXT, AT(response.body), 0, 0, "a string"},
    {"released", TO_RESOLVE, TRUTH, AT(released), 0, 0, "true or false"},
    {"reason", ALWAYS, TEXT, AT(reason), 1, STORE_REASON_MAX, "1 to 1024 bytes, for the audit"},
    {"force", ALWAYS, TRUTH, AT(force), 0, 0, "true or false"},
#undef AT
};
#define N_MEMBERS COUNT_OF(members)

static bool is_member_of_act(const struct act *act, const struct member *member)
{
    return member->when == ALWAYS || (member->when == OF_ONE && !act->is_many) ||
           (member->when == OF_MANY && act->is_many) ||
           (member->when == TO_RESOLVE && act->kind == KEYS_RESOLVE);
}

static bool read_value(const struct member *member, const struct json *value, void *to)
{
    uint64_t number;
    CHECK(0 <= member->least && member->least <= member->most);
    switch (member->value) {
    case TEXT:
        *(struct slice *)to = value->text;
        return value->type == JSON_STRING &&
               (member->most == 0 || ((int64_t)value->text.len >= member->least &&
                                      (int64_t)value->text.len <= member->most));
    case TRUTH:
        *(bool *)to = value->type == JSON_TRUE;
        return value->type == JSON_TRUE || value->type == JSON_FALSE;
    case NUMBER:
        if (value->type != JSON_NUMBER ||
            !slice_to_u64(value->text, (uint64_t)member->most, &number))
            return false;
        *(int64_t *)to = (int64_t)number;
        return (int64_t)number >= member->least;
    case TIME:
        return value->type == JSON_STRING && timestamp_parse(value->text, to) && *(int64_t *)to > 0;
    case HEADERS:
        return read_act_headers(value, to);
    }
    UNREACHABLE();
}

/* Appends "token, reason and force only". */
static void add_member_names(const struct act *act, struct buf *to)
{
    const char *separator = "";
    for (const struct member *member = members; member < members + N_MEMBERS; member++) {
        if (!is_member_of_act(act, member))
            continue;
        bool is_last = member == members + N_MEMBERS - 1;
        buf_printf(to, "%s%s", is_last ? " and " : separator, member->name);
        separator = ", ";
    }
    buf_add_str(to, " only");
}

/* False: `expected` gets what was expected here. */
static bool read_act_member(struct act *act, const struct json *value, struct buf *expected)
{
    for (const struct member *member = members; member < members + N_MEMBERS; member++) {
        if (!slice_eq(value->name, slice_of(member->name)) || !is_member_of_act(act, member))
            continue;
        act->has_response |= member->when == TO_RESOLVE && member->value != TRUTH;
        buf_add_str(expected, member->expected);
        return read_value(member, value, (char *)act + member->offset);
    }
    add_member_names(act, expected);
    return false;
}

/* NULL: it can be done; else one sentence. */
static const char *what_is_missing(const struct act *act)
{
    if (act->is_many && !act->many.rule.at)
        return "`rule` is missing: name the rule whose records to settle";
    if (act->is_many && act->many.before == 0)
        return "`before` is missing: only records last tried before that time are settled";
    if (!act->is_many && act->kind != KEYS_FORGET && act->token == 0)
        return "`token` is missing: GET of the record shows it";
    if (act->kind == KEYS_RESOLVE && act->released && act->has_response)
        return "`released` takes no status, headers or body";
    if (act->kind == KEYS_RESOLVE && !act->released && act->status == 0)
        return "`status`, or `released`: true, is missing: how did it end?";
    return NULL;
}

static bool read_act(struct act *act, struct arena *arena, struct slice body, struct reply *reply)
{
    struct json *root = NULL;
    enum json_error error = json_parse(arena, body, &root, NULL);
    if (error != JSON_OK || root->type != JSON_OBJECT) {
        reply_problem(reply, 400, "the body is not a JSON object%s%s", error ? ": " : "",
                      error ? json_error_text(error) : "");
        return false;
    }
    for (const struct json *member = root->first; member; member = member->next) {
        BUF_AUTO struct buf expected = buf_make(TEXT_MAX);
        if (read_act_member(act, member, &expected))
            continue;
        reply_problem(reply, 400, "`%.*s` in the body: expected %.*s", SLICE_ARG(member->name),
                      SLICE_ARG(buf_slice(&expected)));
        return false;
    }
    const char *missing = what_is_missing(act);
    if (missing)
        reply_problem(reply, 400, "%s", missing);
    return !missing;
}

/* ---- one record ---- */

static void log_keys_act(const struct session *session, const struct keys_act *act)
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
    if (act->reason.len > 0)
        log_line_str(&line, "reason", act->reason);
    if (act->http_status != 0)
        log_line_i64(&line, "status", act->http_status);
    log_line_str(&line, "from_state", slice_of(record_status_name(row->record.status)));
    log_line_str(&line, "to_state", slice_of(record_status_name(act->record.status)));
    log_line_str(&line, "result", slice_of(keys_end_name(act->end)));
    log_line_end(admin->config.log, &line);
}

static void reply_done(const struct session *session, const struct keys_act *act,
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

static void reply_keys_act(const struct session *session, const struct keys_act *act,
                           struct reply *reply)
{
    log_keys_act(session, act);
    if (act->end == KEYS_DONE || act->end == KEYS_SAME) {
        reply_done(session, act, reply);
        return;
    }
    if (act->end == KEYS_EARLY)
        reply_retry_after(reply, clock_seconds_left(act->now, act->record.quiet_at));
    if (act->end == KEYS_LIVE)
        reply_retry_after(reply, clock_seconds_left(0, act->lease_left_us));
    reply_problem(reply, act->end == KEYS_EARLY ? 425 : 409, "%.*s",
                  SLICE_ARG(buf_slice(&act->what)));
}

/* `actor` and `outcome` (NULL: none) outlive it. */
static struct keys_act make_keys_act(const struct act *act, struct slice actor,
                                     struct outcome *outcome)
{
    return (struct keys_act){
        .kind = act->released ? KEYS_RELEASE : act->kind,
        .token = act->token,
        .force = act->force,
        .http_status = (int)act->status,
        .outcome = outcome,
        .actor = actor,
        .reason = act->reason,
        .insist = FORCE_HINT,
    };
}

static void run_one(struct session *session, struct keys_act *act, struct reply *reply)
{
    KEYS_FOUND_AUTO struct keys_found found = {0};
    struct keys_row *row = NULL;
    if (!keys_find_row(session, &found, &row, reply))
        return;
    act->row = row;
    enum store_status status = keys_act(session->admin->config.store, act, fiber_parker());
    if (!reply_store_failure(reply, status))
        reply_keys_act(session, act, reply);
    keys_act_fini(act);
}

/* ---- many records ---- */

struct many_reply {
    const struct session *session;
    struct buf keys; /* JSON objects */
};

static bool log_one_act(void *argument, const struct keys_act *act)
{
    struct many_reply *many = argument;
    log_keys_act(many->session, act);
    if (many->keys.len > 0)
        buf_add_char(&many->keys, ',');
    keys_add_act_json(&many->keys, act, store_digest_key(many->session->admin->config.store));
    return many->keys.len < MANY_REPLY_FULL && !http_session_is_draining(&many->session->http);
}

static void reply_many(const struct many_reply *many, const struct keys_tally *tally,
                       struct reply *reply)
{
    int64_t seconds = tally->too_early > 0 && tally->seconds == 0 ? 1 : tally->seconds;
    reply->type = "application/json";
    buf_add_char(&reply->body, '{');
    json_add_i64(&reply->body, "settled", (int64_t)tally->settled);
    json_add_i64(&reply->body, "too_early", (int64_t)tally->too_early);
    json_add_i64(&reply->body, "changed", (int64_t)tally->changed);
    json_add_known_i64(&reply->body, "in_use", (int64_t)tally->in_use);
    json_add_known_i64(&reply->body, "other", (int64_t)tally->other);
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
    if (!reply_store_failure(reply, status) && problem.len > 0)
        reply_problem(reply, 404, "%.*s", SLICE_ARG(buf_slice(&problem)));
    return status == STORE_DONE && problem.len == 0;
}

/* What was done before the store failed is reported; the next call, from `next` on, fails. */
static void run_many(struct session *session, struct keys_many *many, struct reply *reply)
{
    struct many_reply done = {session, buf_make(ADMIN_REPLY_MAX)};
    struct keys_tally tally = {0};
    many->scans = KEYS_SCANS_MOST;
    many->each = log_one_act;
    many->argument = &done;
    if (!session_enter_store(session, reply))
        return;
    enum store_status status = STORE_DONE;
    bool knows = knows_rule(session, many, reply);
    if (knows)
        status = keys_act_on_many(session->admin->config.store, many, fiber_parker(), &tally);
    if (done.keys.len > 0)
        status = STORE_DONE;
    if (session_leave_store(session, status, reply) && knows)
        reply_many(&done, &tally, reply);
    buf_fini(&done.keys);
}

static void run_act(struct act *act, struct reply *reply)
{
    BUF_AUTO struct buf actor = buf_make(STORE_ACTOR_MAX);
    BUF_AUTO struct buf problem = buf_make(TEXT_MAX);
    struct outcome *outcome = NULL;
    act->response.status = (int)act->status;
    act->many.limit = (size_t)act->limit;
    if (act->has_response && !keys_make_outcome(&act->response, &problem, &outcome)) {
        reply_problem(reply, 400, "%.*s", SLICE_ARG(buf_slice(&problem)));
        return;
    }
    struct keys_act one = make_keys_act(act, session_actor(act->session, &actor), outcome);
    act->many.act = one;
    if (act->is_many)
        run_many(act->session, &act->many, reply);
    else
        run_one(act->session, &one, reply);
    outcome_unref(outcome);
}

/* ---- requests ---- */

static void reply_act(struct session *session, bool is_many, struct reply *reply)
{
    static const enum keys_act_kind kinds[] = {KEYS_RESOLVE, KEYS_RELEASE, KEYS_FORGET};
    ptrdiff_t kind = slice_item(SLICE("resolve|release|forget"), '|', session->place.act);
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    BUF_AUTO struct buf body = buf_make(ADMIN_BODY_MAX);
    CHECK(kind >= 0 && is_many == (session->place.id == 0));
    CHECK(!is_many || kinds[kind] != KEYS_FORGET);
    struct act act = {
        .session = session, .kind = kinds[kind], .limit = MANY_DEFAULT, .is_many = is_many};
    if (!session_body_is(session, SLICE("application/json")))
        reply_problem(reply, 415, "send a JSON object as Content-Type: application/json");
    else if (session_read_body(session, &body, reply) &&
             read_act(&act, &arena, buf_slice(&body), reply))
        run_act(&act, reply);
}

void acts_reply_one(struct session *session, struct reply *reply)
{
    reply_act(session, false, reply);
}

void acts_reply_many(struct session *session, struct reply *reply)
{
    reply_act(session, true, reply);
}
