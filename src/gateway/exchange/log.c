/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/exchange/exchange.h"

#include "base/check.h"
#include "base/time/timestamp.h"
#include "core/web/origin.h"
#include "gateway/events.h"

#define MATCH_MAX ((size_t)64 * 1024)

/* With the beginning of a window, which is not known yet: digits are digits. */
static enum key_forward spelling_of(const struct exchange *x)
{
    char room[512];
    BUF_AUTO struct buf key = buf_on(room, sizeof room, ORIGIN_MAX);
    buf_add_slice(&key, buf_slice(&x->key));
    if (x->attempt.begin.window)
        buf_add_str(&key, x->key.len > 0 ? ":0" : "0");
    return key_spelling(buf_slice(&key), x->rule->forward_key, x->rule->key_syntax);
}

/* A path that holds a credential is not stored. Without memory there is none, and false where an
 * event depends on it. */
bool exchange_note_origin(struct exchange *x)
{
    CHECK(x->decisions == 0 && x->has_body);
    char room[1024];
    BUF_AUTO struct buf text = buf_on(room, sizeof room, ORIGIN_MAX);
    const struct headers *headers = &x->request->headers;
    bool hidden = rule_hides_tenant(x->rule) && template_uses(&x->rule->tenant, TEMPLATE_PATH);
    struct origin origin = {
        .method = slice_first(x->request->method, METHOD_SHOWN),
        .path = hidden ? slice_of(NULL) : slice_first(x->request->path, PATH_SHOWN),
        .client = request_sender(x->client),
        .correlation_id = request_correlation_id(headers, NULL),
        .trace_id = request_trace_id(headers),
        .body = slice_first(buf_slice(&x->body), x->rule->keep_request),
        .emit = x->rule->emit.type,
        .emit_without_response = x->rule->emit.data != EMIT_RESPONSE,
        .spelling = spelling_of(x),
    };
    origin_write(&origin, &text);
    x->attempt.origin = buf_ok(&text) ? arena_copy(x->arena, buf_slice(&text)) : slice_of(NULL);
    return x->attempt.origin.at || x->rule->emit.type.len == 0;
}

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
        log_line_i64(line, "attempt", exchange_tries(x));
    if (record->status != RECORD_ABSENT)
        log_line_str(line, "to_state", slice_of(record_status_name(record->status)));
    char room[TIMESTAMP_LEN + 1];
    BUF_AUTO struct buf first = buf_on(room, sizeof room, TIMESTAMP_LEN);
    if (record->created_at > 0 && timestamp_print(&first, record->created_at))
        log_line_str(line, "first_at", buf_slice(&first));
}

/* ---- its line ---- */

/* The pattern of the rule's path; and the path itself, where that says more and no parameter of it
 * is to be kept out of the log. */
static void add_route(struct log_line *line, const struct exchange *x)
{
    char room[256];
    BUF_AUTO struct buf match = buf_on(room, sizeof room, MATCH_MAX);
    struct slice method;
    rule_match_write(&x->rule->match, &match);
    struct slice route = slice_cut(buf_slice(&match), ' ', &method);
    bool open =
        !x->plan->settings.log_keys_hashed && !template_uses(&x->rule->tenant, TEMPLATE_PATH);
    log_line_str(line, "method", slice_first(x->request->method, METHOD_SHOWN));
    log_line_str(line, "route", route);
    if (open && !slice_eq(route, x->request->path))
        log_line_str(line, "path", slice_first(x->request->path, PATH_SHOWN));
}

/* What `log_keys: hashed` hides. */
static void add_logged_key(struct log_line *line, const struct exchange *x, const char *name,
                           struct slice value)
{
    if (value.len > 0 && x->plan->settings.log_keys_hashed)
        log_line_keyed(line, name, store_digest_key(x->server->config->store), value);
    else if (value.len > 0)
        log_line_str(line, name, value);
}

