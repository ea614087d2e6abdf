/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunked bodies. Every row is decoded in one piece, byte by byte, and cut in two at every place;
 * data and verdict must be the same.
 */
#include "http_rows.h"

#include "base/buf.h"
#define TRAILING "0\r\n"

static const struct refused_row refused_rows[] = {
    /* Items of the framing doubts in tests/pawltest/hostile_requests.py: 6. */
    R("size empty", "\r\n", CHUNK),
    R("size empty, extension", ";a\r\n", CHUNK),
    R("size 0x5", "0x5\r\nhello\r\n", CHUNK),
    R("size x5", "x5\r\nhello\r\n", CHUNK),
    R("size +5", "+5\r\nhello\r\n", CHUNK),
    R("size -5", "-5\r\nhello\r\n", CHUNK),
    R("size -0", "-0\r\n\r\n", CHUNK),
    R("size 1_0", "1_0\r\n", CHUNK),
    R("size 5.0", "5.0\r\n", CHUNK),
    R("size 5h", "5h\r\nhello\r\n", CHUNK),
    R("size g", "g\r\n", CHUNK),
    R("blank before the size", " 5\r\nhello\r\n", CHUNK),
    R("tab before the size", "\t5\r\nhello\r\n", CHUNK),
    R("blank behind the size", "5 \r\nhello\r\n", CHUNK),
    R("tab behind the size", "5\t\r\nhello\r\n", CHUNK),
    R("blank before an extension", "5 ;a\r\nhello\r\n", CHUNK),
    R("size behind NBSP",
      "\xA0"
      "5\r\nhello\r\n",
      CHUNK),
    R("size and NUL", "5\0\r\nhello\r\n", CHUNK),
    R("seventeen digits", "00000000000000005\r\nhello\r\n", CHUNK),
    R("size over 2^53", "20000000000001\r\n", CHUNK),
    R("size 2^64 - 1", "ffffffffffffffff\r\n", CHUNK),
    R("size 2^64 + 5", "10000000000000005\r\nhello\r\n", CHUNK),
    R("junk before the size", "\r\n5\r\nhello\r\n", CHUNK),
    /* Item 7. */
    R("LF ends the size", "5\nhello\r\n0\r\n\r\n", CHUNK),
    R("CR and another byte end the size", "5\rXhello\r\n", CHUNK),
    R("CR CR LF ends the size", "5\r\r\nhello\r\n", CHUNK),
    R("LF ends the data", "5\r\nhello\n0\r\n\r\n", CHUNK),
    R("CR and another byte end the data", "5\r\nhello\rX0\r\n\r\n", CHUNK),
    R("nothing ends the data", "5\r\nhello0\r\n\r\n", CHUNK),
    R("more data than the size", "5\r\nhello!\r\n0\r\n\r\n", CHUNK),
    R("extra line behind the data", "5\r\nhello\r\n\r\n0\r\n\r\n", CHUNK),
    R("LF ends the last size", "0\n\r\n", CHUNK),
    R("LF ends the body", "0\r\n\n", TRAILER),
    R("CR and another byte end the body", "0\r\n\rX", TRAILER),
    /* Item 8. */
    R("bare CR in an extension", "5;a\rb\r\nhello\r\n", CHUNK),
    R("bare LF in an extension", "5;a\nb\r\nhello\r\n", CHUNK),
    R("LF ends an extension", "5;a=b\nhello\r\n", CHUNK),
    R("NUL in an extension", "5;a\0b\r\nhello\r\n", CHUNK),
    /* Item 9. */
    R("trailer Content-Length", TRAILING "Content-Length: 5\r\n\r\n", TRAILER),
    R("trailer transfer-encoding", TRAILING "transfer-encoding: chunked\r\n\r\n", TRAILER),
    R("trailer HOST", TRAILING "HOST: a\r\n\r\n", TRAILER),
    R("trailer Idempotency-Key", TRAILING "X: a\r\nIdempotency-Key: k\r\n\r\n", TRAILER),
    R("trailer Authorization", TRAILING "Authorization: a\r\n\r\n", TRAILER),
    R("trailer Content-Type", TRAILING "Content-Type: a\r\n\r\n", TRAILER),
    R("trailer without colon", TRAILING "X\r\n\r\n", TRAILER),
    R("trailer without name", TRAILING ": a\r\n\r\n", TRAILER),
    R("trailer, blank before the colon", TRAILING "X : a\r\n\r\n", TRAILER),
    R("trailer behind a blank", TRAILING " X: a\r\n\r\n", TRAILER),
    R("trailer folded", TRAILING "X: a\r\n b\r\n\r\n", TRAILER),
    R("trailer ended by LF", TRAILING "X: a\nY: b\r\n\r\n", TRAILER),
    R("trailer with bare CR", TRAILING "X: a\rb\r\n\r\n", TRAILER),
    R("trailer with NUL", TRAILING "X: a\0\r\n\r\n", TRAILER),
    R("trailer name beyond ASCII", TRAILING "\xC3\xA4: a\r\n\r\n", TRAILER),
    R("next request as trailer", TRAILING "GET / HTTP/1.1\r\n\r\n", TRAILER),
};

