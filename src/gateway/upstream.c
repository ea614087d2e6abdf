/* SPDX-License-Identifier: Apache-2.0 */
/* One exchange with the upstream: connect, send, read. What may have left is never sent again. */
#include "base/check.h"
#include "base/crash.h"
#include "gateway/events.h"
#include "gateway/head.h"
#include <errno.h>
#include <sys/uio.h>

#define INTERIM_MAX 16                      /* 1xx answers before the final one */
#define WRITE_FIRST_MAX ((size_t)64 * 1024) /* of a body, in the first write with the head */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static struct slice with_window(struct exchange *x, struct slice key)
{
    if (!x->attempt.begin.window)
        return key;
    buf_clear(&x->shown_key);
    if (key.len > 0) {
        buf_add_slice(&x->shown_key, key);
        buf_add_char(&x->shown_key, ':');
    }
    buf_add_i64(&x->shown_key, x->attempt.result.record.created_at);
    return buf_slice(&x->shown_key);
}

struct slice operation_key(struct exchange *x)
{
    return with_window(x, buf_slice(&x->key));
}

struct slice holder_key(struct exchange *x)
{
    return x->holder_key.at ? with_window(x, x->holder_key) : operation_key(x);
}

struct slice upstream_key(struct exchange *x)
{
    if (payload_recipe_is_old(x->attempt.recipe) && !x->holder_key.at)
        return x->client_key.at ? x->client_key : operation_key(x);
    buf_clear(&x->sent_key);
    key_value_write(holder_key(x), x->rule->forward_key, x->rule->key_syntax, &x->sent_key);
    return buf_slice(&x->sent_key);
}

static bool starts_nocase(struct slice name, struct slice prefix)
{
    return name.len >= prefix.len && slice_eq_nocase(slice_make(name.at, prefix.len), prefix);
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
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (headers_is_dashed(name, names[i]))
            return true;
    return false;
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
    return SLICE_AMONG(name, names) || rule_is_override(name) || overrides_target(name) ||
           starts_nocase(name, SLICE("Content-")) || starts_nocase(name, SLICE("Idempotency-"));
}

const struct http_request *upstream_get_request(struct exchange *x)
{
    struct http_request *request = arena_alloc(&x->arena, sizeof *request);
    if (!request)
        return NULL;
    *request = *x->request;
    request->headers.n = 0;
    for (size_t i = 0; i < x->request->headers.n; i++)
        if (!speaks_of_request(x->request->headers.at[i].name))
            request->headers.at[request->headers.n++] = x->request->headers.at[i];
    return request;
}

/* The client's patience may end before the exchange does: it is told, and the exchange goes on. */
static bool out_of_time(struct exchange *x)
{
    int64_t now = clock_boot_us();
    if (!x->answered && now >= x->patience) {
        x->goes_on = now < x->deadline;
        answer_error(x, ERROR_UPSTREAM_TIMEOUT, SLICE("X-Request-Timeout passed"),
                     x->authorizing   ? NULL
                     : x->unprotected ? "bypassed"
                                      : "unknown");
    }
    return now >= x->deadline;
}

static int64_t next_deadline(const struct exchange *x)
{
    return x->answered ? x->deadline : least(x->patience, x->deadline);
}

bool upstream_take(struct exchange *x, bool fresh, enum exchange_end *ret_end)
{
    CHECK(!x->upstream);
    int64_t deadline = clock_after(clock_boot_us(), x->plan->settings.connect_timeout_us);
    deadline = least(deadline, x->deadline);
    if (x->attempt.token > 0)
        deadline = least(deadline, x->attempt.send_by);
    CRASH_POINT(before_connect);
    do
        x->unreached = -http_pool_take(x->plan->ruled_pool, fresh,
                                       least(deadline, next_deadline(x)), &x->upstream);
    while (x->unreached == ETIMEDOUT && !out_of_time(x) && clock_boot_us() < deadline);
    if (x->unreached == 0)
        return true;
    upstream_unreached(x->server, x->unreached);
    x->upstream = NULL;
    *ret_end = EXCHANGE_NOT_SENT;
    return false;
}

