/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/exchange/upstream.h"

#include "base/check.h"
#include "base/crash.h"
#include "gateway/events.h"
#include "gateway/exchange/bodies.h"
#include "gateway/exchange/reply.h"
#include "gateway/headers_out.h"

static bool starts_dashed(struct slice name, struct slice prefix)
{
    return name.len >= prefix.len && headers_is_dashed(slice_first(name, prefix.len), prefix);
}

/* Whether an application may take it for what is asked instead of the request line (IIS, Symfony,
 * Zend): a caller would have another question answered. */
static bool overrides_target(struct slice name)
{
    static const struct slice names[] = {
        {"X-Original-URL", 14},  {"X-Original-URI", 14},       {"X-Rewrite-URL", 13},
        {"X-Rewrite-URI", 13},   {"X-Original-Method", 17},    {"X-Original-Host", 15},
        {"X-Original-Path", 15}, {"X-HTTP-Path-Override", 20}, {"X-HTTP-URL-Override", 19},
        {"X-Override-URL", 14},  {"X-Forwarded-Uri", 15},      {"X-Forwarded-Method", 18},
    };
    return HEADERS_AMONG(name, names);
}

/* Fields that speak of the request's body, or say when and in part it is to be answered, mean
 * something else on a GET: `If-None-Match: *` of a PUT that creates would make every probe 304. One
 * that overrides the method would make a POST of it, or the OPTIONS that everybody may ask. */
static bool speaks_of_request(struct slice name)
{
    static const struct slice names[] = {
        {"If-Match", 8},           {"If-None-Match", 13},
        {"If-Modified-Since", 17}, {"If-Unmodified-Since", 19},
        {"If-Range", 8},           {"Range", 5},
    };
    return HEADERS_AMONG(name, names) || rule_is_override(name) || overrides_target(name) ||
           starts_dashed(name, SLICE("Content-")) || starts_dashed(name, SLICE("Idempotency-"));
}

static const struct http_request *get_request(struct exchange *x)
{
    struct http_request *request = arena_alloc(x->arena, sizeof *request);
    if (!request)
        return NULL;
    *request = *x->request;
    request->headers.n = 0;
    for (size_t i = 0; i < x->request->headers.n; i++)
        if (!speaks_of_request(x->request->headers.at[i].name))
            request->headers.at[request->headers.n++] = x->request->headers.at[i];
    return request;
}

/* The headers of the request; with `target` that of a GET of pawl's own. `authorize` is asked
 * without a key, and under a host of its own. */
static bool write_upstream_headers(struct exchange *x, struct slice target)
{
    const struct http_request *request = target.at ? get_request(x) : x->request;
    struct headers_extra extra = {
        .client = x->client,
        .ruled = true,
        .has_length = !target.at,
        .length = x->body.len,
    };
    if (x->step == EXCHANGE_AUTHORIZE) {
        extra.host = x->rule->authorize_host;
    } else {
        x->keeps_encoding = !target.at && headers_sign_encoding(&request->headers);
        extra.keeps_encoding = x->keeps_encoding;
        extra.idempotency_key = upstream_key(x);
        extra.token = x->attempt.token;
        extra.attempt = exchange_tries(x);
    }
    if (x->headers.max == 0)
        x->headers = exchange_buf(x, HEADERS_OUT_FIRST, HEADERS_OUT_MAX);
    buf_clear(&x->headers);
    if (request)
        headers_write_request(&x->headers, x->call.method, target, request, &extra);
    return request && buf_ok(&x->headers);
}

typedef enum http_call_result call_step(struct exchange *x, int64_t until_us);

/* Takes a step of the call, at most until `by`. The client's time may be over before that: it gets
 * an error, and the step goes on. */
static enum http_call_result take_call_step(struct exchange *x, call_step *step, int64_t by)
{
    enum http_call_result result;
    CHECK(by <= x->deadline);
    do {
        bool waits = x->client_state == CLIENT_WAITS;
        result = step(x, waits ? clock_first(x->client_deadline, by) : by);
        if (result == HTTP_CALL_TIMEOUT && waits)
            (void)reply_late(x, clock_boot_us() < x->deadline);
    } while (result == HTTP_CALL_TIMEOUT && clock_boot_us() < by);
    return result;
}

static enum http_call_result connect_call(struct exchange *x, int64_t until_us)
{
    return http_call_connect(&x->call, until_us);
}

static enum http_call_result send_call(struct exchange *x, int64_t until_us)
{
    return http_call_send(&x->call, until_us);
}

static enum http_call_result receive_call(struct exchange *x, int64_t until_us)
{
    return http_call_receive(&x->call, until_us);
}

static enum http_call_result reach_upstream(struct exchange *x)
{
    int64_t by = clock_after(clock_boot_us(), x->plan->settings.connect_timeout_us);
    by = clock_first(by, x->deadline);
    if (x->call.first_by > 0)
        by = clock_first(by, x->call.first_by);
    CRASH_POINT(before_connect);
    return take_call_step(x, connect_call, by);
}

static bool is_stream(const struct exchange *x)
{
    const struct header *type = headers_find(&x->call.response.headers, SLICE("Content-Type"));
    struct slice media = {0};
    if (x->rule->stream && x->step != EXCHANGE_AUTHORIZE)
        return true;
    if (!type)
        return false;
    slice_cut(type->value, ';', &media);
    return slice_eq_nocase(slice_trim(media), SLICE("text/event-stream"));
}

