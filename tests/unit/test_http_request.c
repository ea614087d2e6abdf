/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads of requests. Every row is fed whole, byte by byte into one parser, and as fresh prefixes;
 * the verdict must be the same. Prefixes live in memory of exactly their size, so that the
 * sanitizers see a byte read too far.
 */
#include "http_rows.h"

#define POST "POST /p HTTP/1.1\r\nHost: a\r\n"
#define GET "GET / HTTP/1.1\r\nHost: a\r\n"
#define END "\r\n\r\n"

static const struct refused_row refused_rows[] = {
    /* Items are the framing doubts as tests/pawltest/hostile_requests.py numbers them. 1 and 2. */
    R("length +5", POST "Content-Length: +5" END, CONTENT_LENGTH),
    R("length -5", POST "Content-Length: -5" END, CONTENT_LENGTH),
    R("length -0", POST "Content-Length: -0" END, CONTENT_LENGTH),
    R("length with a blank inside", POST "Content-Length: 5 5" END, CONTENT_LENGTH),
    R("length 0x5", POST "Content-Length: 0x5" END, CONTENT_LENGTH),
    R("length 1_0", POST "Content-Length: 1_0" END, CONTENT_LENGTH),
    R("length 5a", POST "Content-Length: 5a" END, CONTENT_LENGTH),
    R("length a5", POST "Content-Length: a5" END, CONTENT_LENGTH),
    R("length 5.0", POST "Content-Length: 5.0" END, CONTENT_LENGTH),
    R("length 5e0", POST "Content-Length: 5e0" END, CONTENT_LENGTH),
    R("length quoted", POST "Content-Length: \"5\"" END, CONTENT_LENGTH),
    R("length empty", POST "Content-Length:" END, CONTENT_LENGTH),
    R("length of blanks", POST "Content-Length:   " END, CONTENT_LENGTH),
    R("length behind a tab", POST "Content-Length:\t5" END, FIELD_VALUE),
    R("length before a tab", POST "Content-Length: 5\t" END, FIELD_VALUE),
    R("length list of equals", POST "Content-Length: 5,5" END, CONTENT_LENGTH),
    R("length list with blank", POST "Content-Length: 5, 6" END, CONTENT_LENGTH),
    R("length list with empty member", POST "Content-Length: ,5" END, CONTENT_LENGTH),
    R("length 2^53 + 1", POST "Content-Length: 9007199254740993" END, CONTENT_LENGTH),
    R("length 2^63", POST "Content-Length: 9223372036854775808" END, CONTENT_LENGTH),
    R("length 2^64 + 5", POST "Content-Length: 18446744073709551621" END, CONTENT_LENGTH),
    R("length behind VT", POST "Content-Length: \v5" END, FIELD_VALUE),
    R("length behind FF", POST "Content-Length: \f5" END, FIELD_VALUE),
    R("length behind NBSP",
      POST "Content-Length: \xA0"
           "5" END,
      CONTENT_LENGTH),
    R("length before NEL", POST "Content-Length: 5\x85" END, CONTENT_LENGTH),
    R("two equal lengths", POST "Content-Length: 5\r\nContent-Length: 5" END, CONTENT_LENGTH),
    R("two lengths", POST "Content-Length: 5\r\nContent-Length: 6" END, CONTENT_LENGTH),
    R("two lengths, first empty", POST "Content-Length:\r\nContent-Length: 6" END, CONTENT_LENGTH),
    R("two lengths in two cases", POST "content-length: 5\r\nCONTENT-LENGTH: 5" END,
      CONTENT_LENGTH),
    R("three lengths", POST "Content-Length: 5\r\nContent-Length: 5\r\nContent-Length: 5" END,
      CONTENT_LENGTH),
    /* Item 3. */
    R("length, then coding", POST "Content-Length: 5\r\nTransfer-Encoding: chunked" END, FRAMING),
    R("coding, then length", POST "Transfer-Encoding: chunked\r\nContent-Length: 5" END, FRAMING),
    R("length 0 and coding", POST "Content-Length: 0\r\nTransfer-Encoding: chunked" END, FRAMING),
    R("length and identity", POST "Content-Length: 5\r\nTransfer-Encoding: identity" END, FRAMING),
    R("length and unknown coding", POST "Transfer-Encoding: x\r\nContent-Length: 5" END, FRAMING),
    R("length and empty coding", POST "Transfer-Encoding:\r\nContent-Length: 5" END, FRAMING),
    R("bad length and coding", POST "Content-Length: x\r\nTransfer-Encoding: chunked" END, FRAMING),
    /* Item 4. */
    R("coding ,chunked", POST "Transfer-Encoding: ,chunked" END, TRANSFER_ENCODING),
    R("coding chunked,", POST "Transfer-Encoding: chunked," END, TRANSFER_ENCODING),
    R("coding xchunked", POST "Transfer-Encoding: xchunked" END, TRANSFER_ENCODING),
    R("coding chunkedx", POST "Transfer-Encoding: chunkedx" END, TRANSFER_ENCODING),
    R("coding with parameter", POST "Transfer-Encoding: chunked;q=1" END, TRANSFER_ENCODING),
    R("coding chunked twice", POST "Transfer-Encoding: chunked, chunked" END, TRANSFER_ENCODING),
    R("coding in two lines", POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked" END,
      TRANSFER_ENCODING),
    R("coding split over two lines",
      POST "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked" END, TRANSFER_ENCODING),
    R("coding identity", POST "Transfer-Encoding: identity" END, TRANSFER_ENCODING),
    R("coding gzip, chunked", POST "Transfer-Encoding: gzip, chunked" END, TRANSFER_ENCODING),
    R("coding chunked, gzip", POST "Transfer-Encoding: chunked, gzip" END, TRANSFER_ENCODING),
    R("coding gzip", POST "Transfer-Encoding: gzip" END, TRANSFER_ENCODING),
    R("coding empty", POST "Transfer-Encoding:" END, TRANSFER_ENCODING),
    R("coding quoted", POST "Transfer-Encoding: \"chunked\"" END, TRANSFER_ENCODING),
    R("coding behind VT", POST "Transfer-Encoding: \vchunked" END, FIELD_VALUE),
    R("coding behind a tab", POST "Transfer-Encoding:\tchunked" END, FIELD_VALUE),
    R("coding before a tab", POST "Transfer-Encoding: chunked\t" END, FIELD_VALUE),
    R("coding before NBSP", POST "Transfer-Encoding: chunked\xA0" END, TRANSFER_ENCODING),
    R("coding with a NUL", POST "Transfer-Encoding: chunked\0" END, LINE_END),
    /* Item 5. */
    R("coding on 1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked" END, TRANSFER_ENCODING),
    R("coding and length on 1.0",
      "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\nContent-Length: 5" END, FRAMING),
    /* Items 10 and 11. */
    R("bare CR in a value", GET "X: a\rb" END, LINE_END),
    R("bare CR at a value's end", GET "X: a\r\r\n\r\n", LINE_END),
    R("bare CR in a name", GET "X\rY: a" END, LINE_END),
    R("bare CR hides a field", GET "X: a\rContent-Length: 5" END, LINE_END),
    R("bare LF ends a line", GET "X: a\nY: b" END, LINE_END),
    R("bare LFs only", "GET / HTTP/1.1\nHost: a\n\n", LINE_END),
    R("bare LF ends the head", GET "X: a\r\n\n", LINE_END),
    R("bare CRs only", "GET / HTTP/1.1\rHost: a\r\r", LINE_END),
    R("NUL in a value", GET "X: a\0b" END, LINE_END),
    R("NUL in a name", GET "X\0: a" END, LINE_END),
    R("folded field", GET "X: a\r\n b" END, OBS_FOLD),
    R("folded by a tab", GET "X: a\r\n\tb" END, OBS_FOLD),
    R("folded Content-Length", POST "Content-Length:\r\n 5" END, OBS_FOLD),
    R("line of a blank alone", GET "X: a\r\n \r\n\r\n", OBS_FOLD),
    R("blank before the first field", "GET / HTTP/1.1\r\n Host: a" END, OBS_FOLD),
    R("tab before the first field", "GET / HTTP/1.1\r\n\tHost: a" END, OBS_FOLD),
    R("no colon", GET "X" END, FIELD_NAME),
    R("empty name", GET ": a" END, FIELD_NAME),
    R("blank before the colon", GET "X : a" END, FIELD_NAME),
    R("tab before the colon", POST "Content-Length\t: 5" END, FIELD_NAME),
    R("blank inside a name", GET "X Y: a" END, FIELD_NAME),
    R("NBSP before a name", GET "\xA0X: a" END, FIELD_NAME),
    R("NEL behind a name", POST "Transfer-Encoding\x85: chunked" END, FIELD_NAME),
    R("name beyond ASCII", GET "X\xC3\xA4: a" END, FIELD_NAME),
    R("name in brackets", GET "[X]: a" END, FIELD_NAME),
    R("name in quotes", GET "\"X\": a" END, FIELD_NAME),
    R("DEL in a value", GET "X: a\x7F" END, FIELD_VALUE),
    R("ESC in a value", GET "X: \x1B[2J" END, FIELD_VALUE),
    R("BS at a value's start", GET "X: \ba" END, FIELD_VALUE),
    R("Content_Length", POST "Content_Length: 5" END, FIELD_NAME),
    R("transfer_encoding", POST "transfer_encoding: chunked" END, FIELD_NAME),
    R("Idempotency_Key", POST "Idempotency_Key: k" END, FIELD_NAME),
    R("idempotency_Token", POST "idempotency_Token: 7" END, FIELD_NAME),
    R("CR LF CR X ends the head", GET "X: a\r\n\rX", LINE_END),
    R("CR CR LF ends the head", GET "X: a\r\n\r\r\n", LINE_END),
    R("LF CR LF ends the head", GET "X: a\n\r\n", LINE_END),
    /* Item 12. */
    R("two blanks behind the method", "GET  / HTTP/1.1\r\nHost: a" END, REQUEST_LINE),
    R("two blanks behind the target", "GET /  HTTP/1.1\r\nHost: a" END, REQUEST_LINE),
    R("blank at the line's start", " GET / HTTP/1.1\r\nHost: a" END, METHOD),
    R("blank at the line's end", "GET / HTTP/1.1 \r\nHost: a" END, REQUEST_LINE),
    R("blank inside the target", "GET /a b HTTP/1.1\r\nHost: a" END, REQUEST_LINE),
    R("tab as separator", "GET\t/\tHTTP/1.1\r\nHost: a" END, REQUEST_LINE),
    R("tab behind the method", "GET\t/ HTTP/1.1\r\nHost: a" END, REQUEST_LINE),
    R("tab behind the target", "GET /\tHTTP/1.1\r\nHost: a" END, REQUEST_LINE),
    R("VT as separator", "GET\v/ HTTP/1.1 \r\nHost: a" END, METHOD),
    R("LF as separator", "GET\n/ HTTP/1.1\r\nHost: a" END, LINE_END),
    R("CR as separator", "GET\r/ HTTP/1.1\r\nHost: a" END, LINE_END),
    R("NUL in the method", "G\0T / HTTP/1.1\r\nHost: a" END, LINE_END),
    R("NUL in the target", "GET /\0 HTTP/1.1\r\nHost: a" END, LINE_END),
    R("lower-case method", "post / HTTP/1.1\r\nHost: a" END, METHOD),
    R("mixed-case method", "Post / HTTP/1.1\r\nHost: a" END, METHOD),
    R("method with a colon", "GET: / HTTP/1.1\r\nHost: a" END, METHOD),
    R("method with a slash", "GET/ / HTTP/1.1\r\nHost: a" END, METHOD),
    R("method beyond ASCII", "G\xC3\x8BT / HTTP/1.1\r\nHost: a" END, METHOD),
    R("method absent", "/ HTTP/1.1\r\nHost: a" END, REQUEST_LINE),
    R("version 1.32", "GET / HTTP/1.32\r\nHost: a" END, REQUEST_LINE),
    R("version 11.1", "GET / HTTP/11.1\r\nHost: a" END, REQUEST_LINE),
    R("version 257.1 wraps to 1.1", "GET / HTTP/257.1\r\nHost: a" END, REQUEST_LINE),
    R("version 1.257", "GET / HTTP/1.257\r\nHost: a" END, REQUEST_LINE),
    R("version 1", "GET / HTTP/1\r\nHost: a" END, REQUEST_LINE),
    R("version 1,1", "GET / HTTP/1,1\r\nHost: a" END, REQUEST_LINE),
    R("version +1.1", "GET / HTTP/+1.1\r\nHost: a" END, REQUEST_LINE),
    R("version x.1", "GET / HTTP/x.1\r\nHost: a" END, REQUEST_LINE),
    R("lower-case protocol", "GET / http/1.1\r\nHost: a" END, REQUEST_LINE),
    R("other protocol", "GET / ICAP/1.1\r\nHost: a" END, REQUEST_LINE),
    R("two versions", "GET / HTTP/1.1 HTTP/1.1\r\nHost: a" END, REQUEST_LINE),
    R("version 0.9", "GET / HTTP/0.9\r\nHost: a" END, VERSION),
    R("version 1.2", "GET / HTTP/1.2\r\nHost: a" END, VERSION),
    R("version 2.0", "GET / HTTP/2.0\r\nHost: a" END, VERSION),
    R("preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", HTTP2),
    R("simple request", "GET /\r\n\r\n", REQUEST_LINE),
    R("empty request line", "\r\n\r\n", REQUEST_LINE),
    R("two empty lines first", "\r\n\r\nGET / HTTP/1.1\r\nHost: a" END, REQUEST_LINE),
    R("bare LF first", "\nGET / HTTP/1.1\r\nHost: a" END, LINE_END),
    /* found: A-M11 */
    R("Connection with 33 members", GET "Connection: ,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,," END,
      CONNECTION_LIST),
    /* found: A-U */
    R("TLS ClientHello", "\x16\x03\x01", TLS),
    R("fragment", "GET /a#b HTTP/1.1\r\nHost: a" END, TARGET_FRAGMENT),
    R("target beyond ASCII", "GET /\xC3\xA4 HTTP/1.1\r\nHost: a" END, TARGET_BYTE),
    R("target with DEL", "GET /\x7F HTTP/1.1\r\nHost: a" END, TARGET_BYTE),
    R("target without slash", "GET a HTTP/1.1\r\nHost: a" END, TARGET),
    R("target ?x", "GET ?x HTTP/1.1\r\nHost: a" END, TARGET),
    R("target * without OPTIONS", "GET * HTTP/1.1\r\nHost: a" END, TARGET),
    R("target *x", "OPTIONS *x HTTP/1.1\r\nHost: a" END, TARGET),
    R("authority-form without CONNECT", "GET a:80 HTTP/1.1\r\nHost: a:80" END, TARGET),
    R("https absolute-form", "GET https://a/ HTTP/1.1\r\nHost: a" END, TARGET_HTTPS),
    R("absolute-form without host", "GET http:///x HTTP/1.1\r\nHost: a" END, TARGET),
    R("absolute-form ends early", "GET http:// HTTP/1.1\r\nHost: a" END, TARGET),
    R("absolute-form with user", "GET http://u@a/ HTTP/1.1\r\nHost: a" END, TARGET),
    R("absolute-form with backslash", "GET http://a\\@b/ HTTP/1.1\r\nHost: a" END, TARGET),
    R("absolute-form, other Host", "GET http://b/ HTTP/1.1\r\nHost: a" END, HOST),
    R("absolute-form, other port", "GET http://a:80/ HTTP/1.1\r\nHost: a" END, HOST),
    R("absolute-form without Host", "GET http://a/ HTTP/1.1" END, HOST),
    R("CONNECT to another host", "CONNECT b:1 HTTP/1.1\r\nHost: a:1" END, HOST),
    R("CONNECT with user", "CONNECT u@a:1 HTTP/1.1\r\nHost: a:1" END, TARGET),
    /* Item 13. */
    R("Host absent", "GET / HTTP/1.1" END, HOST),
    R("Host twice", GET "Host: a" END, HOST),
    R("Host twice on 1.0", "GET / HTTP/1.0\r\nHost: a\r\nHost: b" END, HOST),
    R("Host empty", "GET / HTTP/1.1\r\nHost:" END, HOST),
    R("Host with user", "GET / HTTP/1.1\r\nHost: a@b" END, HOST),
    R("Host with a blank", "GET / HTTP/1.1\r\nHost: a b" END, HOST),
    R("Host behind a tab", "GET / HTTP/1.1\r\nHost:\ta" END, FIELD_VALUE),
    R("Host with a comma", "GET / HTTP/1.1\r\nHost: a,b" END, HOST),
    R("Host with a slash", "GET / HTTP/1.1\r\nHost: a/b" END, HOST),
    R("Host with a query", "GET / HTTP/1.1\r\nHost: a?b" END, HOST),
    R("Host with a percent-escape", "GET / HTTP/1.1\r\nHost: a%00" END, HOST),
    R("Host beyond ASCII", "GET / HTTP/1.1\r\nHost: \xC3\xA4" END, HOST),
    R("Host with a NUL", "GET / HTTP/1.1\r\nHost: a\0" END, LINE_END),
    R("Host with an empty port", "GET / HTTP/1.1\r\nHost: a:" END, HOST),
    R("Host with port 65536", "GET / HTTP/1.1\r\nHost: a:65536" END, HOST),
    R("Host with six digits of port", "GET / HTTP/1.1\r\nHost: a:000080" END, HOST),
    R("Host with port x", "GET / HTTP/1.1\r\nHost: a:x" END, HOST),
    R("Host with two ports", "GET / HTTP/1.1\r\nHost: a:1:2" END, HOST),
    R("Host with a port alone", "GET / HTTP/1.1\r\nHost: :80" END, HOST),
    R("Host [", "GET / HTTP/1.1\r\nHost: [" END, HOST),
    R("Host []", "GET / HTTP/1.1\r\nHost: []" END, HOST),
    R("Host [::1", "GET / HTTP/1.1\r\nHost: [::1" END, HOST),
    R("Host [::1]x", "GET / HTTP/1.1\r\nHost: [::1]x" END, HOST),
    R("Host [::g]", "GET / HTTP/1.1\r\nHost: [::g]" END, HOST),
    R("Host [fe80::1%25eth0]", "GET / HTTP/1.1\r\nHost: [fe80::1%25eth0]" END, HOST),
    /* Item 15. */
    R("Connection: Content-Length", GET "Connection: Content-Length" END, CONNECTION),
    R("Connection: host", GET "Connection: close, host" END, CONNECTION),
    R("Connection: transfer-encoding", GET "Connection: transfer-encoding" END, CONNECTION),
    R("Connection: Idempotency-Key", GET "Connection: Idempotency-Key" END, CONNECTION),
    R("Connection: Authorization", GET "Connection:,,AUTHORIZATION ,x" END, CONNECTION),
    R("Connection: Content-Type, second line",
      GET "Connection: close\r\nConnection: x, content-type" END, CONNECTION),
};

