/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads of answers, from upstreams that may be broken or hostile, and the phrases and dates of
 * pawl's own. Every row is fed whole, byte by byte, and as fresh prefixes.
 */
#include "http_rows.h"

#define OK "HTTP/1.1 200 OK\r\n"
#define END "\r\n\r\n"

static const struct refused_row refused_rows[] = {
    R("empty head", "\r\n\r\n", STATUS_LINE),
    R("not HTTP", "220 mail.example ESMTP" END, STATUS_LINE),
    R("other protocol", "ICY 200 OK" END, STATUS_LINE),
    R("lower-case protocol", "http/1.1 200 OK" END, STATUS_LINE),
    R("request line", "GET / HTTP/1.1" END, STATUS_LINE),
    R("version alone", "HTTP/1.1" END, STATUS_LINE),
    R("no status", "HTTP/1.1 OK" END, STATUS_LINE),
    R("empty status", "HTTP/1.1  OK" END, STATUS_LINE),
    R("nine blanks before the status", "HTTP/1.1         200" END, STATUS_LINE),
    R("nine blanks around the status", "HTTP/1.1     200     OK" END, STATUS_LINE),
    R("tab before the status", "HTTP/1.1\t200 OK" END, STATUS_LINE),
    R("blank before the version", " HTTP/1.1 200 OK" END, STATUS_LINE),
    R("status of two digits", "HTTP/1.1 20 OK" END, STATUS_LINE),
    R("status of four digits", "HTTP/1.1 2000 OK" END, STATUS_LINE),
    R("status +20", "HTTP/1.1 +20 OK" END, STATUS_LINE),
    R("status 20x", "HTTP/1.1 20x OK" END, STATUS_LINE),
    R("status 099", "HTTP/1.1 099 OK" END, STATUS_LINE),
    R("control byte in the reason", "HTTP/1.1 200 O\x1BK" END, STATUS_LINE),
    R("NUL in the reason", "HTTP/1.1 200 O\0K" END, LINE_END),
    R("version 1.32", "HTTP/1.32 200 OK" END, STATUS_LINE),
    R("version 2.0", "HTTP/2.0 200 OK" END, VERSION),
    R("version 0.9", "HTTP/0.9 200 OK" END, VERSION),
    R("version 1.2", "HTTP/1.2 200 OK" END, VERSION),
    /* Item 18 of the framing doubts in tests/pawltest/hostile_requests.py. */
    R("two lengths", OK "Content-Length: 5\r\nContent-Length: 6" END, CONTENT_LENGTH),
    R("list of lengths", OK "Content-Length: 5, 6" END, CONTENT_LENGTH),
    R("list that ends in a comma", OK "Content-Length: 5," END, CONTENT_LENGTH),
    R("list of commas", OK "Content-Length: ,," END, CONTENT_LENGTH),
    R("lengths of other digits", OK "Content-Length: 5\r\nContent-Length: 05" END, CONTENT_LENGTH),
    R("two lengths beside coding",
      OK "Content-Length: 5\r\nTransfer-Encoding: chunked\r\nContent-Length: 6" END,
      CONTENT_LENGTH),
    R("length x beside coding", OK "Transfer-Encoding: chunked\r\nContent-Length: x" END,
      CONTENT_LENGTH),
    R("length and coding on 1.0",
      "HTTP/1.0 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked" END, FRAMING),
    R("coding identity, chunked", OK "Transfer-Encoding: identity, chunked" END, TRANSFER_ENCODING),
    R("length empty", OK "Content-Length:" END, CONTENT_LENGTH),
    R("length -1", OK "Content-Length: -1" END, CONTENT_LENGTH),
    R("length over 2^53", OK "Content-Length: 9007199254740993" END, CONTENT_LENGTH),
    R("two lengths on 304", "HTTP/1.1 304 N\r\nContent-Length: 5\r\nContent-Length: 6" END,
      CONTENT_LENGTH),
    R("coding gzip, chunked", OK "Transfer-Encoding: gzip, chunked" END, TRANSFER_ENCODING),
    R("coding twice", OK "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked" END,
      TRANSFER_ENCODING),
    R("coding on 1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked" END, TRANSFER_ENCODING),
    R("bare CR in a value", OK "X: a\rContent-Length: 5" END, LINE_END),
    R("NUL in a value", OK "X: a\0b" END, LINE_END),
    R("bare LF behind a field", OK "Content-Length: 5\n\r\nhello", LINE_ENDS_MIXED),
    R("LF ends the head", OK "Content-Length: 5\r\n\nhello", LINE_ENDS_MIXED),
    R("LF ends the status line", "HTTP/1.1 200 OK\nContent-Length: 5" END, LINE_ENDS_MIXED),
    R("LF first", "\nHTTP/1.1 200 OK" END, LINE_ENDS_MIXED),
    R("bare CR between LFs", "HTTP/1.1 200 OK\nX: a\rb\n\n", LINE_END),
    R("CR LF first, twice", "\r\n\r\nHTTP/1.1 200 OK" END, STATUS_LINE),
    R("LF first, twice", "\n\nHTTP/1.1 200 OK\n\n", STATUS_LINE),
    R("folded field", OK "X: a\r\n b" END, OBS_FOLD),
    R("blank before the colon", OK "Content-Length : 5" END, FIELD_NAME),
    R("no colon", OK "Content-Length" END, FIELD_NAME),
    R("control byte in a value", OK "X: \x01" END, FIELD_VALUE),
};