struct accepted_row {
    const char *name;
    struct slice bytes;
    const char *data;
};

#define A(name, bytes, data)                                                                       \
    {                                                                                              \
        name, {bytes, sizeof(bytes) - 1}, data                                                     \
    }

static const struct accepted_row accepted_rows[] = {
    A("empty body", "0\r\n\r\n", ""),
    A("empty body of sixteen digits", "0000000000000000\r\n\r\n", ""),
    A("one chunk", "5\r\nhello\r\n0\r\n\r\n", "hello"),
    A("two chunks", "5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", "hello!"),
    A("both cases of digits", "a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n",
      "01234567890123456789"),
    A("leading zeros", "0000000000000005\r\nhello\r\n000\r\n\r\n", "hello"),
    A("data that looks like framing", "7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n", "\r\n0\r\n\r\n"),
    A("extensions", "5;\r\nhello\r\n1;a=\"b;\t\xC3\xA4\"\r\n!\r\n0;z\r\n\r\n", "hello!"),
    A("trailers", "0\r\nX: a\r\nEmpty:\r\nX-Checksum:\t 1 \xC3\xA4\r\n\r\n", ""),
    A("trailers close to forbidden names",
      "0\r\nHos: a\r\nHostt: a\r\nContent-Length-: 5\r\nTransfer-Encodings-and-more: a\r\n\r\n",
      ""),
};

struct outcome {
    enum http_parse verdict;
    enum http_refusal refusal;
    size_t used;
    struct buf data;
};

/* Decodes one piece, appending to what earlier pieces gave. */
static void feed(struct http_chunks *chunks, struct slice bytes, struct outcome *outcome)
{
    struct slice data;
    size_t used;

    while (outcome->verdict == HTTP_PARSE_MORE && bytes.len > 0) {
        outcome->verdict = http_chunks_decode(chunks, bytes, &used, &data);
        if (outcome->verdict == HTTP_PARSE_REFUSED) {
            outcome->refusal = chunks->refusal;
            return;
        }
        assert_in_range(used, 1, bytes.len);
        buf_add_slice(&outcome->data, data);
        outcome->used += used;
        bytes = slice_skip(bytes, used);
    }
}

static bool of_response; /* what is decoded */

static struct outcome decode_cut(struct slice bytes, size_t cut)
{
    struct http_chunks chunks = {.is_response = of_response};
    struct outcome outcome = {.verdict = HTTP_PARSE_MORE, .data = buf_make(1 << 20)};

    feed(&chunks, slice_make(bytes.at, cut), &outcome);
    feed(&chunks, slice_skip(bytes, cut), &outcome);
    return outcome;
}

static struct outcome decode_dripped(struct slice bytes)
{
    struct http_chunks chunks = {.is_response = of_response};
    struct outcome outcome = {.verdict = HTTP_PARSE_MORE, .data = buf_make(1 << 20)};