struct accepted_row {
    const char *name;
    struct slice bytes; /* the head, nothing behind it */
    const char *path, *query, *authority;
    enum http_framing framing;
    uint64_t length;
    int minor_version;
    bool close, expect;
};

#define A(name, bytes, ...)                                                                        \
    {                                                                                              \
        name, {bytes, sizeof(bytes) - 1}, __VA_ARGS__                                              \
    }
#define ONE .minor_version = 1

static const struct accepted_row accepted_rows[] = {
    A("plain", GET "\r\n", "/", NULL, "a", ONE),
    A("one empty line first", "\r\n" GET "\r\n", "/", NULL, "a", ONE),
    A("query", "GET /a/b?c=d?e HTTP/1.1\r\nHost: a" END, "/a/b", "c=d?e", "a", ONE),
    A("empty query", "GET /a? HTTP/1.1\r\nHost: a" END, "/a", "", "a", ONE),
    A("two slashes", "GET //b/c HTTP/1.1\r\nHost: a" END, "//b/c", NULL, "a", ONE),
    A("odd but visible bytes", "GET /\"<>\\^`{|}%zz HTTP/1.1\r\nHost: a" END, "/\"<>\\^`{|}%zz",
      NULL, "a", ONE),
    A("absolute-form", "GET http://a:81/b?c HTTP/1.1\r\nHost: a:81" END, "/b", "c", "a:81", ONE),
    A("absolute-form, cases differ", "GET HTTP://A/ HTTP/1.1\r\nHost: a" END, "/", NULL, "a", ONE),
    A("absolute-form without path", "GET http://a HTTP/1.1\r\nHost: a" END, "/", NULL, "a", ONE),
    A("absolute-form, query alone", "GET http://a?b HTTP/1.1\r\nHost: a" END, "/", "b", "a", ONE),
    A("absolute-form on 1.0", "GET http://a/ HTTP/1.0" END, "/", NULL, "a", .close = true),
    A("OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: a" END, "*", NULL, "a", ONE),
    A("OPTIONS of a server", "OPTIONS http://a HTTP/1.1\r\nHost: a" END, "*", NULL, "a", ONE),
    A("OPTIONS with a query", "OPTIONS http://a?b HTTP/1.1\r\nHost: a" END, "/", "b", "a", ONE),
    A("CONNECT", "CONNECT a:1 HTTP/1.1\r\nHost: a:1" END, "", NULL, "a:1", ONE),
    A("CONNECT, origin-form", "CONNECT / HTTP/1.1\r\nHost: a" END, "/", NULL, "a", ONE),
    A("TRACE", "TRACE / HTTP/1.1\r\nHost: a" END, "/", NULL, "a", ONE),
    A("method of other token bytes", "M-SEARCH_1! / HTTP/1.1\r\nHost: a" END, "/", NULL, "a", ONE),
    A("Host with port", "GET / HTTP/1.1\r\nHost: a-b_c.d~:65535" END, "/", NULL, "a-b_c.d~:65535",
      ONE),
    A("Host of IPv6", "GET / HTTP/1.1\r\nHost: [::ffff:1.2.3.4]:80" END, "/", NULL,
      "[::ffff:1.2.3.4]:80", ONE),
    A("HTTP/1.0", "GET / HTTP/1.0" END, "/", NULL, "", .close = true),
    A("HTTP/1.0 keep-alive", "GET / HTTP/1.0\r\nHost: a\r\nConnection: Keep-Alive" END, "/", NULL,
      "a", .minor_version = 0),
    A("close", GET "Connection: x, Close" END, "/", NULL, "a", ONE, .close = true),
    A("close beats keep-alive", GET "Connection: keep-alive\r\nConnection: close" END, "/", NULL,
      "a", ONE, .close = true),
    A("close as part of a word", GET "Connection: closed" END, "/", NULL, "a", ONE),
    A("length 0", POST "Content-Length: 0" END, "/p", NULL, "a", HTTP_FRAMING_LENGTH, 0, ONE),
    A("length", POST "Content-Length:  5 " END, "/p", NULL, "a", HTTP_FRAMING_LENGTH, 5, ONE),
    A("length 2^53", POST "content-length:9007199254740992" END, "/p", NULL, "a",
      HTTP_FRAMING_LENGTH, HTTP_LENGTH_MAX, ONE),
    A("length on 1.0", "POST / HTTP/1.0\r\nContent-Length: 5" END, "/", NULL, "",
      HTTP_FRAMING_LENGTH, 5, .close = true),
    A("body of GET", GET "Content-Length: 5" END, "/", NULL, "a", HTTP_FRAMING_LENGTH, 5, ONE),
    A("body of HEAD", "HEAD / HTTP/1.1\r\nHost: a\r\nContent-Length: 5" END, "/", NULL, "a",
      HTTP_FRAMING_LENGTH, 5, ONE),
    A("body of DELETE", "DELETE / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked" END, "/", NULL,
      "a", HTTP_FRAMING_CHUNKED, 0, ONE),
    A("chunked", POST "transfer-ENCODING:CHUNKED  " END, "/p", NULL, "a", HTTP_FRAMING_CHUNKED, 0,
      ONE),
    A("Expect", POST "Content-Length: 5\r\nExpect: 100-Continue" END, "/p", NULL, "a",
      HTTP_FRAMING_LENGTH, 5, ONE, .expect = true),
    A("odd Expect", POST "Expect: 200-ok" END, "/p", NULL, "a", ONE),
    A("Expect on 1.0", "GET / HTTP/1.0\r\nExpect: 100-continue" END, "/", NULL, "", .close = true),
    A("Upgrade", GET "Connection: Upgrade\r\nUpgrade: h2c" END, "/", NULL, "a", ONE),
    A("underscore elsewhere", GET "X_Y: a\r\nContent_Type: b" END, "/", NULL, "a", ONE),
    A("text beyond ASCII", GET "X: \xC3\xA4\x85\xA0" END, "/", NULL, "a", ONE),
    A("tabs around a value", GET "X:\ta\t" END, "/", NULL, "a", ONE),
    A("name of token bytes", GET "09AZaz!#$%&'*+-.^_`|~: a" END, "/", NULL, "a", ONE),
    A("empty value", GET "X:" END, "/", NULL, "a", ONE),
};