static enum http_call_result read_upstream_body(struct exchange *x)
{
    /* A response that cannot have a body is whole, whatever its type says. */
    bool live = http_conn_body_left(x->call.conn) && is_stream(x);
    enum http_call_result result =
        live ? HTTP_CALL_DONE : take_call_step(x, bodies_read_response, x->deadline);
    x->response.whole = !live && result == HTTP_CALL_DONE;
    CRASH_POINT(after_response_body);
    return result;
}

static void note_hint(struct exchange *x)
{
    int64_t hint = retry_read_hint(&x->call.response.headers, clock_wall_us());
    int64_t at = hint == RETRY_NO_HINT ? 0 : clock_after(clock_boot_us(), hint);
    x->response.hint_at = at;
    if (x->step != EXCHANGE_AUTHORIZE && at > x->hint_at)
        x->hint_at = at;
}

static void keep_fields(struct exchange *x, unsigned how)
{
    how |= x->rule->replay_cookies ? OUTCOME_KEEPS_COOKIES : 0;
    buf_clear(&x->response.kept);
    outcome_keep_fields(&x->call.response.headers, how, &x->response.kept);
}

static void read_upstream_fields(struct exchange *x)
{
    struct upstream_response *response = &x->response;
    CHECK(x->call.state == HTTP_CALL_RESPONDED && response->fields.len == 0);
    response->status = x->call.response.status;
    note_hint(x);
    bool cors = cors_is_on(&x->plan->settings.cors);
    headers_copy_response(&response->fields, &x->call.response.headers,
                          HEADERS_DROP_OWN | (cors ? HEADERS_DROP_CORS : 0));
    keep_fields(x, 0);
}

/* A request that signs its Accept-Encoding may get a coding that its retries do not ask for. */
static void read_coding(struct exchange *x)
{
    if (!x->keeps_encoding || !x->response.whole || x->response.body.len == 0)
        return;
    const struct header *coding =
        headers_find(&x->call.response.headers, SLICE("Content-Encoding"));
    if (!coding || coding->value.len == 0 || slice_eq_nocase(coding->value, SLICE("identity")))
        return;
    if (bodies_decode_response(x, coding->value))
        keep_fields(x, OUTCOME_IS_DECODED);
    else
        exchange_log_unkept(x, coding->value);
}

static enum http_call_result read_upstream_response(struct exchange *x)
{
    enum http_call_result result = take_call_step(x, receive_call, x->deadline);
    if (result != HTTP_CALL_DONE)
        return result;
    CRASH_POINT(after_response_headers);
    x->response.stale =
        disposition_token_is_stale(x->call.response.status, &x->call.response.headers);
    if (x->response.stale)
        return result;
    read_upstream_fields(x);
    result = read_upstream_body(x);
    read_coding(x);
    bool fits = buf_ok(&x->response.fields) && buf_ok(&x->response.kept);
    return fits ? result : HTTP_CALL_NO_MEMORY;
}

/* ---- all of it ---- */

static void upstream_response_clear(struct upstream_response *response)
{
    buf_clear(&response->fields);
    buf_clear(&response->kept);
    buf_clear(&response->body);
    buf_fini(&response->coded);
    response->whole = response->stale = response->unkept = false;
}

static enum http_call_result run_upstream_call(struct exchange *x)
{
    CHECK(x->call.headers.len > 0 && x->deadline > 0);
    enum http_call_result result = reach_upstream(x);
    if (result != HTTP_CALL_DONE) {
        upstream_ended(x->server, &x->call, result);
        return result;
    }
    upstream_response_clear(&x->response);
    CRASH_POINT(before_request_write);
    result = take_call_step(x, send_call, x->deadline);
    CRASH_POINT(after_request_write);
    if (result == HTTP_CALL_DONE)
        result = read_upstream_response(x);
    upstream_took(x->server, x->rule->name, &x->call);
    upstream_ended(x->server, &x->call, result);
    return result;
}

/* Under a token, a first byte leaves while its own clock says that the lease runs (invariant 13).
 * `authorize` asks under none, and may ask twice. */
enum exchange_end upstream_exchange(struct exchange *x, struct slice target)
{
    CHECK(x->call.state == HTTP_CALL_CLOSED);
    bool authorizes = x->step == EXCHANGE_AUTHORIZE;
    CHECK(authorizes || x->step == EXCHANGE_UNPROTECTED || x->attempt.token > 0);
    memset(&x->call, 0, HTTP_CALL_ZEROED);
    x->cause = RECORD_CAUSE_NONE;
    x->call.pool = x->plan->ruled_pool;
    x->call.method = target.at ? SLICE("GET") : x->request->method;
    if (!write_upstream_headers(x, target))
        return EXCHANGE_NOT_SENT;
    x->call.headers = buf_slice(&x->headers);
    x->call.body = target.at ? slice_of(NULL) : buf_slice(&x->body);
    x->call.first_by = x->attempt.token > 0 && !authorizes ? x->attempt.send_by : 0;
    enum http_call_result result = run_upstream_call(x);
    if (authorizes && http_call_again(&x->call, result))
        result = run_upstream_call(x);
    enum exchange_end end = http_call_end(&x->call, result, x->response.stale);
    x->cause = http_call_cause(&x->call, end);
    if (end == EXCHANGE_MALFORMED)
        memcpy(x->malformed, x->call.malformed, sizeof x->malformed);
    return end;
}
