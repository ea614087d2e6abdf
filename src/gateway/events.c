/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/events.h"

#include "base/timestamp.h"
#include "core/origin.h"
#include <errno.h>

#define CORRELATION_SHOWN 128 /* bytes of a client's own id that are logged */
#define CLIENT_SHOWN 64
#define METHOD_SHOWN 64 /* and of what else has no limit but the head's: no line is too long */
#define PATH_SHOWN 2048
#define MATCH_MAX ((size_t)64 * 1024)
#define TRACE_ID_AT 3 /* traceparent: VERSION-TRACE_ID-PARENT_ID-FLAGS (W3C Trace Context) */
#define TRACE_ID_LEN 32
#define TRACEPARENT_LEAST 55

/* ---- counting ---- */

static enum metrics_outcome outcome_of_mark(const char *mark)
{
    static const struct {
        const char *mark;
        enum metrics_outcome outcome;
    } marks[] = {
        {"stored", METRICS_CREATED},    {"replayed", METRICS_REPLAYED},
        {"released", METRICS_RELEASED}, {"unknown", METRICS_UNKNOWN},
        {"bypassed", METRICS_BYPASSED}, {"not-kept", METRICS_CREATED},
    };
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (strcmp(mark, marks[i].mark) == 0)
            return marks[i].outcome;
    return METRICS_INVALID;
}

static bool is_upstreams(enum error error)
{
    return error == ERROR_UPSTREAM_UNAVAILABLE || error == ERROR_UPSTREAM_BROKE ||
           error == ERROR_UPSTREAM_TIMEOUT;
}

/* Of an error without a mark: one that the request, the record or the store brought about. */
static enum metrics_outcome outcome_of_error(enum error error)
{
    switch (error) {
    case ERROR_PAYLOAD_MISMATCH:
        return METRICS_MISMATCH;
    case ERROR_IN_PROGRESS:
        return METRICS_IN_PROGRESS;
    case ERROR_DUPLICATE:
        return METRICS_REJECTED;
    case ERROR_OUTCOME_UNKNOWN:
    case ERROR_UPSTREAM_BROKE:
    case ERROR_UPSTREAM_TIMEOUT:
        return METRICS_UNKNOWN;
    case ERROR_UPSTREAM_UNAVAILABLE:
        return METRICS_RELEASED;
    case ERROR_RESULT_EXPIRED:
    case ERROR_RESULT_NOT_KEPT:
        return METRICS_EXPIRED;
    case ERROR_LIMITED:
        return METRICS_LIMITED;
    case ERROR_STORE_UNAVAILABLE:
    case ERROR_OUTCOME_NOT_STORED:
        return METRICS_STORE_DOWN;
    default:
        return METRICS_INVALID;
    }
}

static enum metrics_outcome outcome_of(const struct exchange *x)
{
    if (x->acked)
        return METRICS_ACKED;
    if (x->outcome)
        return outcome_of_mark(x->outcome);
    if (x->error == ERROR_UPSTREAM_UNAVAILABLE && http_session_is_draining(&x->client->session))
        return METRICS_LIMITED;
    if (x->authorizing && is_upstreams(x->error))
        return METRICS_RELEASED; /* nothing has begun */
    return outcome_of_error(x->error);
}

static struct metrics_rule *counters(const struct server *server, struct slice rule)
{
    return metrics_rule(server->config->metrics, rule);
}

void exchange_count(const struct exchange *x)
{
    struct metrics_rule *rule = counters(x->server, x->rule->name);
    metrics_count(rule, outcome_of(x));
    metrics_request_took(rule, clock_boot_us() - x->started);
}

void upstream_took(const struct server *server, struct slice rule, const struct http_call *call)
{
    metrics_upstream_took(counters(server, rule), clock_boot_us() - call->connected_us);
}

void limit_count(const struct server *server, enum metrics_limit limit)
{
    metrics_limited(server->config->metrics, limit);
}