static enum http_parse parse_head(struct slice bytes, size_t *scan, enum http_refusal *ret_refusal)
{
    struct http_request request;
    enum http_parse verdict = http_parse_request(bytes, scan, &request);
    *ret_refusal = request.refusal;
    return verdict;
}

static void doubtful_heads_are_refused_whole_or_dripped(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(refused_rows); i++)
        expect_refused_whole_and_dripped(&refused_rows[i], parse_head);
}

static void expect_accepted(const struct accepted_row *row, const struct http_request *request)
{
    bool same = slice_eq(request->path, slice_of(row->path)) &&
                slice_eq(request->query, slice_of(row->query)) &&
                (request->query.at != NULL) == (row->query != NULL) &&
                slice_eq(request->authority, slice_of(row->authority)) &&
                request->framing == row->framing && request->content_length == row->length &&
                request->minor_version == row->minor_version &&
                request->keep_alive == !row->close && request->expect_continue == row->expect &&
                request->headers_len == row->bytes.len && request->refusal == HTTP_REFUSAL_NONE;

    if (!same)
        fail_msg("%s: path %.*s, authority %.*s, framing %d, keep_alive %d, headers_len %zu",
                 row->name, SLICE_ARG(request->path), SLICE_ARG(request->authority),
                 request->framing, request->keep_alive, request->headers_len);
}

