/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/headers_out.h"

#include "base/check.h"
#include "core/web/cors.h"
#include "gateway/certificates.h"
#include "gateway/server.h"

void headers_write_upgrade(struct buf *buf)
{
    headers_write_field(buf, "Connection", SLICE("Upgrade"));
    headers_write_field(buf, "Upgrade", SLICE("websocket"));
}

/* A request on its way to the upstream. */
struct outgoing {
    const struct http_request *request;
    const struct headers_extra *extra;
    bool trusted; /* its peer may say where the request came in: trust_forwarded */
};

/* Never taken from a client, by whatever spelling: pawl sets them, answers for them, or (trailers)
 * drops what they announce; or they end at this connection. */
static const struct slice own_names[] = {
    {"Idempotency-Token", 17},   {"Idempotency-Attempt", 19}, {"Idempotency-Status", 18},
    {"Idempotent-Replayed", 19}, {"Error-Code", 10},          {"Expect", 6},
    {"Content-Length", 14},      {"X-Forwarded-For", 15},     {"Trailer", 7},
    {"Webhook-Source", 14},      {"Connection", 10},          {"Proxy-Connection", 16},
    {"Keep-Alive", 10},          {"Transfer-Encoding", 17},   {"Upgrade", 7},
};

/* Whether it says where a request came in, to a reader that takes `_` for `-`, too (CGI). */
static bool says_origin(struct slice name)
{
    static const struct slice family = {"X-Forwarded-", 12};
    if (!strchr("fFxX", name.at[0]))
        return false;
    if (name.len > family.len)
        return headers_is_dashed(slice_make(name.at, family.len), family);
    return headers_is_dashed(name, SLICE("Forwarded")) ||
           headers_is_dashed(name, SLICE("X-Real-IP"));
}

/* Whether a service behind it may choose a host, or a place on it, by this. */
static bool chooses_host(struct slice name)
{
    static const struct slice names[] = {
        {"Host", 4},
        {"X-Host", 6},
        {"Forwarded", 9},
        {"X-Forwarded-Host", 16},
        {"X-Forwarded-Server", 18},
        {"X-Forwarded-Prefix", 18},
        {"X-Forwarded-Path", 16},
    };
    return HEADERS_AMONG(name, names);
}

static bool may_say_origin(const struct outgoing *out, struct slice name)
{
    return out->trusted && slice_find(name, '_') < 0;
}

static bool is_forged_certificate(const struct outgoing *out, struct slice name)
{
    if (!certificates_names(name) || may_say_origin(out, name))
        return false;
    const struct client *client = out->extra->client;
    const struct server *server = client->server;
    certificates_removed(&server->shared->told, server->config->log, client->address, name);
    return true;
}

static bool line_passes(const struct outgoing *out, const struct header *line)
{
    if (HEADERS_AMONG(line->name, own_names) || is_forged_certificate(out, line->name) ||
        headers_is_hop_by_hop(&out->request->headers, line->name))
        return false;
    if (says_origin(line->name) && !may_say_origin(out, line->name))
        return false;
    if (out->extra->host.at && chooses_host(line->name))
        return false;
    if (!out->extra->ruled)
        return true;
    if (headers_is_dashed(line->name, SLICE("Accept-Encoding")))
        return out->extra->keeps_encoding;
    return !headers_is_dashed(line->name, SLICE("Idempotency-Key"));
}

/* As one token among whatever separates them. */
static bool names_encoding(struct slice value)
{
    for (size_t from = 0, to; from < value.len; from = to + 1) {
        for (to = from; to < value.len && header_is_token(slice_make(value.at + to, 1)); to++)
            ;
        if (slice_eq_nocase(slice_make(value.at + from, to - from), SLICE("Accept-Encoding")))
            return true;
    }
    return false;
}

bool headers_sign_encoding(const struct headers *headers)
{
    static const struct slice names[] = {
        {"Authorization", 13}, {"Signature-Input", 15}, {"Signature", 9}};
    for (size_t i = 0; i < headers->n; i++)
        if (HEADERS_AMONG(headers->at[i].name, names) && names_encoding(headers->at[i].value))
            return true;
    return false;
}

/* Whether a proxy in front has said it, so that pawl does not. */
static bool is_said(const struct outgoing *out, struct slice name)
{
    const struct headers *headers = &out->request->headers;
    return out->trusted && headers_find(headers, name) && !headers_is_hop_by_hop(headers, name);
}