struct accepted_row {
    const char *name;
    struct slice bytes;
    const char *method;
    int status;
    const char *reason;
    enum http_framing framing;
    uint64_t length;
    bool keep_alive;
};

#define A(name, bytes, ...)                                                                        \
    {                                                                                              \
        name, {bytes, sizeof(bytes) - 1}, __VA_ARGS__                                              \
    }
#define NO HTTP_FRAMING_NONE, 0
#define LENGTH(n) HTTP_FRAMING_LENGTH, n
#define CHUNKED HTTP_FRAMING_CHUNKED, 0
#define UNTIL_CLOSE HTTP_FRAMING_CLOSE, 0

static const struct accepted_row accepted_rows[] = {
    A("length", OK "Content-Length: 5" END, "POST", 200, "OK", LENGTH(5), true),
    A("length 0", OK "Content-Length: 0" END, "POST", 200, "OK", LENGTH(0), true),
    A("chunked", OK "Transfer-Encoding: Chunked" END, "GET", 200, "OK", CHUNKED, true),
    A("until close", OK "\r\n", "GET", 200, "OK", UNTIL_CLOSE, false),
    A("until close on 1.0", "HTTP/1.0 200 OK\r\nConnection: keep-alive" END, "GET", 200, "OK",
      UNTIL_CLOSE, false),
    A("1.0 closes", "HTTP/1.0 200 OK\r\nContent-Length: 5" END, "GET", 200, "OK", LENGTH(5), false),
    A("1.0 keep-alive", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive" END, "GET",
      200, "OK", LENGTH(5), true),
    A("close", OK "Content-Length: 5\r\nConnection: close" END, "GET", 200, "OK", LENGTH(5), false),
    A("no reason", "HTTP/1.1 201 \r\nContent-Length: 1" END, "GET", 201, "", LENGTH(1), true),
    A("no blank either", "HTTP/1.1 201\r\nContent-Length: 1" END, "GET", 201, "", LENGTH(1), true),
    A("long reason", "HTTP/1.1 599 A\tb \xC3\xA4 \r\nContent-Length: 1" END, "GET", 599,
      "A\tb \xC3\xA4 ", LENGTH(1), true),
    A("status 100", "HTTP/1.1 100 Continue" END, "POST", 100, "Continue", NO, true),
    A("status 101", "HTTP/1.1 101 S\r\nUpgrade: websocket" END, "GET", 101, "S", NO, true),
    A("status 103", "HTTP/1.1 103 E\r\nLink: x" END, "GET", 103, "E", NO, true),
    A("status 204", "HTTP/1.1 204 N" END, "POST", 204, "N", NO, true),
    A("204 of length 0", "HTTP/1.1 204 N\r\nContent-Length: 0" END, "POST", 204, "N", NO, true),
    A("204 announces a length", "HTTP/1.1 204 N\r\nContent-Length: 5" END, "POST", 204, "N", NO,
      false),
    A("204 announces chunks", "HTTP/1.1 204 N\r\nTransfer-Encoding: chunked" END, "POST", 204, "N",
      NO, false),
    A("304 of another's length", "HTTP/1.1 304 N\r\nContent-Length: 5" END, "GET", 304, "N", NO,
      false),
    A("HEAD with length", OK "Content-Length: 5" END, "HEAD", 200, "OK", NO, false),
    A("HEAD with chunks", OK "Transfer-Encoding: chunked" END, "HEAD", 200, "OK", NO, false),
    A("HEAD without framing", OK "\r\n", "HEAD", 200, "OK", NO, true),
    A("empty line first", "\r\n" OK "Content-Length: 5" END, "GET", 200, "OK", LENGTH(5), false),
    A("two blanks before the status", "HTTP/1.1  200 OK\r\nContent-Length: 5" END, "GET", 200, "OK",
      LENGTH(5), false),
    A("eight blanks", "HTTP/1.1    200    OK\r\nContent-Length: 5" END, "GET", 200, "OK", LENGTH(5),
      false),
    A("status 600", "HTTP/1.1 600 OK\r\nContent-Length: 5" END, "GET", 600, "OK", LENGTH(5), false),
    A("status 999", "HTTP/1.1 999 OK\r\nContent-Length: 5" END, "GET", 999, "OK", LENGTH(5), false),
    A("two equal lengths", OK "Content-Length: 5\r\nX: a\r\ncontent-length: 5" END, "GET", 200,
      "OK", LENGTH(5), false),
    A("list of equal lengths", OK "Content-Length: 5,5 , 5" END, "GET", 200, "OK", LENGTH(5),
      false),
    A("equal lengths on 204", "HTTP/1.1 204 N\r\nContent-Length: 0, 0" END, "POST", 204, "N", NO,
      false),
    A("length and coding", OK "Content-Length: 5\r\nTransfer-Encoding: chunked" END, "GET", 200,
      "OK", CHUNKED, false),
    A("coding and lengths",
      OK "Transfer-Encoding: chunked\r\nContent-Length: 5\r\nContent-Length: 5" END, "GET", 200,
      "OK", CHUNKED, false),
    A("coding identity", OK "Transfer-Encoding: Identity" END, "GET", 200, "OK", UNTIL_CLOSE,
      false),
    A("coding identity and a length", OK "Transfer-Encoding: identity\r\nContent-Length: 5" END,
      "GET", 200, "OK", LENGTH(5), false),
    A("bare LFs", "HTTP/1.1 200 OK\nContent-Length: 5\n\n", "GET", 200, "OK", LENGTH(5), false),
    A("LF first", "\nHTTP/1.1 200 OK\nContent-Length: 5\n\n", "GET", 200, "OK", LENGTH(5), false),
    A("interim of LFs", "HTTP/1.1 103 E\n\n", "GET", 103, "E", NO, false),
    A("underscores", OK "Content_Length: 7\r\nContent-Length: 5" END, "GET", 200, "OK", LENGTH(5),
      true),
};