static void clear_heads_are_read_whatever_follows_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(accepted_rows); i++) {
        const struct accepted_row *row = &accepted_rows[i];
        char *bytes = malloc(row->bytes.len + 7);
        struct http_request request;
        size_t scan = 0;

        assert_non_null(bytes);
        memcpy(bytes, row->bytes.at, row->bytes.len);
        memcpy(bytes + row->bytes.len, "\0\n\rbody", 7);
        if (http_parse_request(slice_make(bytes, row->bytes.len + 7), &scan, &request) !=
            HTTP_PARSE_DONE)
            fail_msg("%s: refused, \"%s\"", row->name, http_refusal_text(request.refusal));
        expect_accepted(row, &request);
        free(bytes);
    }
}

static void no_prefix_of_a_clear_head_is_taken_for_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(accepted_rows); i++) {
        const struct accepted_row *row = &accepted_rows[i];
        struct http_request request;
        enum http_refusal refusal;
        size_t dripped = 0;

        for (size_t n = 0; n < row->bytes.len; n++) {
            struct slice prefix = slice_make(row->bytes.at, n);
            size_t fresh = 0;

            assert_int_equal(parse_copy(parse_head, prefix, &fresh, &refusal), HTTP_PARSE_MORE);
            assert_int_equal(parse_copy(parse_head, prefix, &dripped, &refusal), HTTP_PARSE_MORE);
        }
        assert_int_equal(http_parse_request(row->bytes, &dripped, &request), HTTP_PARSE_DONE);
        expect_accepted(row, &request);
        assert_int_equal(http_parse_request(row->bytes, &dripped, &request), HTTP_PARSE_DONE);
        expect_accepted(row, &request);
    }
}