    for (size_t i = 0; i < bytes.len; i++) {
        char *byte = copy_exactly(slice_make(bytes.at + i, 1));

        feed(&chunks, slice_make(byte, 1), &outcome);
        free(byte);
    }
    return outcome;
}

static void expect_body_refused(const struct refused_row *row, struct outcome outcome)
{
    expect_refused(row, outcome.verdict, outcome.refusal);
    buf_fini(&outcome.data);
}

static void doubtful_chunks_are_refused_however_they_arrive(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(refused_rows); i++) {
        const struct refused_row *row = &refused_rows[i];

        for (size_t cut = 0; cut <= row->bytes.len; cut++)
            expect_body_refused(row, decode_cut(row->bytes, cut));
        expect_body_refused(row, decode_dripped(row->bytes));
    }
}

static void expect_accepted(const struct accepted_row *row, struct outcome outcome, size_t used)
{
    if (outcome.verdict != HTTP_PARSE_DONE || outcome.used != used ||
        !slice_eq(buf_slice(&outcome.data), slice_of(row->data)))
        fail_msg("%s: verdict %d, used %zu of %zu, \"%.*s\"", row->name, outcome.verdict,
                 outcome.used, used, SLICE_ARG(buf_slice(&outcome.data)));
    buf_fini(&outcome.data);
}

static void chunks_are_decoded_however_they_arrive(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(accepted_rows); i++) {
        const struct accepted_row *row = &accepted_rows[i];

        for (size_t cut = 0; cut <= row->bytes.len; cut++)
            expect_accepted(row, decode_cut(row->bytes, cut), row->bytes.len);
        expect_accepted(row, decode_dripped(row->bytes), row->bytes.len);
    }
}

/* Blanks behind a size, and bare LFs alone: as nginx and HAProxy take them. */
static const struct accepted_row odd_rows[] = {
    A("LFs", "5\nhello\n0\n\n", "hello"),
    A("LFs, extension and trailer", "5;a\nhello\n0\nX: a\n\n", "hello"),
    A("blank behind the size", "5 \r\nhello\r\n0\t\r\n\r\n", "hello"),
    A("16 blanks behind each size", "5                \nhello\n0                \n\n", "hello"),
    A("blank before an extension", "5 ;a\r\nhello\r\n0\r\n\r\n", "hello"),
};

static const struct refused_row odd_refused_rows[] = {
    R("LF ends the size", "5\nhello\r\n0\r\n\r\n", CHUNK),
    R("LF ends the data", "5\r\nhello\n0\r\n\r\n", CHUNK),
    R("LF ends an extension", "5\r\nhello\r\n0;a\n", CHUNK),
    R("LF ends the body", "0\r\n\n", TRAILER),
    R("LF ends a trailer", "0\r\nX: a\n", TRAILER),
    R("CR LF ends the body", "0\n\r\n", TRAILER),
    R("17 blanks behind a size", "5                 \r\nhello\r\n0\r\n\r\n", CHUNK),
    R("digit behind a blank", "5 5\r\n", CHUNK),
    R("blank before the size", " 5\r\nhello\r\n", CHUNK),
    R("blank behind a size over 2^53", "20000000000001 \r\n", CHUNK),
    R("trailer Content-Length", "0\nContent-Length: 5\n\n", TRAILER),
    R("trailer folded", "0\nX: a\n b\n\n", TRAILER),
};

static void odd_chunks_of_responses_are_decoded_and_close_the_connection(void **state)
{
    (void)state;
    of_response = true;
    for (size_t i = 0; i < COUNT(odd_rows); i++) {
        const struct accepted_row *row = &odd_rows[i];
        struct http_chunks chunks = {.is_response = true};
        struct outcome outcome = {.verdict = HTTP_PARSE_MORE, .data = buf_make(1 << 20)};

        for (size_t cut = 0; cut <= row->bytes.len; cut++)
            expect_accepted(row, decode_cut(row->bytes, cut), row->bytes.len);
        expect_accepted(row, decode_dripped(row->bytes), row->bytes.len);
        feed(&chunks, row->bytes, &outcome);
        expect_accepted(row, outcome, row->bytes.len);
        assert_true(chunks.is_odd);
    }
    for (size_t i = 0; i < COUNT(odd_refused_rows); i++) {
        for (size_t cut = 0; cut <= odd_refused_rows[i].bytes.len; cut++)
            expect_body_refused(&odd_refused_rows[i], decode_cut(odd_refused_rows[i].bytes, cut));
        expect_body_refused(&odd_refused_rows[i], decode_dripped(odd_refused_rows[i].bytes));
    }
    of_response = false;
}