void upstream_ended(const struct server *server, const struct http_call *call,
                    enum http_call_result result)
{
    static const enum metrics_failure failures[] = {
        [HTTP_CALL_TIMEOUT] = METRICS_FAILURE_TIMEOUT,
        [HTTP_CALL_LATE] = METRICS_FAILURE_RESET,
        [HTTP_CALL_REFUSED] = METRICS_FAILURE_REFUSED,
        [HTTP_CALL_UNREACHABLE] = METRICS_FAILURE_UNREACHABLE,
        [HTTP_CALL_BROKEN] = METRICS_FAILURE_RESET,
        [HTTP_CALL_MALFORMED] = METRICS_FAILURE_MALFORMED,
        [HTTP_CALL_NO_MEMORY] = METRICS_FAILURE_RESET,
    };
    if (result == HTTP_CALL_DONE || result == HTTP_CALL_TOO_LARGE)
        metrics_upstream_responded(server->config->metrics, call->response.status);
    else
        metrics_upstream_failed(server->config->metrics, failures[result]);
}

static void count_unruled(const struct client *client, enum metrics_outcome outcome)
{
    struct metrics_rule *rule = counters(client->server, client->let_by);
    metrics_count(rule, outcome);
    metrics_request_took(rule, clock_boot_us() - client->session.began_us);
}

void pass_count(const struct client *client, const char *mark)
{
    bool meant = client->let_by.len > 0; /* a rule lets it by: nothing is missing */
    count_unruled(client, mark && !meant ? outcome_of_mark(mark) : METRICS_PASSED);
}

void rules_count_from_zero(const struct gateway_config *config, const struct rule_set *rules)
{
    for (size_t i = 0; i < rules->n; i++)
        (void)metrics_rule(config->metrics, rules->rules[i].name);
}

/* ---- lines ---- */

static enum log_level level_of(int status)
{
    return status >= 500 ? LOG_LEVEL_WARN : LOG_LEVEL_INFO;
}

static void add_moment(struct log_line *line, const char *name, int64_t us)
{
    BUF_AUTO struct buf text = buf_make(TIMESTAMP_LEN);
    if (us > 0 && timestamp_print(&text, us))
        log_line_str(line, name, buf_slice(&text));
}

/* ---- who, and what for ---- */

/* Who sent it: the first address of X-Forwarded-For where a trusted proxy says one, else the peer.
 * `headers` NULL: they could not be read. */
static struct slice sender(const struct client *client, const struct headers *headers)
{
    const struct header *line = headers ? headers_find(headers, SLICE("X-Forwarded-For")) : NULL;
    struct slice first = slice_of(NULL);
    if (line && networks_hold(&client->plan->settings.trust_forwarded, &client->network))
        slice_cut(line->value, ',', &first);
    first = slice_first(slice_trim(first), CLIENT_SHOWN);
    return first.len > 0 ? first : client->address;
}

static void add_client(struct log_line *line, const struct client *client,
                       const struct headers *headers)
{
    struct slice from = sender(client, headers);
    log_line_str(line, "client", from);
    if (!slice_eq(from, client->address))
        log_line_str(line, "peer", client->address);
}

static bool template_has(const struct template *template, enum template_source source,
                         struct slice name)
{
    for (size_t i = 0; i < template->n; i++)
        if (template->parts[i].source == source &&
            (!name.at || slice_eq_nocase(template->parts[i].text, name)))
            return true;
    return false;
}

static bool path_has_tenant(const struct rule *rule)
{
    return template_has(&rule->tenant, TEMPLATE_PATH, slice_of(NULL));
}

/* The pattern of the rule's path; and the path itself, where that says more and no parameter of it
 * is to be kept out of the log. */