void upstream_give(struct exchange *x)
{
    if (!x->upstream)
        return;
    bool reusable = x->response.keep_alive && x->upstream->head_len > 0 && !x->unsent &&
                    !x->ignorable && !http_conn_body_left(x->upstream);
    http_pool_give(x->plan->ruled_pool, x->upstream, reusable);
    x->upstream = NULL;
    headers_clear(&x->response.headers); /* they lay in the connection's buffer */
}

static enum exchange_end end_of(enum http_read read)
{
    return read == HTTP_READ_TIMEOUT ? EXCHANGE_TIMED_OUT : EXCHANGE_BROKE;
}

/* ---- sending ---- */

/* Of a try under a token, until its first byte has left: while its own clock says that the lease
 * runs (invariant 13). `authorize` asks under no token. */
static int64_t first_byte_by(const struct exchange *x)
{
    bool owned = x->attempt.token > 0 && !x->authorizing;
    return owned ? x->attempt.send_by : CLOCK_NEVER;
}

/* The send check is the last act before the write. */
static enum exchange_end write_parts(struct exchange *x, struct iovec *parts, size_t n,
                                     int64_t first_by)
{
    for (;;) {
        x->unsent = true;
        if (clock_boot_us() >= first_by)
            return EXCHANGE_NOT_SENT;
        uint64_t before = x->upstream->sent;
        int failed = http_conn_send(x->upstream, parts, n, least(first_by, next_deadline(x)));
        first_by = x->upstream->sent > before ? CLOCK_NEVER : first_by;
        x->unsent = failed != 0;
        if (failed == 0 || failed == -EALREADY)
            return EXCHANGE_ANSWERED;
        if (failed != -ETIMEDOUT)
            return x->upstream->sent > 0 ? EXCHANGE_BROKE : EXCHANGE_NOT_SENT;
        if (out_of_time(x))
            return EXCHANGE_TIMED_OUT;
    }
}

/* A write that failed may have left an answer behind: an upstream that refuses a body early. */
static enum exchange_end send_request(struct exchange *x, struct slice head, struct slice body)
{
    size_t first = body.len < WRITE_FIRST_MAX ? body.len : WRITE_FIRST_MAX;
    struct slice rest = slice_skip(body, first);
    struct iovec parts[2] = {{(void *)(uintptr_t)head.at, head.len},
                             {(void *)(uintptr_t)body.at, first}};
    uint64_t before = x->upstream->sent;
    CRASH_POINT(before_request_write);
    enum exchange_end end = write_parts(x, parts, first > 0 ? 2 : 1, first_byte_by(x));
    if (!x->unsent && rest.len > 0) {
        CRASH_POINT(between_request_writes);
        struct iovec more = {(void *)(uintptr_t)rest.at, rest.len};
        end = write_parts(x, &more, 1, CLOCK_NEVER);
    }
    CRASH_POINT(after_request_write);
    if (x->upstream->sent == before)
        return EXCHANGE_NOT_SENT;
    return end == EXCHANGE_TIMED_OUT ? end : EXCHANGE_ANSWERED;
}

/* ---- reading ---- */

static enum exchange_end read_head(struct exchange *x, struct slice method)
{
    for (int interim = 0; interim < INTERIM_MAX;) {
        enum http_read read =
            http_conn_read_response(x->upstream, method, next_deadline(x), &x->response);
        if (read == HTTP_READ_TIMEOUT && !out_of_time(x))
            continue;
        if (read != HTTP_READ_OK)
            return end_of(read);
        if (x->response.status >= 200)
            return EXCHANGE_ANSWERED;
        if (x->response.status == 101) {
            x->response.keep_alive = false; /* it speaks another protocol now */
            return EXCHANGE_BROKE;
        }
        http_conn_next(x->upstream);
        interim++;
    }
    return EXCHANGE_BROKE;
}