static enum http_parse parse_head(struct slice bytes, size_t *scan, enum http_refusal *ret_refusal)
{
    struct http_response response;
    enum http_parse verdict = http_parse_response(bytes, scan, SLICE("POST"), &response);
    *ret_refusal = response.refusal;
    return verdict;
}

static void doubtful_answers_are_refused_whole_or_dripped(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(refused_rows); i++)
        expect_refused_whole_and_dripped(&refused_rows[i], parse_head);
}

static void expect_accepted(const struct accepted_row *row, const struct http_response *response)
{
    bool same = response->status == row->status &&
                slice_eq(response->reason, slice_of(row->reason)) &&
                response->framing == row->framing && response->content_length == row->length &&
                response->keep_alive == row->keep_alive &&
                headers_count(&response->headers, SLICE("Content-Length")) <= 1 &&
                response->headers_len == row->bytes.len && response->refusal == HTTP_REFUSAL_NONE;

    if (!same)
        fail_msg("%s: status %d, reason \"%.*s\", framing %d, keep_alive %d", row->name,
                 response->status, SLICE_ARG(response->reason), response->framing,
                 response->keep_alive);
}

static void clear_answers_are_read_and_no_prefix_of_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(accepted_rows); i++) {
        const struct accepted_row *row = &accepted_rows[i];
        struct http_response response;
        size_t dripped = 0, fresh = 0;

        for (size_t n = 0; n < row->bytes.len; n++, fresh = 0) {
            struct slice prefix = slice_make(row->bytes.at, n);

            assert_int_equal(http_parse_response(prefix, &fresh, slice_of(row->method), &response),
                             HTTP_PARSE_MORE);
            assert_int_equal(
                http_parse_response(prefix, &dripped, slice_of(row->method), &response),
                HTTP_PARSE_MORE);
        }
        if (http_parse_response(row->bytes, &fresh, slice_of(row->method), &response) !=
            HTTP_PARSE_DONE)
            fail_msg("%s: refused, \"%s\"", row->name, http_refusal_text(response.refusal));
        expect_accepted(row, &response);
        assert_int_equal(
            http_parse_response(row->bytes, &dripped, slice_of(row->method), &response),
            HTTP_PARSE_DONE);
        expect_accepted(row, &response);
    }
}

struct named_row {
    struct slice bytes;
    const char *text;
};

#define T(bytes, text)                                                                             \
    {                                                                                              \
        {bytes, sizeof(bytes) - 1}, text                                                           \
    }