static void fields_keep_their_order_and_their_spelling(void **state)
{
    static const char bytes[] = GET "x-B: 1\r\nX-a:\t two words \r\nx-b:3" END;
    struct http_request request;
    size_t scan = 0;

    (void)state;
    assert_int_equal(http_parse_request(slice_of(bytes), &scan, &request), HTTP_PARSE_DONE);
    assert_int_equal(request.headers.n, 4);
    assert_true(slice_eq(request.method, SLICE("GET")));
    assert_true(slice_eq(request.target, SLICE("/")));
    assert_true(slice_eq(request.headers.at[1].name, SLICE("x-B")));
    assert_true(slice_eq(request.headers.at[2].name, SLICE("X-a")));
    assert_true(slice_eq(request.headers.at[2].value, SLICE("two words")));
    assert_true(slice_eq(request.headers.at[3].value, SLICE("3")));
}

/* A head of `size` bytes with one long field. */
static char *make_head(size_t size)
{
    static const char start[] = GET "X: ";
    char *bytes = malloc(size);

    assert_non_null(bytes);
    memset(bytes, 'x', size);
    memcpy(bytes, start, sizeof start - 1);
    memcpy(bytes + size - 4, END, 4);
    return bytes;
}

static void the_largest_head_is_read_and_one_byte_more_is_not(void **state)
{
    char *fits = make_head(HTTP_HEADERS_SIZE_MAX);
    char *too_large = make_head(HTTP_HEADERS_SIZE_MAX + 1);
    struct http_request request;
    size_t scan = 0;

    (void)state;
    assert_int_equal(http_parse_request(slice_make(fits, HTTP_HEADERS_SIZE_MAX), &scan, &request),
                     HTTP_PARSE_DONE);
    scan = 0;
    assert_int_equal(
        http_parse_request(slice_make(too_large, HTTP_HEADERS_SIZE_MAX + 1), &scan, &request),
        HTTP_PARSE_REFUSED);
    assert_int_equal(request.refusal, HTTP_REFUSAL_HEADERS_TOO_LARGE);
    scan = 0;
    assert_int_equal(
        http_parse_request(slice_make(too_large, HTTP_HEADERS_SIZE_MAX - 1), &scan, &request),
        HTTP_PARSE_MORE);
    assert_int_equal(
        http_parse_request(slice_make(too_large, HTTP_HEADERS_SIZE_MAX), &scan, &request),
        HTTP_PARSE_REFUSED);
    assert_int_equal(request.refusal, HTTP_REFUSAL_HEADERS_TOO_LARGE);
    free(fits);
    free(too_large);
}