static void add_route(struct log_line *line, const struct exchange *x)
{
    BUF_AUTO struct buf match = buf_make(MATCH_MAX);
    struct slice method;
    rule_match_write(&x->rule->match, &match);
    struct slice route = slice_cut(buf_slice(&match), ' ', &method);
    bool open = !x->plan->settings.log_keys_hashed && !path_has_tenant(x->rule);
    log_line_str(line, "method", slice_first(x->request->method, METHOD_SHOWN));
    log_line_str(line, "route", route);
    if (open && !slice_eq(route, x->request->path))
        log_line_str(line, "path", slice_first(x->request->path, PATH_SHOWN));
}

/* Whether some rule has a parameter in that place of a path that begins with these segments. */
static bool is_parameter(const struct rule_set *rules, const struct slice *segments, size_t at)
{
    for (size_t i = 0; i < rules->n; i++) {
        const struct rule_match *match = &rules->rules[i].match;
        size_t same = 0;
        while (same < at && same < match->n_segments &&
               (match->segments[same].is_param ||
                slice_eq(match->segments[same].text, segments[same])))
            same++;
        if (same == at && at < match->n_segments && match->segments[at].is_param)
            return true;
    }
    return false;
}

/* A path that has no rule, with `*` for what is a parameter in the path of one. */
static void add_open_path(struct log_line *line, const struct rule_set *rules, struct slice path)
{
    BUF_AUTO struct buf text = buf_make(PATH_SHOWN);
    struct slice segments[TEMPLATE_PATH_PARAMS_MAX + 1], rest = slice_skip(path, 1);
    for (size_t n = 0; n <= TEMPLATE_PATH_PARAMS_MAX && rest.at; n++) {
        rest = slice_cut(rest, '/', &segments[n]);
        buf_add_char(&text, '/');
        buf_add_slice(&text, is_parameter(rules, segments, n) ? SLICE("*") : segments[n]);
    }
    if (buf_ok(&text))
        log_line_str(line, "path", buf_slice(&text));
}

static void add_hashed_path(struct log_line *line, const struct rule_set *rules, struct slice path)
{
    ARENA_AUTO struct arena arena = arena_make(4 * PATH_SHOWN);
    if (path.len == 0 || path.len >= PATH_SHOWN || path_is_ambiguous(path))
        return;
    struct slice normal = path_normalise(path, &arena);
    if (normal.at)
        add_open_path(line, rules, normal);
}

/* Of a request without a rule. The query stays out: secrets are sent in it. */
static void add_target(struct log_line *line, const struct client *client,
                       const struct http_request *request)
{
    const struct gateway_settings *settings = &client->plan->settings;
    log_line_str(line, "method", slice_first(request->method, METHOD_SHOWN));
    if (settings->log_keys_hashed)
        add_hashed_path(line, settings->rules, request->path);
    else
        log_line_str(line, "path", slice_first(request->path, PATH_SHOWN));
}

/* The trace's id, where the line has the form that it should have; else empty. */
static struct slice trace_id(const struct headers *headers)
{
    unsigned char id[TRACE_ID_LEN / 2];
    const struct header *line = headers_find(headers, SLICE("traceparent"));
    struct slice traceparent = line ? line->value : slice_of(NULL);
    if (traceparent.len < TRACEPARENT_LEAST)
        return slice_of(NULL);
    struct slice text = slice_make(traceparent.at + TRACE_ID_AT, TRACE_ID_LEN);
    bool good = traceparent.at[TRACE_ID_AT - 1] == '-' && text.at[TRACE_ID_LEN] == '-' &&
                hex_decode(text, id, sizeof id);
    return good ? text : slice_of(NULL);
}

static struct slice correlation_id(const struct headers *headers, struct slice *ret_header)
{
    const struct header *id = headers_find(headers, SLICE("X-Correlation-Id"));
    if (!id)
        id = headers_find(headers, SLICE("X-Request-Id"));
    if (!id)
        return slice_of(NULL);
    *ret_header = id->name;
    return slice_first(id->value, CORRELATION_SHOWN);
}

