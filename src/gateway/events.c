/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/events.h"

#include "base/timestamp.h"
#include <errno.h>

#define CORRELATION_SHOWN 128 /* bytes of a client's own id that are logged */
#define METHOD_SHOWN 64 /* and of what else has no limit but the head's: no line is too long */
#define PATH_SHOWN 2048
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
        {"bypassed", METRICS_BYPASSED},
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
    if (x->error == ERROR_UPSTREAM_UNAVAILABLE && server_draining(x->server))
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

void upstream_count(const struct server *server, struct slice rule, int64_t began_us)
{
    metrics_upstream_took(counters(server, rule), clock_boot_us() - began_us);
}

void upstream_responded(const struct server *server, int status)
{
    metrics_upstream_responded(server->config->metrics, status);
}

void upstream_unreached(const struct server *server, int error)
{
    enum metrics_failure failure = error == ECONNREFUSED ? METRICS_FAILURE_REFUSED
                                   : error == ECONNRESET ? METRICS_FAILURE_RESET
                                   : error == ETIMEDOUT  ? METRICS_FAILURE_TIMEOUT
                                                         : METRICS_FAILURE_UNREACHABLE;
    metrics_upstream_failed(server->config->metrics, failure);
}

void upstream_broke(const struct server *server, const struct http_conn *conn, bool timed_out)
{
    enum metrics_failure failure = timed_out                            ? METRICS_FAILURE_TIMEOUT
                                   : conn->refusal != HTTP_REFUSAL_NONE ? METRICS_FAILURE_MALFORMED
                                                                        : METRICS_FAILURE_RESET;
    metrics_upstream_failed(server->config->metrics, failure);
}

static void count_unruled(const struct client *client, enum metrics_outcome outcome)
{
    struct metrics_rule *rule = counters(client->server, slice_of(NULL));
    metrics_count(rule, outcome);
    metrics_request_took(rule, clock_boot_us() - client->began);
}

void pass_count(const struct client *client, const char *mark)
{
    count_unruled(client, mark ? outcome_of_mark(mark) : METRICS_PASSED);
}

void rules_count_from_zero(const struct gateway_config *config, const struct rule_set *rules)
{
    for (size_t i = 0; i < rules->n; i++)
        if (rules->rules[i].protect)
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

static struct slice first_of(struct slice text, size_t max)
{
    return slice_make(text.at, text.len < max ? text.len : max);
}

/* The trace's id, where the line has the form that it should have; else empty. */
static struct slice trace_id(struct slice traceparent)
{
    unsigned char id[TRACE_ID_LEN / 2];
    if (traceparent.len < TRACEPARENT_LEAST)
        return slice_of(NULL);
    struct slice text = slice_make(traceparent.at + TRACE_ID_AT, TRACE_ID_LEN);
    bool good = traceparent.at[TRACE_ID_AT - 1] == '-' && text.at[TRACE_ID_LEN] == '-' &&
                hex_decode(text, id, sizeof id);
    return good ? text : slice_of(NULL);
}

/* `made`: the traceparent that pawl added, "" for none. */
static void add_ids(struct log_line *line, const struct headers *headers, const char *made)
{
    const struct header *correlation = headers_find(headers, SLICE("X-Correlation-Id"));
    const struct header *trace = headers_find(headers, SLICE("traceparent"));
    if (!correlation)
        correlation = headers_find(headers, SLICE("X-Request-Id"));
    if (correlation)
        log_line_str(line, "correlation_id", first_of(correlation->value, CORRELATION_SHOWN));
    struct slice id = trace_id(trace ? trace->value : slice_of(made));
    if (id.len > 0)
        log_line_str(line, "trace_id", id);
}

static void add_identity(struct log_line *line, const struct exchange *x)
{
    struct slice secret = store_secret(x->server->config->store);
    log_line_str(line, "rule", x->rule->name);
    if (x->tenant.len > 0)
        log_line_keyed(line, "tenant_hash", secret, buf_slice(&x->tenant));
    if (x->key.len > 0 && x->plan->settings.log_keys_hashed)
        log_line_keyed(line, "idempotency_key", secret, buf_slice(&x->key));
    else if (x->key.len > 0)
        log_line_str(line, "idempotency_key", buf_slice(&x->key));
    if (x->payload_hex[0])
        log_line_str(line, "payload_hash", slice_of(x->payload_hex));
}

void exchange_note_state(struct exchange *x, enum engine_verdict verdict)
{
    const struct record *record = &x->attempt.op.record;
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
    const struct record *record = &x->attempt.op.record;
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
    log_line_start(&line, level_of(x->status), "request");
    add_identity(&line, x);
    log_line_i64(&line, "status", x->status);
    if (x->outcome)
        log_line_str(&line, "idempotency_status", slice_of(x->outcome));
    add_record(&line, x);
    if (x->error != ERROR_NONE)
        log_line_str(&line, "error_code", slice_of(error_row(x->error)->code));
    add_unreached(&line, x->unreached);
    add_ids(&line, &x->request->headers, x->client->trace);
    log_line_i64(&line, "duration_us", clock_boot_us() - x->started);
    log_line_end(log, &line);
}

/* Without the query, in which secrets are sent. */
static void add_target(struct log_line *line, const struct http_request *request)
{
    log_line_str(line, "method", first_of(request->method, METHOD_SHOWN));
    log_line_str(line, "path", first_of(request->path, PATH_SHOWN));
}

void pass_log(const struct client *client, const struct http_request *request, int status,
              const char *mark)
{
    struct log *log = client->server->config->log;
    if (!log)
        return;
    struct log_line line;
    log_line_start(&line, level_of(status), "pass");
    add_target(&line, request);
    log_line_i64(&line, "status", status);
    if (mark)
        log_line_str(&line, "idempotency_status", slice_of(mark));
    log_line_i64(&line, "bytes", (int64_t)(client->conn.sent - client->sent_before));
    add_ids(&line, &request->headers, client->trace);
    log_line_i64(&line, "duration_us", clock_boot_us() - client->began);
    log_line_end(log, &line);
}

void refusal_report(const struct client *client, const struct refusal *refusal, int status)
{
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
    if (refusal->request)
        add_target(&line, refusal->request);
    log_line_i64(&line, "status", status);
    if (refusal->mark)
        log_line_str(&line, "idempotency_status", slice_of(refusal->mark));
    log_line_str(&line, "error_code", slice_of(error_row(refusal->error)->code));
    add_unreached(&line, refusal->unreached);
    if (refusal->request)
        add_ids(&line, &refusal->request->headers, client->trace);
    log_line_end(log, &line);
}
