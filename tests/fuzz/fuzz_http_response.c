/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads of answers, as fuzz_http_request does it. The lowest bit of the first byte tells whether
 * the request was HEAD, the others are the size of the pieces.
 */
#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"
#include "fuzz.h"
#include "http/message.h"

static void check_same(const struct http_response *a, const struct http_response *b)
{
    CHECK(a->status == b->status && slice_eq(a->reason, b->reason));
    CHECK(a->minor_version == b->minor_version && a->keep_alive == b->keep_alive);
    CHECK(a->framing == b->framing && a->content_length == b->content_length);
    CHECK(a->headers.n == b->headers.n);
    for (size_t i = 0; i < a->headers.n; i++) {
        CHECK(slice_eq(a->headers.at[i].name, b->headers.at[i].name));
        CHECK(slice_eq(a->headers.at[i].value, b->headers.at[i].value));
    }
}

static void check_holds_no_doubt(const struct http_response *response, struct slice method)
{
    CHECK(response->status >= 100 && response->status <= 999);
    CHECK(response->framing != HTTP_FRAMING_CLOSE || !response->keep_alive);
    CHECK(!response->is_odd || !response->keep_alive);
    CHECK(response->framing == HTTP_FRAMING_NONE || !slice_eq(method, SLICE("HEAD")));
    CHECK(response->framing == HTTP_FRAMING_LENGTH || response->content_length == 0);
    CHECK(headers_count(&response->headers, SLICE("Content-Length")) +
              headers_count(&response->headers, SLICE("Transfer-Encoding")) <=
          1);
}

static void check_rewritten(const struct http_response *response, struct slice method)
{
    BUF_AUTO struct buf head = buf_make(HTTP_HEADERS_SIZE_MAX + 1);
    MEM_AUTO struct http_response *again = mem_alloc(sizeof *again);
    size_t scan = 0;

    buf_printf(&head, "HTTP/1.%d %d ", response->minor_version, response->status);
    buf_add_slice(&head, response->reason);
    buf_add_str(&head, "\r\n");
    for (size_t i = 0; i < response->headers.n; i++) {
        buf_add_slice(&head, response->headers.at[i].name);
        buf_add_char(&head, ':');
        buf_add_slice(&head, response->headers.at[i].value);
        buf_add_str(&head, "\r\n");
    }
    buf_add_str(&head, "\r\n");
    CHECK(again && buf_ok(&head));
    /* The blank before an absent reason may be one byte too much. */
    if (head.len > HTTP_HEADERS_SIZE_MAX)
        return;
    CHECK(http_parse_response(buf_slice(&head), &scan, method, again) == HTTP_PARSE_DONE);
    CHECK(again->headers_len == head.len);
    /* What was odd about it may not be there any more. */
    again->keep_alive = again->keep_alive && response->keep_alive;
    check_same(response, again);
}

/* Printable, of the size that callers keep, and the same however the bytes came. */
static void check_named(struct slice bytes, size_t scan, const struct http_response *response)
{
    BUF_AUTO struct buf text = buf_make(191);

    http_response_refused(bytes, scan, response, &text);
    CHECK(buf_ok(&text) && text.len > 0);
    for (size_t i = 0; i < text.len; i++)
        CHECK(text.at[i] >= ' ' && text.at[i] <= '~');
}

static enum http_parse parse_in_pieces(struct slice bytes, size_t step, struct slice method,
                                       struct http_response *ret)
{
    enum http_parse verdict = HTTP_PARSE_MORE;
    size_t scan = 0;

    for (size_t n = 0; n < bytes.len && verdict == HTTP_PARSE_MORE;) {
        size_t before = scan;

        n = step < bytes.len - n ? n + step : bytes.len;
        verdict = http_parse_response(slice_make(bytes.at, n), &scan, method, ret);
        CHECK(scan >= before && scan <= n);
    }
    return verdict;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct http_response whole = {.refusal = HTTP_REFUSAL_NONE};
    struct http_response pieces = {.refusal = HTTP_REFUSAL_NONE};
    struct slice bytes, method;
    enum http_parse verdict;
    size_t scan = 0;

    if (size < 2)
        return 0;
    bytes = slice_make(data + 1, size - 1);
    method = data[0] & 1 ? SLICE("HEAD") : SLICE("POST");
    verdict = http_parse_response(bytes, &scan, method, &whole);
    CHECK(parse_in_pieces(bytes, data[0] / 2 + (size_t)1, method, &pieces) == verdict);
    if (verdict == HTTP_PARSE_REFUSED) {
        CHECK(whole.refusal != HTTP_REFUSAL_NONE && whole.refusal == pieces.refusal);
        check_named(bytes, scan, &whole);
    }
    if (verdict != HTTP_PARSE_DONE)
        return 0;
    check_same(&whole, &pieces);
    check_holds_no_doubt(&whole, method);
    check_rewritten(&whole, method);
    return 0;
}