static void what_a_chunk_is_refused_for_is_named(void **state)
{
    static const struct {
        const char *bytes;
        const char *text;
    } rows[] = {
        {"2x\r\n", "malformed chunk, byte 0x78"},
        {"0\r\nHost: secret\r\n", "malformed or forbidden trailer: Host, byte 0x3a"},
        {"0\r\nX-Longer: a\r\nX: secret\x02", "malformed or forbidden trailer: X, byte 0x02"},
        {"0\r\na-name-that-is-longer-than-24-bytes\r",
         "malformed or forbidden trailer: a-name-that-is-longer-th, byte 0x0d"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        BUF_AUTO struct buf text = buf_make(191);
        struct http_chunks chunks = {.is_response = true};
        struct outcome outcome = {.verdict = HTTP_PARSE_MORE, .data = buf_make(64)};

        feed(&chunks, slice_of(rows[i].bytes), &outcome);
        assert_int_equal(outcome.verdict, HTTP_PARSE_REFUSED);
        http_chunks_refused(&chunks, &text);
        buf_add_char(&text, '\0');
        assert_string_equal(text.at, rows[i].text);
        buf_fini(&outcome.data);
    }
}

static void no_prefix_of_a_chunked_body_is_taken_for_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(accepted_rows); i++) {
        for (size_t n = 0; n < accepted_rows[i].bytes.len; n++) {
            struct outcome outcome = decode_cut(slice_make(accepted_rows[i].bytes.at, n), n / 2);

            assert_int_equal(outcome.verdict, HTTP_PARSE_MORE);
            assert_int_equal(outcome.used, n);
            buf_fini(&outcome.data);
        }
    }
}

static void what_follows_a_chunked_body_is_left_alone(void **state)
{
    static const char bytes[] = "1\r\na\r\n0\r\n\r\nGET / HTTP/1.1\r\n";
    struct outcome outcome = decode_cut(slice_of(bytes), 0);

    (void)state;
    assert_int_equal(outcome.verdict, HTTP_PARSE_DONE);
    assert_string_equal(bytes + outcome.used, "GET / HTTP/1.1\r\n");
    buf_fini(&outcome.data);
}

static void an_ended_or_refused_body_takes_no_more_bytes(void **state)
{
    struct http_chunks ended = {0}, refused = {0};
    struct slice data;
    size_t used;

    (void)state;
    assert_int_equal(http_chunks_decode(&ended, SLICE("0\r\n\r\n"), &used, &data), HTTP_PARSE_DONE);
    assert_int_equal(http_chunks_decode(&ended, SLICE("5\r\n"), &used, &data), HTTP_PARSE_DONE);
    assert_int_equal(used, 0);
    assert_int_equal(http_chunks_decode(&refused, SLICE("x"), &used, &data), HTTP_PARSE_REFUSED);
    assert_int_equal(http_chunks_decode(&refused, SLICE("0\r\n\r\n"), &used, &data),
                     HTTP_PARSE_REFUSED);
    assert_int_equal(refused.refusal, HTTP_REFUSAL_CHUNK);
}

static void data_is_handed_over_in_runs_without_a_copy(void **state)
{
    static const char bytes[] = "5\r\nhello\r\n";
    struct http_chunks chunks = {0};
    struct slice data;
    size_t used;

    (void)state;
    assert_int_equal(http_chunks_decode(&chunks, slice_make(bytes, 6), &used, &data),
                     HTTP_PARSE_MORE);
    assert_ptr_equal(data.at, bytes + 3);
    assert_int_equal(data.len, 3);
    assert_int_equal(used, 6);
    assert_int_equal(http_chunks_decode(&chunks, slice_of(bytes + 6), &used, &data),
                     HTTP_PARSE_MORE);
    assert_int_equal(data.len, 2);
    assert_int_equal(used, 2);
}