/* `{payload}` may be the key, and of a short body the hash can be found by trying. */
static void add_identity(struct log_line *line, const struct exchange *x)
{
    const struct digest_key *key = store_digest_key(x->server->config->store);
    log_line_str(line, "rule", x->rule->name);
    if (x->tenant.len > 0)
        log_line_keyed(line, "tenant_hash", key, buf_slice(&x->tenant));
    add_logged_key(line, x, "idempotency_key", buf_slice(&x->key));
    add_logged_key(line, x, "once", buf_slice(&x->once));
    add_logged_key(line, x, "payload_hash", slice_of(x->payload_hex));
}

static const char *reason_word_of(enum exchange_end end)
{
    return end == EXCHANGE_RESPONDED   ? "status"
           : end == EXCHANGE_NOT_SENT  ? "unreachable"
           : end == EXCHANGE_TIMED_OUT ? "timeout"
           : end == EXCHANGE_MALFORMED ? "malformed"
                                       : "broke off";
}

void exchange_log_damaged(const struct exchange *x)
{
    struct log_line line;
    CHECK(x->attempt.result.found);
    log_line_start(&line, LOG_LEVEL_ERROR, "outcome_damaged");
    add_identity(&line, x);
    log_line_i64(&line, "id", x->attempt.result.row);
    log_line_end(x->server->config->log, &line);
}

void exchange_log_lost(const struct exchange *x, int status)
{
    struct log_line line;
    log_line_start(&line, LOG_LEVEL_ERROR, "outcome_lost");
    add_identity(&line, x);
    log_line_i64(&line, "token", x->attempt.token);
    if (status > 0)
        log_line_i64(&line, "status", status);
    log_line_end(x->server->config->log, &line);
}

void exchange_log_unkept(const struct exchange *x, struct slice coding)
{
    struct log_line line;
    CHECK(x->response.unkept && x->response.whole);
    log_line_start(&line, LOG_LEVEL_WARN, "response_not_kept");
    add_identity(&line, x);
    log_line_str(&line, "coding", coding);
    log_line_end(x->server->config->log, &line);
}

void exchange_log_retry(const struct exchange *x, int64_t wait_us, const char *ended_by)
{
    struct log_line line;
    CHECK(x->rule->retry.on);
    int status = x->failed.status != 0 ? x->failed.status : x->response.status;
    struct event event = {
        .status = x->try_end == EXCHANGE_RESPONDED ? status : 0,
        .result = RESULT_PASSED,
        .unreached = x->try_end == EXCHANGE_NOT_SENT ? x->call.unreached : NULL,
        .malformed = x->malformed,
        .key = buf_slice(&x->key),
        .once = buf_slice(&x->once),
    };
    if (!event_start(&line, x->client, ended_by ? "retries_end" : "retry", &event))
        return;
    add_route(&line, x);
    add_identity(&line, x);
    log_line_str(&line, "profile", retry_profile_name(x->rule->retry.profile));
    log_line_i64(&line, "attempt", exchange_tries(x));
    log_line_str(&line, "reason", slice_of(reason_word_of(x->try_end)));
    if (ended_by)
        log_line_str(&line, "ended_by", slice_of(ended_by));
    else
        log_line_i64(&line, "delay_ms", wait_us / CLOCK_US_PER_MS);
    event_end(&line, x->client, &event);
}

void exchange_log(const struct exchange *x)
{
    CHECK(x->step == EXCHANGE_DONE);
    struct log_line line;
    struct event event = {
        .status = x->status,
        .result = x->result,
        .error = x->error,
        .unreached = x->call.unreached,
        .malformed = x->malformed,
        .warns = x->participant,
        .key = buf_slice(&x->key),
        .once = buf_slice(&x->once),
    };
    if (!event_start(&line, x->client, "request", &event))
        return;
    add_route(&line, x);
    add_identity(&line, x);
    add_record(&line, x);
    if (x->unprobed.at)
        log_line_str(&line, "unprobed", x->unprobed);
    if (x->unverified)
        log_line_str(&line, "signature", slice_of(x->unverified));
    if (x->participant)
        log_line_str(&line, "participant", slice_of(x->participant));
    event_end(&line, x->client, &event);
}