static void a_dripped_head_costs_linear_work(void **state)
{
    char *bytes = make_head(HTTP_HEADERS_SIZE_MAX);
    struct http_request request;
    size_t scan = 0, searched = 0;

    (void)state;
    for (size_t n = 1; n < HTTP_HEADERS_SIZE_MAX; n++) {
        size_t before = scan;

        assert_int_equal(http_parse_request(slice_make(bytes, n), &scan, &request),
                         HTTP_PARSE_MORE);
        assert_int_equal(scan, n);
        searched += scan - before;
    }
    assert_int_equal(searched, HTTP_HEADERS_SIZE_MAX - 1);
    assert_int_equal(http_parse_request(slice_make(bytes, HTTP_HEADERS_SIZE_MAX), &scan, &request),
                     HTTP_PARSE_DONE);
    free(bytes);
}

static void bytes_already_searched_are_not_looked_at_again(void **state)
{
    char bytes[] = GET "X: abc";
    struct http_request request;
    size_t scan = 0;

    (void)state;
    assert_int_equal(http_parse_request(slice_of(bytes), &scan, &request), HTTP_PARSE_MORE);
    bytes[4] = '\n';
    assert_int_equal(http_parse_request(slice_of(bytes), &scan, &request), HTTP_PARSE_MORE);
}