/* Whether a header holds keys, and the log must not. */
static bool hides(const struct gateway_settings *settings, struct slice header)
{
    const struct rule_set *rules = settings->rules;
    for (size_t i = 0; settings->log_keys_hashed && i < rules->n; i++)
        if (template_has(&rules->rules[i].key, TEMPLATE_HEADER, header) ||
            template_has(&rules->rules[i].once.key, TEMPLATE_HEADER, header))
            return true;
    return false;
}

static bool begins(struct slice key, struct slice id)
{
    struct slice bare = slice_skip(key, key.len > 0 && key.at[0] == '"');
    return slice_starts(bare, id);
}

/* Whether the log must not show `id` because a client sent its key, or the first bytes of it, as
 * that, too. `x`: NULL where no rule was met. */
static bool is_key(const struct gateway_settings *settings, const struct headers *headers,
                   const struct exchange *x, struct slice id)
{
    if (settings->log_keys_hashed && x &&
        (begins(buf_slice(&x->key), id) || begins(buf_slice(&x->once), id)))
        return true;
    for (size_t i = 0; settings->log_keys_hashed && i < headers->n; i++)
        if (begins(headers->at[i].value, id) && hides(settings, headers->at[i].name))
            return true;
    return false;
}

static void add_ids(struct log_line *line, const struct client *client,
                    const struct headers *headers, const struct exchange *x)
{
    const struct gateway_settings *settings = &client->plan->settings;
    struct slice header, correlation = correlation_id(headers, &header);
    if (correlation.at && !hides(settings, header) && !is_key(settings, headers, x, correlation))
        log_line_str(line, "correlation_id", correlation);
    struct slice id = trace_id(headers);
    if (id.len > 0 && !hides(settings, SLICE("traceparent")) && !is_key(settings, headers, x, id))
        log_line_str(line, "trace_id", id);
    if (client->instance[0])
        log_line_str(line, "instance", slice_of(client->instance));
}

/* `{payload}` may be the key, and of a short body the hash can be found by trying. */
static void add_identity(struct log_line *line, const struct exchange *x)
{
    const struct digest_key *key = store_digest_key(x->server->config->store);
    bool hashed = x->plan->settings.log_keys_hashed;
    log_line_str(line, "rule", x->rule->name);
    if (x->tenant.len > 0)
        log_line_keyed(line, "tenant_hash", key, buf_slice(&x->tenant));
    if (x->key.len > 0 && hashed)
        log_line_keyed(line, "idempotency_key", key, buf_slice(&x->key));
    else if (x->key.len > 0)
        log_line_str(line, "idempotency_key", buf_slice(&x->key));
    if (x->once.len > 0 && hashed)
        log_line_keyed(line, "once", key, buf_slice(&x->once));
    else if (x->once.len > 0)
        log_line_str(line, "once", buf_slice(&x->once));
    if (x->payload_hex[0] && hashed)
        log_line_keyed(line, "payload_hash", key, slice_of(x->payload_hex));
    else if (x->payload_hex[0])
        log_line_str(line, "payload_hash", slice_of(x->payload_hex));
}

/* A path that holds a credential is not stored. Without memory there is none: nothing depends on
 * it. */
void exchange_note_origin(struct exchange *x)
{
    BUF_AUTO struct buf text = buf_make(ORIGIN_MAX);
    const struct headers *headers = &x->request->headers;
    struct slice header;
    bool hidden = rule_hides_tenant(x->rule) && path_has_tenant(x->rule);
    struct origin origin = {
        .method = slice_first(x->request->method, METHOD_SHOWN),
        .path = hidden ? slice_of(NULL) : slice_first(x->request->path, PATH_SHOWN),
        .client = sender(x->client, headers),
        .correlation_id = correlation_id(headers, &header),
        .trace_id = trace_id(headers),
        .body = slice_first(buf_slice(&x->body), x->rule->keep_request),
    };
    origin_write(&origin, &text);
    x->attempt.origin = buf_ok(&text) ? arena_copy(&x->arena, buf_slice(&text)) : slice_of(NULL);
}

/* ---- what became of it ---- */

