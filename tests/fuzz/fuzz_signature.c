/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signatures of webhooks: a line each of scheme, secret, signature header, id and timestamp, then
 * the body. Nothing but what the scheme signs with that secret is verified; what it signs is, and
 * base64 that is read is written as the same bytes.
 */
#include "base/check.h"
#include "base/text/base64.h"
#include "core/web/signature.h"
#include "fuzz.h"

static void check_base64(struct slice text)
{
    BUF_AUTO struct buf bytes = buf_make(1 << 16), again = buf_make(1 << 17);
    BUF_AUTO struct buf read = buf_make(1 << 16);
    if (!base64_read(text, &bytes))
        return;
    base64_add(&again, buf_slice(&bytes));
    CHECK(base64_read(buf_slice(&again), &read));
    CHECK(slice_eq(buf_slice(&bytes), buf_slice(&read)));
    CHECK(slice_starts(buf_slice(&again), text) || text.len > again.len - 3);
}

static void check_signed(const struct signature_scheme *scheme, const struct signature_keys *keys,
                         struct headers *headers, struct slice body)
{
    BUF_AUTO struct buf value = buf_make(1 << 16);
    const struct signature_message message = {SLICE("evt_1"), 1614265330, body};
    const char *problem;
    if (!signature_may_sign(scheme, keys, &message, &problem))
        return;
    CHECK(signature_sign(scheme, keys, &message, &value));
    headers_clear(headers);
    headers_add(headers, scheme->header, buf_slice(&value));
    headers_add(headers, SLICE("webhook-id"), message.id);
    headers_add(headers, SLICE("webhook-timestamp"), SLICE("1614265330"));
    headers_add(headers, SLICE("X-Slack-Request-Timestamp"), SLICE("1614265330"));
    const struct signature_received received = {headers, body, 1614265330 * INT64_C(1000000),
                                                SIGNATURE_TOLERANCE_US};
    CHECK(signature_verify(scheme, keys, &received) == SIGNATURE_GOOD);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ARENA_AUTO struct arena arena = arena_make(1 << 20);
    struct slice name, secret, value, id, seconds, body = slice_make(data, size);
    struct signature_secret read;
    struct headers headers = {0};
    const char *problem = NULL;
    body = slice_cut(body, '\n', &name);
    body = slice_cut(body, '\n', &secret);
    body = slice_cut(body, '\n', &value);
    body = slice_cut(body, '\n', &id);
    body = slice_cut(body, '\n', &seconds);
    check_base64(value);
    const struct signature_scheme *scheme = signature_scheme_find(name);
    if (!scheme)
        return 0;
    if (!signature_secret_read(scheme, secret, &arena, &read, &problem)) {
        CHECK(problem);
        return 0;
    }
    const struct signature_keys keys = {&read, 1};
    headers_add(&headers, scheme->header, value);
    headers_add(&headers, SLICE("webhook-id"), id);
    headers_add(&headers, SLICE("webhook-timestamp"), seconds);
    headers_add(&headers, SLICE("X-Slack-Request-Timestamp"), seconds);
    const struct signature_received received = {&headers, body, 1614265330 * INT64_C(1000000),
                                                SIGNATURE_TOLERANCE_US};
    enum signature_verdict verdict = signature_verify(scheme, &keys, &received);
    CHECK(verdict < SIGNATURE_VERDICT_COUNT && verdict != SIGNATURE_NO_MEMORY);
    check_signed(scheme, &keys, &headers, body);
    return 0;
}