static void write_forwarded(struct buf *buf, const struct outgoing *out)
{
    size_t at = 0;
    const struct header *line;
    const struct http_request *request = out->request;
    bool said = is_said(out, SLICE("Forwarded"));
    buf_add_str(buf, "X-Forwarded-For: ");
    while ((line = headers_next(&request->headers, SLICE("X-Forwarded-For"), &at))) {
        buf_add_slice(buf, line->value);
        buf_add(buf, ", ", 2);
    }
    buf_add_slice(buf, out->extra->client->address);
    buf_add(buf, "\r\n", 2);
    if (request->authority.len > 0 && !out->extra->host.at && !said &&
        !is_said(out, SLICE("X-Forwarded-Host")))
        headers_write_field(buf, "X-Forwarded-Host", request->authority);
    if (!said && !is_said(out, SLICE("X-Forwarded-Proto")))
        headers_write_field(buf, "X-Forwarded-Proto", SLICE("http"));
}

/* RFC 9110 7.6.3: the version that was received, and the name of the proxy. */
static void write_via(struct buf *buf, const struct outgoing *out)
{
    buf_add_str(buf, out->request->minor_version == 0 ? "Via: 1.0 " : "Via: 1.1 ");
    buf_add_str(buf, out->extra->client->server->gateway->via);
    buf_add(buf, "\r\n", 2);
}

static void write_ruled(struct buf *buf, const struct headers_extra *extra)
{
    if (!extra->keeps_encoding)
        headers_write_field(buf, "Accept-Encoding", SLICE("identity"));
    if (extra->idempotency_key.at)
        headers_write_field(buf, "Idempotency-Key", extra->idempotency_key);
    if (extra->token > 0)
        headers_write_number(buf, "Idempotency-Token", (uint64_t)extra->token);
    if (extra->attempt > 0)
        headers_write_number(buf, "Idempotency-Attempt", (uint64_t)extra->attempt);
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

void headers_write_request(struct buf *buf, struct slice method, struct slice target,
                           const struct http_request *request, const struct headers_extra *extra)
{
    struct outgoing out = {.request = request, .extra = extra};
    CHECK(extra->ruled || !extra->keeps_encoding);
    CHECK(extra->ruled || (extra->token == 0 && extra->attempt == 0));
    out.trusted =
        networks_hold(&extra->client->plan->settings.trust_forwarded, &extra->client->network);
    buf_add_slice(buf, method);
    buf_add_char(buf, ' ');
    if (target.at)
        buf_add_slice(buf, target);
    else
        write_own_target(buf, request);
    buf_add_str(buf, " HTTP/1.1\r\n");
    for (size_t i = 0; i < request->headers.n; i++)
        if (line_passes(&out, &request->headers.at[i]))
            fields_add(buf, request->headers.at[i].name, request->headers.at[i].value);
    if (extra->host.at)
        headers_write_field(buf, "Host", extra->host);
    else if (request->minor_version == 0 && !headers_find(&request->headers, SLICE("Host")))
        headers_write_field(buf, "Host", request->authority);
    write_forwarded(buf, &out);
    write_via(buf, &out);
    if (extra->ruled)
        write_ruled(buf, extra);
    if (extra->has_length)
        headers_write_number(buf, "Content-Length", extra->length);
    else if (extra->chunked)
        headers_write_field(buf, "Transfer-Encoding", SLICE("chunked"));
    if (extra->websocket)
        headers_write_upgrade(buf);
    buf_add(buf, "\r\n", 2);
}

static bool is_own_header(const struct header *line)
{
    static const struct slice names[] = {
        {"Idempotency-Status", 18}, {"Idempotent-Replayed", 19}, {"Error-Code", 10}};
    bool final = slice_eq_nocase(line->name, SLICE("Error-Code")) &&
                 slice_eq(line->value, SLICE("PROVIDER.duplicate"));
    return HEADERS_AMONG(line->name, names) && !final;
}

void headers_copy_response(struct buf *buf, const struct headers *headers, unsigned drops)
{
    for (size_t i = 0; i < headers->n; i++) {
        const struct header *line = &headers->at[i];
        bool dropped = ((drops & HEADERS_DROP_OWN) && is_own_header(line)) ||
                       ((drops & HEADERS_DROP_CORS) && cors_is_own(line->name));
        bool framing = slice_eq_nocase(line->name, SLICE("Content-Length")) ||
                       slice_eq_nocase(line->name, SLICE("Trailer"));
        if (!dropped && !framing && !headers_is_hop_by_hop(headers, line->name))
            fields_add(buf, line->name, line->value);
    }
}