static void as_many_fields_as_fit_are_read_and_one_more_is_refused(void **state)
{
    struct http_request request;
    char bytes[HTTP_REQUEST_FIELDS_MAX * 6 + 64];
    size_t scan = 0, len = sizeof GET - 1;

    (void)state;
    memcpy(bytes, GET, len);
    for (size_t i = 1; i < HTTP_REQUEST_FIELDS_MAX; i++, len += 6)
        memcpy(bytes + len, "X: y\r\n", 6);
    memcpy(bytes + len, "\r\n", 2);
    assert_int_equal(http_parse_request(slice_make(bytes, len + 2), &scan, &request),
                     HTTP_PARSE_DONE);
    assert_int_equal(request.headers.n, HTTP_REQUEST_FIELDS_MAX);
    memcpy(bytes + len, "X: y\r\n\r\n", 8);
    scan = 0;
    assert_int_equal(http_parse_request(slice_make(bytes, len + 8), &scan, &request),
                     HTTP_PARSE_REFUSED);
    assert_int_equal(request.refusal, HTTP_REFUSAL_TOO_MANY_FIELDS);
}

static void a_refused_head_leaves_nothing_undefined(void **state)
{
    struct http_request request;
    size_t scan = 0;

    (void)state;
    memset(&request, 0xA5, sizeof request);
    assert_int_equal(http_parse_request(SLICE("PUT /a?b HTTP/1.1\r\nX" END), &scan, &request),
                     HTTP_PARSE_REFUSED);
    assert_true(slice_eq(request.method, SLICE("PUT")));
    assert_true(slice_eq(request.path, SLICE("/a")));
    assert_int_equal(request.authority.len, 0);
    assert_int_equal(request.headers.n, 0);
    assert_false(request.keep_alive);
    scan = 0;
    assert_int_equal(http_parse_request(SLICE("\n"), &scan, &request), HTTP_PARSE_REFUSED);
    assert_int_equal(request.method.len + request.target.len + request.path.len, 0);
}

