/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads of requests: the verdict does not depend on how the bytes arrive, and an accepted head
 * written anew from what was read of it is read as the same message. The first byte is the size of
 * the pieces.
 */
#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"
#include "fuzz.h"
#include "http/message.h"

static void check_same(const struct http_request *a, const struct http_request *b)
{
    CHECK(slice_eq(a->method, b->method) && slice_eq(a->target, b->target));
    CHECK(slice_eq(a->path, b->path) && slice_eq(a->query, b->query));
    CHECK(slice_eq(a->authority, b->authority));
    CHECK(a->minor_version == b->minor_version && a->keep_alive == b->keep_alive);
    CHECK(a->expect_continue == b->expect_continue && a->framing == b->framing);
    CHECK(a->content_length == b->content_length && a->headers.n == b->headers.n);
    for (size_t i = 0; i < a->headers.n; i++) {
        CHECK(slice_eq(a->headers.at[i].name, b->headers.at[i].name));
        CHECK(slice_eq(a->headers.at[i].value, b->headers.at[i].value));
    }
}

static void check_holds_no_doubt(const struct http_request *request)
{
    CHECK(!request->keep_alive || request->minor_version == 1 ||
          headers_list_has(&request->headers, SLICE("Connection"), SLICE("keep-alive")));
    CHECK(headers_count(&request->headers, SLICE("Host")) <= 1);
    CHECK(headers_count(&request->headers, SLICE("Content-Length")) +
              headers_count(&request->headers, SLICE("Transfer-Encoding")) ==
          (request->framing != HTTP_FRAMING_NONE));
    for (size_t i = 0; i < request->headers.n; i++) {
        CHECK(header_is_token(request->headers.at[i].name));
        CHECK(slice_find(request->headers.at[i].value, '\r') < 0);
        CHECK(slice_find(request->headers.at[i].value, '\n') < 0);
    }
}

static void check_rewritten(const struct http_request *request)
{
    BUF_AUTO struct buf head = buf_make(HTTP_HEADERS_SIZE_MAX);
    MEM_AUTO struct http_request *again = mem_alloc(sizeof *again);
    size_t scan = 0;

    buf_add_slice(&head, request->method);
    buf_add_char(&head, ' ');
    buf_add_slice(&head, request->target);
    buf_add_str(&head, request->minor_version ? " HTTP/1.1\r\n" : " HTTP/1.0\r\n");
    for (size_t i = 0; i < request->headers.n; i++) {
        buf_add_slice(&head, request->headers.at[i].name);
        buf_add_char(&head, ':');
        buf_add_slice(&head, request->headers.at[i].value);
        buf_add_str(&head, "\r\n");
    }
    buf_add_str(&head, "\r\n");
    CHECK(again && buf_ok(&head));
    CHECK(http_parse_request(buf_slice(&head), &scan, again) == HTTP_PARSE_DONE);
    CHECK(again->headers_len == head.len);
    check_same(request, again);
}

static enum http_parse parse_in_pieces(struct slice bytes, size_t step, struct http_request *ret)
{
    enum http_parse verdict = HTTP_PARSE_MORE;
    size_t scan = 0;

    for (size_t n = 0; n < bytes.len && verdict == HTTP_PARSE_MORE;) {
        size_t before = scan;

        n = step < bytes.len - n ? n + step : bytes.len;
        verdict = http_parse_request(slice_make(bytes.at, n), &scan, ret);
        CHECK(scan >= before && scan <= n);
    }
    return verdict;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct http_request whole = {.refusal = HTTP_REFUSAL_NONE};
    struct http_request pieces = {.refusal = HTTP_REFUSAL_NONE};
    struct slice bytes;
    enum http_parse verdict;
    size_t scan = 0;

    if (size < 2)
        return 0;
    bytes = slice_make(data + 1, size - 1);
    verdict = http_parse_request(bytes, &scan, &whole);
    CHECK(parse_in_pieces(bytes, data[0] + (size_t)1, &pieces) == verdict);
    if (verdict == HTTP_PARSE_REFUSED)
        CHECK(whole.refusal != HTTP_REFUSAL_NONE && whole.refusal == pieces.refusal);
    if (verdict != HTTP_PARSE_DONE)
        return 0;
    check_same(&whole, &pieces);
    check_holds_no_doubt(&whole);
    check_rewritten(&whole);
    return 0;
}