void exchange_note_state(struct exchange *x, enum engine_verdict verdict)
{
    const struct record *record = &x->attempt.result.record;
    if (x->from_state)
        return;
    if (verdict == ENGINE_PROCEED)
        x->from_state = record_status_name(record->attempts > 1 ? RECORD_PENDING : RECORD_ABSENT);
    else if (verdict == ENGINE_PROBE)
        x->from_state = record_status_name(RECORD_UNKNOWN);
    else if (record->status != RECORD_ABSENT)
        x->from_state = record_status_name(record->status);
}

static void add_record(struct log_line *line, const struct exchange *x)
{
    const struct record *record = &x->attempt.result.record;
    if (x->from_state)
        log_line_str(line, "from_state", slice_of(x->from_state));
    if (record->attempts > 0)
        log_line_i64(line, "attempt", record->attempts);
    if (record->status != RECORD_ABSENT)
        log_line_str(line, "to_state", slice_of(record_status_name(record->status)));
    add_moment(line, "first_at", record->created_at);
}

static void add_unreached(struct log_line *line, int error)
{
    if (error != 0)
        log_line_str(line, "problem", slice_of(strerrordesc_np(error)));
}

void exchange_log(const struct exchange *x)
{
    struct log *log = x->server->config->log;
    if (!log)
        return;
    struct log_line line;
    bool crowded = x->error == ERROR_IN_PROGRESS; /* two at once under one key */
    log_line_start(&line, crowded ? LOG_LEVEL_WARN : level_of(x->status), "request");
    add_client(&line, x->client, &x->request->headers);
    add_route(&line, x);
    add_identity(&line, x);
    log_line_i64(&line, "status", x->status);
    if (x->outcome)
        log_line_str(&line, "idempotency_status", slice_of(x->outcome));
    add_record(&line, x);
    if (x->error != ERROR_NONE)
        log_line_str(&line, "error_code", slice_of(error_row(x->error)->code));
    add_unreached(&line, x->call.unreached);
    add_ids(&line, x->client, &x->request->headers, x);
    log_line_i64(&line, "duration_us", clock_boot_us() - x->started);
    log_line_end(log, &line);
}

void pass_log(const struct client *client, const struct http_request *request, int status,
              const char *mark)
{
    struct log *log = client->server->config->log;
    if (!log)
        return;
    struct log_line line;
    log_line_start(&line, level_of(status), "pass");
    if (client->let_by.len > 0)
        log_line_str(&line, "rule", client->let_by);
    add_client(&line, client, &request->headers);
    add_target(&line, client, request);
    log_line_i64(&line, "status", status);
    if (mark)
        log_line_str(&line, "idempotency_status", slice_of(mark));
    log_line_i64(&line, "bytes",
                 (int64_t)(client->session.conn.sent - client->session.sent_before));
    add_ids(&line, client, &request->headers, NULL);
    log_line_i64(&line, "duration_us", clock_boot_us() - client->session.began_us);
    log_line_end(log, &line);
}

void refusal_report(const struct client *client, const struct refusal *refusal, int status)
{
    const struct http_request *request = client->session.request;
    struct log *log = client->server->config->log;
    bool upstreams = is_upstreams(refusal->error);
    if (refusal->mark || upstreams)
        pass_count(client, refusal->mark);
    else
        count_unruled(client, outcome_of_error(refusal->error));
    if (!log)
        return;
    struct log_line line;
    log_line_start(&line, level_of(status), upstreams ? "pass" : "refuse");
    add_client(&line, client, request ? &request->headers : NULL);
    if (request)
        add_target(&line, client, request);
    log_line_i64(&line, "status", status);
    if (refusal->mark)
        log_line_str(&line, "idempotency_status", slice_of(refusal->mark));
    log_line_str(&line, "error_code", slice_of(error_row(refusal->error)->code));
    add_unreached(&line, refusal->unreached);
    if (request)
        add_ids(&line, client, &request->headers, NULL);
    log_line_end(log, &line);
}
