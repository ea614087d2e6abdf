/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/events.h"
#include "core/request/path.h"

#include "base/check.h"
#include <errno.h>

#define CORRELATION_SHOWN 128 /* bytes of a client's own id that are logged */
#define CLIENT_SHOWN 64
#define TRACE_ID_AT 3 /* traceparent: VERSION-TRACE_ID-PARENT_ID-FLAGS (W3C Trace Context) */
#define TRACE_ID_LEN 32
#define TRACEPARENT_LEAST 55

/* ---- counting ---- */

static struct metrics_rule *rule_counters(const struct server *server, struct slice rule)
{
    return metrics_rule(server->config->metrics, rule);
}

static int64_t request_span(const struct client *client)
{
    return clock_boot_us() - client->session.began_us;
}

void request_count(const struct client *client, enum result result)
{
    struct metrics_rule *rule = rule_counters(client->server, client->rule);
    metrics_count(rule, result_outcome(result));
    metrics_request_took(rule, request_span(client));
}

void upstream_took(const struct server *server, struct slice rule, const struct http_call *call)
{
    metrics_upstream_took(rule_counters(server, rule), clock_boot_us() - call->connected_us);
}

void participant_missed(const struct server *server, struct slice rule)
{
    metrics_participant_missed(rule_counters(server, rule));
}

void hold_ended(const struct server *server, struct slice rule)
{
    CHECK(rule.len > 0);
    metrics_hold_ended(rule_counters(server, rule));
}

void begin_unproved(const struct server *server, struct slice rule)
{
    CHECK(rule.len > 0);
    metrics_begin_unproved(rule_counters(server, rule));
}

void retry_began(const struct server *server, enum retry_profile profile)
{
    struct gateway_shared *shared = server->shared;
    mutex_lock(&shared->retrying);
    retry_budget_add_request(&shared->budget, clock_boot_us());
    mutex_unlock(&shared->retrying);
    metrics_retry_began(server->config->metrics, profile);
}

bool retry_takes_budget(const struct server *server, int64_t now)
{
    struct gateway_shared *shared = server->shared;
    mutex_lock(&shared->retrying);
    bool taken = retry_budget_take(&shared->budget, now);
    mutex_unlock(&shared->retrying);
    return taken;
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
        [HTTP_CALL_FORBIDDEN] = METRICS_FAILURE_UNREACHABLE,
        [HTTP_CALL_TLS] = METRICS_FAILURE_TLS,
        [HTTP_CALL_BROKEN] = METRICS_FAILURE_RESET,
        [HTTP_CALL_MALFORMED] = METRICS_FAILURE_MALFORMED,
        [HTTP_CALL_NO_MEMORY] = METRICS_FAILURE_RESET,
    };
    if (result == HTTP_CALL_DONE || result == HTTP_CALL_TOO_LARGE)
        metrics_upstream_responded(server->config->metrics, call->response.status);
    else
        metrics_upstream_failed(server->config->metrics, failures[result]);
}

void rules_count_from_zero(const struct gateway_config *config, const struct rule_set *rules)
{
    for (size_t i = 0; i < rules->n; i++)
        (void)metrics_rule(config->metrics, rules->rules[i].name);
}

/* ---- its sender ---- */

static bool is_trusted(const struct networks *trusted, struct slice address)
{
    struct network network;
    return network_read(address, &network) && networks_hold(trusted, &network.address);
}

/* From its end, as each proxy appends: what a trusted one names is the sender, and if that is a
 * trusted one, it has named another. True: it is not. */
static bool find_sender(const struct networks *trusted, struct slice list, struct slice *sender)
{
    while (list.len > 0) {
        const char *comma = memrchr(list.at, ',', list.len);
        size_t before = comma ? (size_t)(comma - list.at) : 0;
        struct slice named = slice_trim(slice_skip(list, comma ? before + 1 : 0));
        list = slice_first(list, before);
        if (named.len == 0)
            continue;
        if (sender->len > 0 && !is_trusted(trusted, *sender))
            return true;
        *sender = slice_first(named, CLIENT_SHOWN);
    }
    return false;
}

struct slice request_sender(const struct client *client)
{
    const struct http_request *request = client->session.request;
    const struct networks *trusted = &client->plan->settings.trust_forwarded;
    struct slice sender = slice_of(NULL);
    size_t n = request && networks_hold(trusted, &client->network) ? request->headers.n : 0;
    while (n-- > 0)
        if (slice_eq_nocase(request->headers.at[n].name, SLICE("X-Forwarded-For")) &&
            find_sender(trusted, request->headers.at[n].value, &sender))
            break;
    return sender.len > 0 ? sender : client->address;
}

static void add_client(struct log_line *line, const struct client *client)
{
    struct slice from = request_sender(client);
    log_line_str(line, "client", from);
    if (!slice_eq(from, client->address))
        log_line_str(line, "peer", client->address);
}

struct slice request_trace_id(const struct headers *headers)
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