static const struct named_row named_rows[] = {
    T(OK "X-Trace: secret\x01" END,
      "a header field value contains a control byte or a misplaced tab: X-Trace, byte 0x01"),
    T(OK "X: secret\r\nContent-Length: \t5" END,
      "a header field value contains a control byte or a misplaced tab: Content-Length, byte 0x09"),
    T(OK "X: a\0b" END,
      "a line does not end with CR LF, or contains a bare CR or NUL: X, byte 0x00"),
    T(OK "X: secret\rb" END,
      "a line does not end with CR LF, or contains a bare CR or NUL: X, byte 0x0d"),
    T(OK "X: a\r\nY: secret\nZ", "some lines end with CR LF, and others with LF: Y"),
    T(OK "A: b\r\nContent-Type\xFF text/plain; secret" END,
      "a header field name is not a token, or has _ instead of -: \"Content-Type\\xff text/p\", "
      "byte 0xff"),
    T(OK "A: b\r\nX Y: secret" END,
      "a header field name is not a token, or has _ instead of -: \"X Y\", byte 0x20"),
    T(OK "A: b\r\n secret" END, "a header field is folded over two lines: A"),
    T(OK "Content-Length: 5\r\nContent-Length: 6" END, "Content-Length is not one decimal number"),
    T("SSH-2.0-OpenSSH_9.2p1 Debian" END, "malformed status line: \"SSH-2.0-OpenSSH_9.2p\""),
    T("HTTP/1.1 200 O\x1BK" END, "malformed status line: \"HTTP/1.1 200 O\\x1bK\", byte 0x1b"),
    T("HTTP/2.0 200 OK" END, "only HTTP/1.0 and HTTP/1.1 are served: \"HTTP/2.0 200 OK\""),
};

static void what_is_refused_is_named_by_field_and_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(named_rows); i++) {
        BUF_AUTO struct buf text = buf_make(191);
        struct http_response response;
        size_t scan = 0;

        assert_int_equal(http_parse_response(named_rows[i].bytes, &scan, SLICE("POST"), &response),
                         HTTP_PARSE_REFUSED);
        http_response_refused(named_rows[i].bytes, scan, &response, &text);
        buf_add_char(&text, '\0');
        assert_true(buf_ok(&text));
        assert_string_equal(text.at, named_rows[i].text);
    }
}

static void an_answer_head_of_8_mib_is_refused_at_its_limit(void **state)
{
    size_t size = (size_t)8 * 1024 * 1024, scan = 0;
    char *bytes = malloc(size);
    struct http_response response;

    (void)state;
    assert_non_null(bytes);
    memset(bytes, 'x', size);
    memcpy(bytes, OK "X: ", sizeof OK + 2);
    assert_int_equal(http_parse_response(slice_make(bytes, size), &scan, SLICE("GET"), &response),
                     HTTP_PARSE_REFUSED);
    assert_int_equal(response.refusal, HTTP_REFUSAL_HEADERS_TOO_LARGE);
    assert_int_equal(scan, HTTP_HEADERS_SIZE_MAX);
    free(bytes);
}

static void interim_answers_are_read_one_by_one(void **state)
{
    static const char bytes[] =
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" OK
        "Content-Length: 2\r\n\r\nhi";
    struct slice rest = slice_of(bytes);
    int statuses[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct http_response response;
        size_t scan = 0;

        assert_int_equal(http_parse_response(rest, &scan, SLICE("POST"), &response),
                         HTTP_PARSE_DONE);
        statuses[i] = response.status;
        rest = slice_skip(rest, response.headers_len);
    }
    assert_int_equal(statuses[0], 100);
    assert_int_equal(statuses[1], 103);
    assert_int_equal(statuses[2], 200);
    assert_true(slice_eq(rest, SLICE("hi")));
}

static void known_statuses_have_their_phrase_and_unknown_ones_none(void **state)
{
    (void)state;
    assert_string_equal(http_reason(200), "OK");
    assert_string_equal(http_reason(100), "Continue");
    assert_string_equal(http_reason(409), "Conflict");
    assert_string_equal(http_reason(431), "Request Header Fields Too Large");
    assert_string_equal(http_reason(504), "Gateway Timeout");
    assert_string_equal(http_reason(299), "");
    assert_string_equal(http_reason(0), "");
    assert_string_equal(http_reason(-1), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doubtful_answers_are_refused_whole_or_dripped),
        cmocka_unit_test(clear_answers_are_read_and_no_prefix_of_one),
        cmocka_unit_test(what_is_refused_is_named_by_field_and_byte),
        cmocka_unit_test(an_answer_head_of_8_mib_is_refused_at_its_limit),
        cmocka_unit_test(interim_answers_are_read_one_by_one),
        cmocka_unit_test(known_statuses_have_their_phrase_and_unknown_ones_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