static void every_refusal_has_a_status_and_a_text(void **state)
{
    (void)state;
    for (int refusal = HTTP_REFUSAL_NONE + 1; refusal <= HTTP_REFUSAL_CONNECTION; refusal++) {
        assert_in_range(http_refusal_status((enum http_refusal)refusal), 400, 505);
        assert_true(strlen(http_refusal_text((enum http_refusal)refusal)) > 0);
    }
    assert_int_equal(http_refusal_status(HTTP_REFUSAL_VERSION), 505);
    assert_int_equal(http_refusal_status(HTTP_REFUSAL_TOO_MANY_FIELDS), 431);
}

/* Each byte at each place of a value, and of the head that is searched for its end. */
static void a_control_in_a_value_is_found_wherever_it_stands(void **state)
{
    static const char form[] = "GET / HTTP/1.1\r\nHost: a\r\nX: abcdefghijklmnopqrstuv\r\n\r\n";
    const size_t first = (size_t)(strstr(form, "abc") - form), len = strlen(form);
    struct http_request request;
    (void)state;
    for (size_t at = first + 1; at < first + 21; at++) {
        for (int byte = 0; byte < 256; byte++) {
            char bytes[sizeof form];
            size_t scan = 0;
            bool control = (byte < ' ' && byte != '\t') || byte == 0x7F;
            memcpy(bytes, form, sizeof form);
            bytes[at] = (char)byte;
            enum http_parse parse = http_parse_request(slice_make(bytes, len), &scan, &request);
            assert_int_equal(parse, control ? HTTP_PARSE_REFUSED : HTTP_PARSE_DONE);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doubtful_heads_are_refused_whole_or_dripped),
        cmocka_unit_test(clear_heads_are_read_whatever_follows_them),
        cmocka_unit_test(no_prefix_of_a_clear_head_is_taken_for_it),
        cmocka_unit_test(fields_keep_their_order_and_their_spelling),
        cmocka_unit_test(the_largest_head_is_read_and_one_byte_more_is_not),
        cmocka_unit_test(a_dripped_head_costs_linear_work),
        cmocka_unit_test(bytes_already_searched_are_not_looked_at_again),
        cmocka_unit_test(as_many_fields_as_fit_are_read_and_one_more_is_refused),
        cmocka_unit_test(a_refused_head_leaves_nothing_undefined),
        cmocka_unit_test(every_refusal_has_a_status_and_a_text),
        cmocka_unit_test(a_control_in_a_value_is_found_wherever_it_stands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