struct slice request_correlation_id(const struct headers *headers, struct slice *ret_header)
{
    const struct header *id = headers_find(headers, SLICE("X-Correlation-Id"));
    if (!id)
        id = headers_find(headers, SLICE("X-Request-Id"));
    if (!id)
        return slice_of(NULL);
    if (ret_header)
        *ret_header = id->name;
    return slice_first(id->value, CORRELATION_SHOWN);
}

/* Whether a header holds keys, and the log must not. */
static bool header_is_hidden(const struct gateway_settings *settings, struct slice header)
{
    const struct rule_set *rules = settings->rules;
    for (size_t i = 0; settings->log_keys_hashed && i < rules->n; i++)
        if (template_reads_header(&rules->rules[i].key, header) ||
            template_reads_header(&rules->rules[i].once.key, header))
            return true;
    return false;
}

static bool key_begins_with(struct slice key, struct slice id)
{
    struct slice bare = slice_skip(key, key.len > 0 && key.at[0] == '"');
    return slice_starts(bare, id);
}

/* Whether the log must not show `id`: the client sent its key, or the beginning of it, in that
 * header, too. */
static bool is_key(const struct event *event, const struct gateway_settings *settings,
                   const struct headers *headers, struct slice id)
{
    if (!settings->log_keys_hashed)
        return false;
    if (key_begins_with(event->key, id) || key_begins_with(event->once, id))
        return true;
    for (size_t i = 0; i < headers->n; i++)
        if (key_begins_with(headers->at[i].value, id) &&
            header_is_hidden(settings, headers->at[i].name))
            return true;
    return false;
}

static void add_ids(struct log_line *line, const struct client *client, const struct event *event)
{
    const struct gateway_settings *settings = &client->plan->settings;
    const struct headers *headers = &client->session.request->headers;
    struct slice header, correlation = request_correlation_id(headers, &header);
    if (correlation.at && !header_is_hidden(settings, header) &&
        !is_key(event, settings, headers, correlation))
        log_line_str(line, "correlation_id", correlation);
    struct slice id = request_trace_id(headers);
    if (id.len > 0 && !header_is_hidden(settings, SLICE("traceparent")) &&
        !is_key(event, settings, headers, id))
        log_line_str(line, "trace_id", id);
    if (client->instance[0])
        log_line_str(line, "instance", slice_of(client->instance));
}

/* ---- lines ---- */

bool event_start(struct log_line *line, const struct client *client, const char *name,
                 const struct event *event)
{
    CHECK(client->plan);
    if (!client->server->config->log)
        return false;
    bool warns = event->warns || event->status >= 500 || event->error == ERROR_IN_PROGRESS;
    log_line_start(line, warns ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, name);
    add_client(line, client);
    return true;
}

void event_end(struct log_line *line, const struct client *client, const struct event *event)
{
    log_line_i64(line, "status", event->status);
    if (result_status(event->result))
        log_line_str(line, "idempotency_status", slice_of(result_status(event->result)));
    if (event->error != ERROR_NONE)
        log_line_str(line, "error_code", slice_of(error_row(event->error)->code));
    if (event->unreached)
        log_line_str(line, "problem", slice_of(event->unreached));
    if (event->malformed && event->malformed[0] != '\0')
        log_line_str(line, "malformed", slice_of(event->malformed));
    if (client->session.request)
        add_ids(line, client, event);
    log_line_i64(line, "duration_us", request_span(client));
    log_line_end(client->server->config->log, line);
}

/* ---- requests without a rule ---- */

/* Whether some rule has a parameter in that place of a path that begins with these segments. */
static bool is_parameter(const struct rule_set *rules, const struct slice *segments, size_t at)
{
    for (size_t i = 0; i < rules->n; i++) {
        const struct rule_match *match = &rules->rules[i].match;
        size_t same = 0;
        struct slice value;
        while (same < at && same < match->n_segments &&
               (match->segments[same].is_param ||
                rule_segment_takes(&match->segments[same], segments[same], false, &value)))
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
static void add_logged_target(struct log_line *line, const struct client *client)
{
    const struct gateway_settings *settings = &client->plan->settings;
    const struct http_request *request = client->session.request;
    log_line_str(line, "method", slice_first(request->method, METHOD_SHOWN));
    if (settings->log_keys_hashed)
        add_hashed_path(line, settings->rules, request->path);
    else
        log_line_str(line, "path", slice_first(request->path, PATH_SHOWN));
}

static bool is_upstreams(enum error error)
{
    return error == ERROR_UPSTREAM_UNAVAILABLE || error_is_lost_answer(error);
}

void request_log(const struct client *client, const struct event *event)
{
    struct log_line line;
    bool passed = event->error == ERROR_NONE || is_upstreams(event->error);
    if (!event_start(&line, client, passed ? "pass" : "refuse", event))
        return;
    if (client->rule.len > 0)
        log_line_str(&line, "rule", client->rule);
    if (client->session.request)
        add_logged_target(&line, client);
    if (passed)
        log_line_i64(&line, "bytes",
                     (int64_t)(client->session.conn.sent - client->session.sent_before));
    event_end(&line, client, event);
}
