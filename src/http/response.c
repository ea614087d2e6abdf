/* SPDX-License-Identifier: Apache-2.0 */
/* The headers of a response: RFC 9112 sections 4 and 6. */
#include "base/ascii.h"
#include "http/fields.h"

/* `HTTP/1.1 200 OK`. The SP before an absent reason is often forgotten and never in doubt. */
static enum http_refusal read_status_line(struct slice line, struct http_response *response)
{
    struct slice version, code;
    struct slice rest = slice_cut(line, ' ', &version);
    struct slice reason = slice_cut(rest, ' ', &code);
    enum http_refusal refusal =
        http_version_read(version, HTTP_REFUSAL_STATUS_LINE, &response->minor_version);

    if (refusal)
        return refusal;
    if (code.len != 3 || code.at[0] < '1' || code.at[0] > '5' || !ascii_is_digit(code.at[1]) ||
        !ascii_is_digit(code.at[2]) || !header_is_text(reason))
        return HTTP_REFUSAL_STATUS_LINE;
    response->status = (code.at[0] - '0') * 100 + (code.at[1] - '0') * 10 + (code.at[2] - '0');
    response->reason = reason;
    return HTTP_REFUSAL_NONE;
}

static enum http_refusal read_headers(struct slice headers, struct http_response *response)
{
    enum http_refusal refusal = read_status_line(http_next_line(&headers), response);

    if (!refusal)
        refusal = http_fields_read(headers, &response->headers);
    if (!refusal)
        refusal = http_framing_read(&response->headers, response->minor_version, &response->framing,
                                    &response->content_length);
    return refusal;
}

/* RFC 9112 6.3, items 1 and 8: what the status and the method say about the body. */
static void apply_status(struct http_response *response, struct slice method)
{
    bool interim_or_204 = response->status < 200 || response->status == 204;
    bool announced = response->framing == HTTP_FRAMING_CHUNKED || response->content_length > 0;

    if (interim_or_204 || response->status == 304 || slice_eq(method, SLICE("HEAD"))) {
        /* They announce bytes that must not come: after 304 and HEAD of another response. A
         * server may send them all the same, however late, and then they would be read as the
         * response to another client's request: nothing more is read here. */
        if (announced)
            response->keep_alive = false;
        response->framing = HTTP_FRAMING_NONE;
        response->content_length = 0;
    } else if (response->framing == HTTP_FRAMING_NONE) {
        response->framing = HTTP_FRAMING_CLOSE;
        response->keep_alive = false;
    }
}

enum http_parse http_parse_response(struct slice bytes, size_t *scan, struct slice method,
                                    struct http_response *ret)
{
    enum http_parse found;

    memset(ret, 0, offsetof(struct http_response, headers.hops));
    ret->minor_version = 1;
    found = http_headers_scan(bytes, scan, &ret->refusal);
    if (found != HTTP_PARSE_DONE)
        return found;
    ret->headers_len = *scan + 1;
    ret->refusal = read_headers(slice_make(bytes.at, ret->headers_len), ret);
    if (ret->refusal)
        return HTTP_PARSE_REFUSED;
    ret->keep_alive = http_persists(&ret->headers, ret->minor_version);
    apply_status(ret, method);
    return HTTP_PARSE_DONE;
}
