/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunked bodies: data, verdict and the bytes used do not depend on how the input is cut, and what
 * was decoded, written as one chunk, is decoded to the same. The first byte is the size of the
 * pieces; its highest bit tells whether it is a response.
 */
#include "base/buf.h"
#include "base/check.h"
#include "fuzz.h"
#include "http/message.h"

struct outcome {
    enum http_parse verdict;
    enum http_refusal refusal;
    size_t used; /* of bytes that were not refused */
    struct buf data;
};

static void feed(struct http_chunks *chunks, struct slice bytes, struct outcome *outcome)
{
    while (outcome->verdict == HTTP_PARSE_MORE && bytes.len > 0) {
        struct slice run;
        size_t used;

        outcome->verdict = http_chunks_decode(chunks, bytes, &used, &run);
        outcome->refusal = chunks->refusal;
        if (outcome->verdict == HTTP_PARSE_REFUSED)
            return;
        CHECK(used > 0 && used <= bytes.len && run.len <= used);
        buf_add_slice(&outcome->data, run);
        outcome->used += used;
        bytes = slice_skip(bytes, used);
    }
}

static void decode(struct slice bytes, size_t step, bool is_response, struct outcome *outcome)
{
    struct http_chunks chunks = {.is_response = is_response};

    outcome->data = buf_make(bytes.len + 1);
    for (size_t n = 0; n < bytes.len; n += step)
        feed(&chunks, slice_make(bytes.at + n, step < bytes.len - n ? step : bytes.len - n),
             outcome);
    CHECK(buf_ok(&outcome->data));
    if (outcome->verdict == HTTP_PARSE_REFUSED) {
        BUF_AUTO struct buf text = buf_make(191);
        http_chunks_refused(&chunks, &text);
        CHECK(buf_ok(&text) && memchr(text.at, '\0', text.len) == NULL);
    }
}

static void check_rewritten(struct slice data)
{
    BUF_AUTO struct buf body = buf_make(data.len + 64);
    struct outcome again = {.verdict = HTTP_PARSE_MORE};

    if (data.len > 0)
        buf_printf(&body, "%zx\r\n", data.len);
    buf_add_slice(&body, data);
    buf_add_str(&body, data.len > 0 ? "\r\n0\r\n\r\n" : "0\r\n\r\n");
    CHECK(buf_ok(&body));
    decode(buf_slice(&body), body.len, false, &again);
    CHECK(again.verdict == HTTP_PARSE_DONE && again.used == body.len);
    CHECK(slice_eq(buf_slice(&again.data), data));
    buf_fini(&again.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct outcome whole = {.verdict = HTTP_PARSE_MORE};
    struct outcome pieces = {.verdict = HTTP_PARSE_MORE};
    struct slice bytes;

    if (size < 2)
        return 0;
    bytes = slice_make(data + 1, size - 1);
    decode(bytes, bytes.len, data[0] > 127, &whole);
    decode(bytes, data[0] % 128 + (size_t)1, data[0] > 127, &pieces);
    CHECK(whole.verdict == pieces.verdict && whole.refusal == pieces.refusal);
    CHECK(slice_eq(buf_slice(&whole.data), buf_slice(&pieces.data)));
    if (whole.verdict == HTTP_PARSE_DONE) {
        CHECK(whole.used == pieces.used);
        check_rewritten(buf_slice(&whole.data));
    }
    buf_fini(&whole.data);
    buf_fini(&pieces.data);
    return 0;
}
