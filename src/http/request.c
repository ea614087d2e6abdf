/* SPDX-License-Identifier: Apache-2.0 */
/* The headers of a request: RFC 9112 sections 3 and 6, without anything optional. */
#include "http/fields.h"

/* Between the brackets of an IPv6 literal. */
static size_t literal_len(struct slice s)
{
    size_t n = 0;
    while (n < s.len && (hex_digit(s.at[n]) >= 0 || s.at[n] == ':' || s.at[n] == '.'))
        n++;
    return n;
}

/* Host names as people use them: RFC 3986 unreserved. Its sub-delims and percent-escapes are legal
 * in a registered name, but no two implementations agree on a comma or a `%` there. */
static size_t name_len(struct slice s)
{
    return slice_span(s, "-._~");
}

/* Bytes of the host at the start of `s`; 0 when there is none. */
static size_t host_len(struct slice s)
{
    size_t n;

    if (s.len == 0 || s.at[0] != '[')
        return name_len(s);
    n = literal_len(slice_skip(s, 1));
    return n > 0 && n + 1 < s.len && s.at[n + 1] == ']' ? n + 2 : 0;
}

static bool is_port_text(struct slice s)
{
    uint64_t port;

    return s.len <= 5 && slice_to_u64(s, 65535, &port);
}

/* host[:port], the host not empty, no user information. */
static bool is_authority_text(struct slice s)
{
    size_t host = host_len(s);

    if (host == 0)
        return false;
    return host == s.len || (s.at[host] == ':' && is_port_text(slice_skip(s, host + 1)));
}

/* A token without lower-case letters. Methods are case-sensitive, yet there are servers that read
 * `post` as POST: it would slip past a rule for POST and act all the same. */
static bool is_method_token(struct slice s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.at[i] >= 'a' && s.at[i] <= 'z')
            return false;
    return header_is_token(s);
}

static enum http_refusal check_target_text(struct slice s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.at[i] <= ' ' || s.at[i] > '~')
            return HTTP_REFUSAL_TARGET_BYTE;
        if (s.at[i] == '#')
            return HTTP_REFUSAL_TARGET_FRAGMENT;
    }
    return s.len > 0 ? HTTP_REFUSAL_NONE : HTTP_REFUSAL_TARGET;
}

static void split_path(struct slice s, struct http_request *request)
{
    request->query = slice_cut(s, '?', &request->path);
}

/* Behind `http://` (RFC 9112 3.2.2, 3.2.4). */
static enum http_refusal read_absolute_form(struct slice s, struct http_request *request)
{
    size_t n = 0;

    while (n < s.len && s.at[n] != '/' && s.at[n] != '?')
        n++;
    request->authority = slice_make(s.at, n);
    if (!is_authority_text(request->authority))
        return HTTP_REFUSAL_TARGET;
    split_path(slice_skip(s, n), request);
    if (request->path.len == 0)
        request->path = !request->query.at && slice_eq(request->method, SLICE("OPTIONS"))
                            ? SLICE("*")
                            : SLICE("/");
    return HTTP_REFUSAL_NONE;
}

static enum http_refusal read_target(struct http_request *request)
{
    struct slice target = request->target;
    struct slice scheme = SLICE("http://");
    struct slice secure = SLICE("https://");
    enum http_refusal refusal = check_target_text(target);

    if (refusal)
        return refusal;
    if (target.at[0] == '/') {
        split_path(target, request);
        return HTTP_REFUSAL_NONE;
    }
    if (slice_eq(target, SLICE("*")) && slice_eq(request->method, SLICE("OPTIONS"))) {
        request->path = target;
        return HTTP_REFUSAL_NONE;
    }
    if (target.len > scheme.len && slice_eq_nocase(slice_make(target.at, scheme.len), scheme))
        return read_absolute_form(slice_skip(target, scheme.len), request);
    if (target.len > secure.len && slice_eq_nocase(slice_make(target.at, secure.len), secure))
        return HTTP_REFUSAL_TARGET_HTTPS;
    if (!slice_eq(request->method, SLICE("CONNECT")) || !is_authority_text(target))
        return HTTP_REFUSAL_TARGET;
    request->authority = target;
    return HTTP_REFUSAL_NONE;
}

/* Exactly one SP on either side of the target. The version is judged before the target, so that
 * HTTP/2's preface gets the error that names it. */
static enum http_refusal read_request_line(struct slice line, struct http_request *request)
{
    struct slice rest = slice_cut(line, ' ', &request->method);
    struct slice version = slice_cut(rest, ' ', &request->target);
    enum http_refusal refusal;

    if (!version.at)
        return HTTP_REFUSAL_REQUEST_LINE;
    if (!is_method_token(request->method))
        return HTTP_REFUSAL_METHOD;
    if (slice_eq(request->method, SLICE("PRI")) && slice_eq(version, SLICE("HTTP/2.0")))
        return HTTP_REFUSAL_HTTP2;
    refusal = http_version_read(version, HTTP_REFUSAL_REQUEST_LINE, &request->minor_version);
    return refusal ? refusal : read_target(request);
}

