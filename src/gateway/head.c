/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/head.h"

#include "base/clock.h"
#include "core/cors.h"

void head_write_field(struct buf *buf, const char *name, struct slice value)
{
    buf_add_str(buf, name);
    buf_add(buf, ": ", 2);
    buf_add_slice(buf, value);
    buf_add(buf, "\r\n", 2);
}

void head_write_number(struct buf *buf, const char *name, uint64_t value)
{
    buf_add_str(buf, name);
    buf_add(buf, ": ", 2);
    buf_add_u64(buf, value);
    buf_add(buf, "\r\n", 2);
}

void head_write_upgrade(struct buf *buf)
{
    head_write_field(buf, "Connection", SLICE("Upgrade"));
    head_write_field(buf, "Upgrade", SLICE("websocket"));
}

static void copy_line(struct buf *buf, const struct header *line)
{
    buf_add_slice(buf, line->name);
    buf_add(buf, ": ", 2);
    buf_add_slice(buf, line->value);
    buf_add(buf, "\r\n", 2);
}

/* Never taken from a client: pawl sets them, answers for them, or (trailers) drops what they
 * announce. */
static const struct slice own_names[] = {
    {"Idempotency-Token", 17},
    {"Idempotency-Status", 18},
    {"Idempotent-Replayed", 19},
    {"Error-Code", 10},
    {"Expect", 6},
    {"Content-Length", 14},
    {"X-Forwarded-For", 15},
    {"X-Forwarded-Host", 16},
    {"X-Forwarded-Proto", 17},
    {"Trailer", 7},
};

static bool passes(const struct headers *headers, const struct header *line,
                   const struct head_extra *extra)
{
    if (SLICE_AMONG(line->name, own_names) || headers_is_hop_by_hop(headers, line->name))
        return false;
    if (extra->traceparent.at && slice_eq_nocase(line->name, SLICE("traceparent")))
        return false;
    if (!extra->ruled)
        return true;
    return !slice_eq_nocase(line->name, SLICE("Idempotency-Key")) &&
           !slice_eq_nocase(line->name, SLICE("Accept-Encoding"));
}

static void write_forwarded(struct buf *buf, const struct http_request *request,
                            const struct head_extra *extra)
{
    size_t at = 0;
    const struct header *line;
    buf_add_str(buf, "X-Forwarded-For: ");
    while ((line = headers_next(&request->headers, SLICE("X-Forwarded-For"), &at))) {
        buf_add_slice(buf, line->value);
        buf_add(buf, ", ", 2);
    }
    buf_add_slice(buf, extra->peer);
    buf_add(buf, "\r\n", 2);
    if (request->authority.len > 0)
        head_write_field(buf, "X-Forwarded-Host", request->authority);
    head_write_field(buf, "X-Forwarded-Proto", SLICE("http"));
}

static void write_ruled(struct buf *buf, const struct head_extra *extra)
{
    head_write_field(buf, "Accept-Encoding", SLICE("identity"));
    if (extra->idempotency_key.at)
        head_write_field(buf, "Idempotency-Key", extra->idempotency_key);
    if (extra->token > 0)
        head_write_number(buf, "Idempotency-Token", (uint64_t)extra->token);
}

/* In origin-form, however it was sent: path and query are what the parser made of either. */
static void write_own_target(struct buf *buf, const struct http_request *request)
{
    buf_add_slice(buf, request->path);
    if (!request->query.at)
        return;
    buf_add_char(buf, '?');
    buf_add_slice(buf, request->query);
}

void head_write_request(struct buf *buf, struct slice method, struct slice target,
                        const struct http_request *request, const struct head_extra *extra)
{
    buf_add_slice(buf, method);
    buf_add_char(buf, ' ');
    if (target.at)
        buf_add_slice(buf, target);
    else
        write_own_target(buf, request);
    buf_add_str(buf, " HTTP/1.1\r\n");
    for (size_t i = 0; i < request->headers.n; i++)
        if (passes(&request->headers, &request->headers.at[i], extra))
            copy_line(buf, &request->headers.at[i]);
    if (request->minor_version == 0 && !headers_find(&request->headers, SLICE("Host")))
        head_write_field(buf, "Host", request->authority);
    write_forwarded(buf, request, extra);
    if (extra->ruled)
        write_ruled(buf, extra);
    if (extra->traceparent.at)
        head_write_field(buf, "traceparent", extra->traceparent);
    if (extra->has_length)
        head_write_number(buf, "Content-Length", extra->length);
    else if (extra->chunked)
        head_write_field(buf, "Transfer-Encoding", SLICE("chunked"));
    if (extra->websocket)
        head_write_upgrade(buf);
    buf_add(buf, "\r\n", 2);
}

static bool is_own(const struct header *line)
{
    static const struct slice names[] = {
        {"Idempotency-Status", 18}, {"Idempotent-Replayed", 19}, {"Error-Code", 10}};
    bool final = slice_eq_nocase(line->name, SLICE("Error-Code")) &&
                 slice_eq(line->value, SLICE("PROVIDER.duplicate"));
    return SLICE_AMONG(line->name, names) && !final;
}

void head_copy_answer_fields(struct buf *buf, const struct headers *headers, unsigned drops)
{
    for (size_t i = 0; i < headers->n; i++) {
        const struct header *line = &headers->at[i];
        bool dropped = ((drops & HEAD_DROPS_OWN) && is_own(line)) ||
                       ((drops & HEAD_DROPS_CORS) && cors_is_own(line->name));
        bool framing = slice_eq_nocase(line->name, SLICE("Content-Length")) ||
                       slice_eq_nocase(line->name, SLICE("Trailer"));
        if (!dropped && !framing && !headers_is_hop_by_hop(headers, line->name))
            copy_line(buf, line);
    }
}

void head_write_status(struct buf *buf, int status, struct slice reason)
{
    buf_add_str(buf, "HTTP/1.1 ");
    buf_add_i64(buf, status);
    buf_add_char(buf, ' ');
    buf_add_slice(buf, reason.len > 0 ? reason : slice_of(http_reason(status)));
    buf_add(buf, "\r\n", 2);
}

void head_write_date(struct buf *buf)
{
    char text[30];
    http_date(clock_wall_us(), text);
    head_write_field(buf, "Date", slice_of(text));
}

bool head_has_body(int status)
{
    return status >= 200 && status != 204 && status != 304;
}