/* `start`, then `n` times 'a', then `end`. */
static enum http_parse decode_padded(const char *start, size_t n, const char *end)
{
    struct buf bytes = buf_make((size_t)1 << 20);
    struct outcome outcome;

    buf_add_str(&bytes, start);
    for (size_t i = 0; i < n; i++)
        buf_add_char(&bytes, 'a');
    buf_add_str(&bytes, end);
    assert_true(buf_ok(&bytes));
    outcome = decode_cut(buf_slice(&bytes), bytes.len / 2);
    buf_fini(&outcome.data);
    buf_fini(&bytes);
    return outcome.verdict;
}

static void lines_are_bounded(void **state)
{
    (void)state;
    assert_int_equal(decode_padded("0;", 4095, "\r\n\r\n"), HTTP_PARSE_DONE);
    assert_int_equal(decode_padded("0;", 4096, "\r\n\r\n"), HTTP_PARSE_REFUSED);
    assert_int_equal(decode_padded("0\r\nX:", 4095, "\r\n\r\n"), HTTP_PARSE_DONE);
    assert_int_equal(decode_padded("0\r\nX:", 4096, "\r\n\r\n"), HTTP_PARSE_REFUSED);
    assert_int_equal(decode_padded("0\r\n", 4096, ":\r\n\r\n"), HTTP_PARSE_DONE);
    assert_int_equal(decode_padded("0\r\n", 4097, ":\r\n\r\n"), HTTP_PARSE_REFUSED);
}

static void all_trailers_together_are_bounded(void **state)
{
    const size_t lines = HTTP_HEADERS_SIZE_MAX / 4;
    struct http_chunks chunks = {0};
    struct slice data;
    size_t used;
    enum http_parse verdict = http_chunks_decode(&chunks, SLICE("0\r\n"), &used, &data);

    (void)state;
    for (size_t i = 0; i < lines; i++) {
        assert_int_equal(verdict, HTTP_PARSE_MORE);
        verdict = http_chunks_decode(&chunks, SLICE("X:\r\n"), &used, &data);
    }
    assert_int_equal(verdict, HTTP_PARSE_MORE);
    verdict = http_chunks_decode(&chunks, SLICE("\r\n"), &used, &data);
    assert_int_equal(verdict, HTTP_PARSE_REFUSED);
    assert_int_equal(chunks.refusal, HTTP_REFUSAL_TRAILER);
}

static void the_largest_size_is_counted_exactly(void **state)
{
    struct http_chunks chunks = {0};
    struct slice data;
    size_t used;

    (void)state;
    assert_int_equal(http_chunks_decode(&chunks, SLICE("20000000000000\r\nab"), &used, &data),
                     HTTP_PARSE_MORE);
    assert_int_equal(data.len, 2);
    assert_true(chunks.left == HTTP_LENGTH_MAX - 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doubtful_chunks_are_refused_however_they_arrive),
        cmocka_unit_test(chunks_are_decoded_however_they_arrive),
        cmocka_unit_test(odd_chunks_of_responses_are_decoded_and_close_the_connection),
        cmocka_unit_test(what_a_chunk_is_refused_for_is_named),
        cmocka_unit_test(no_prefix_of_a_chunked_body_is_taken_for_it),
        cmocka_unit_test(what_follows_a_chunked_body_is_left_alone),
        cmocka_unit_test(an_ended_or_refused_body_takes_no_more_bytes),
        cmocka_unit_test(data_is_handed_over_in_runs_without_a_copy),
        cmocka_unit_test(lines_are_bounded),
        cmocka_unit_test(all_trailers_together_are_bounded),
        cmocka_unit_test(the_largest_size_is_counted_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