static bool is_stream(const struct exchange *x)
{
    const struct header *type = headers_find(&x->response.headers, SLICE("Content-Type"));
    struct slice media = {0};
    if (x->rule->stream && !x->authorizing)
        return true;
    if (!type)
        return false;
    slice_cut(type->value, ';', &media);
    return slice_eq_nocase(slice_trim(media), SLICE("text/event-stream"));
}

static enum exchange_end read_body(struct exchange *x)
{
    /* An answer that cannot have a body is whole, whatever its type says. */
    while (!http_conn_body_left(x->upstream) || !is_stream(x)) {
        enum http_read read = bodies_read_answer(x, next_deadline(x));
        if (read == HTTP_READ_TIMEOUT && !out_of_time(x))
            continue;
        x->answer.whole = read == HTTP_READ_OK;
        if (read == HTTP_READ_OK || read == HTTP_READ_TOO_LARGE)
            return EXCHANGE_ANSWERED;
        return end_of(read);
    }
    return EXCHANGE_ANSWERED;
}

static void read_fields(struct exchange *x)
{
    struct answer *answer = &x->answer;
    answer->status = x->response.status;
    bool cors = cors_is_on(&x->plan->settings.cors);
    head_copy_answer_fields(&answer->fields, &x->response.headers,
                            HEAD_DROPS_OWN | (cors ? HEAD_DROPS_CORS : 0));
    outcome_keep_fields(&x->response.headers, x->rule->replay_cookies, &answer->kept);
}

/* A participant that refuses our token says so in one way only (invariant 12). */
static bool token_is_stale(const struct http_response *response)
{
    const struct header *code = headers_find(&response->headers, SLICE("Error-Code"));
    return response->status >= 400 && response->status < 500 && code &&
           slice_eq(code->value, SLICE("CONFLICT.idempotency.token_stale"));
}

static enum exchange_end send_and_read(struct exchange *x, struct slice method, struct slice head,
                                       struct slice body)
{
    buf_clear(&x->answer.fields);
    buf_clear(&x->answer.kept);
    buf_clear(&x->answer.body);
    x->answer.whole = false;
    x->ignorable = body.len > 0 && http_body_may_be_ignored(method);
    enum exchange_end end = send_request(x, head, body);
    if (end == EXCHANGE_ANSWERED)
        end = read_head(x, method);
    if (end != EXCHANGE_ANSWERED)
        return end;
    CRASH_POINT(after_answer_head);
    if (token_is_stale(&x->response))
        return EXCHANGE_TOKEN_STALE;
    read_fields(x);
    end = read_body(x);
    CRASH_POINT(after_answer_body);
    bool fits = buf_ok(&x->answer.fields) && buf_ok(&x->answer.kept);
    return fits ? end : EXCHANGE_BROKE;
}

/* Why the operation is in doubt, if that end leaves it so. */
static int cause_of(const struct exchange *x, enum exchange_end end)
{
    switch (end) {
    case EXCHANGE_ANSWERED:
        return x->response.status;
    case EXCHANGE_BROKE:
        return x->upstream->refusal != HTTP_REFUSAL_NONE ? RECORD_CAUSE_MALFORMED
                                                         : RECORD_CAUSE_RESET;
    case EXCHANGE_TIMED_OUT:
        return RECORD_CAUSE_TIMEOUT;
    case EXCHANGE_TOKEN_STALE:
        return RECORD_CAUSE_REFUSED;
    case EXCHANGE_NOT_SENT:
        return RECORD_CAUSE_NONE;
    }
    UNREACHABLE();
}

enum exchange_end upstream_exchange(struct exchange *x, struct slice method, struct slice head,
                                    struct slice body)
{
    int64_t began = clock_boot_us();
    enum exchange_end end = send_and_read(x, method, head, body);
    upstream_count(x->server, x->rule->name, began);
    x->cause = cause_of(x, end);
    if (end == EXCHANGE_ANSWERED || end == EXCHANGE_TOKEN_STALE)
        upstream_responded(x->server, x->response.status);
    else
        upstream_broke(x->server, x->upstream, end == EXCHANGE_TIMED_OUT);
    return end;
}