static enum http_refusal read_host(struct http_request *request)
{
    const struct header *host = headers_find(&request->headers, SLICE("Host"));

    if (!host)
        return request->minor_version == 0 ? HTTP_REFUSAL_NONE : HTTP_REFUSAL_HOST;
    if (headers_count(&request->headers, SLICE("Host")) != 1 || !is_authority_text(host->value))
        return HTTP_REFUSAL_HOST;
    if (request->authority.len > 0 && !slice_eq_nocase(request->authority, host->value))
        return HTTP_REFUSAL_HOST;
    request->authority = host->value;
    return HTTP_REFUSAL_NONE;
}

/* `Connection: Host` would have the next hop drop what this one judged by. */
static struct slice load_bearing_hop(const struct headers *headers)
{
    for (size_t i = 0; i < headers->n_hops; i++)
        if (http_is_load_bearing(headers->hops[i]))
            return headers->hops[i];
    return slice_make(NULL, 0);
}

/* CGI, WSGI and Rack give applications `Content_Length` and `Content-Length` under one name. */
static bool looks_dashed(struct slice name)
{
    return slice_find(name, '_') >= 0 && (headers_is_dashed(name, SLICE("Content-Length")) ||
                                          headers_is_dashed(name, SLICE("Transfer-Encoding")) ||
                                          headers_is_dashed(name, SLICE("Idempotency-Key")) ||
                                          headers_is_dashed(name, SLICE("Idempotency-Token")) ||
                                          headers_is_dashed(name, SLICE("Idempotency-Attempt")));
}

static struct slice dashed_name(const struct headers *headers)
{
    for (size_t i = 0; i < headers->n; i++)
        if (looks_dashed(headers->at[i].name))
            return headers->at[i].name;
    return slice_make(NULL, 0);
}

struct slice http_refused_field(const struct http_request *request, enum http_refusal refusal)
{
    if (refusal == HTTP_REFUSAL_CONNECTION)
        return load_bearing_hop(&request->headers);
    if (refusal == HTTP_REFUSAL_FIELD_NAME)
        return dashed_name(&request->headers);
    return slice_make(NULL, 0);
}

bool http_body_may_be_ignored(struct slice method)
{
    static const struct slice methods[] = {{"GET", 3}, {"HEAD", 4}, {"OPTIONS", 7}, {"DELETE", 6}};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (slice_eq(method, methods[i]))
            return true;
    return false;
}

static enum http_refusal read_request_fields(struct slice headers, struct http_request *request)
{
    enum http_refusal refusal;

    if (slice_starts(headers, SLICE("\r\n")))
        headers = slice_skip(headers, 2);
    refusal = read_request_line(http_next_line(&headers), request);
    if (!refusal)
        refusal = http_fields_read(headers, &request->headers);
    if (!refusal && request->headers.n > HTTP_REQUEST_FIELDS_MAX)
        refusal = HTTP_REFUSAL_TOO_MANY_FIELDS;
    if (!refusal && dashed_name(&request->headers).at)
        refusal = HTTP_REFUSAL_FIELD_NAME;
    if (!refusal)
        refusal = read_host(request);
    if (!refusal)
        refusal = http_framing_read(&request->headers, request->minor_version, &request->framing,
                                    &request->content_length);
    if (!refusal && load_bearing_hop(&request->headers).at)
        refusal = HTTP_REFUSAL_CONNECTION;
    return refusal;
}

/* The record that holds a ClientHello (RFC 8446 5.1): handshake, version 3.x. */
static bool looks_like_tls(struct slice bytes)
{
    return bytes.len >= 2 && bytes.at[0] == 0x16 && bytes.at[1] == 0x03;
}

enum http_parse http_parse_request(struct slice bytes, size_t *scan, struct http_request *ret)
{
    enum http_parse found;

    memset(ret, 0, offsetof(struct http_request, headers.hops));
    ret->minor_version = 1;
    if (looks_like_tls(bytes)) {
        ret->refusal = HTTP_REFUSAL_TLS;
        return HTTP_PARSE_REFUSED;
    }
    found = http_headers_scan(bytes, scan, HTTP_LINE_ENDS_CRLF, &ret->refusal);
    if (found != HTTP_PARSE_DONE)
        return found;
    ret->headers_len = *scan + 1;
    ret->refusal = read_request_fields(slice_make(bytes.at, ret->headers_len), ret);
    if (ret->refusal)
        return HTTP_PARSE_REFUSED;
    ret->keep_alive = http_persists(&ret->headers, ret->minor_version);
    ret->expect_continue = ret->minor_version >= 1 &&
                           headers_list_has(&ret->headers, SLICE("Expect"), SLICE("100-continue"));
    return HTTP_PARSE_DONE;
}
