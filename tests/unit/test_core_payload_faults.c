/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "core/request/payload.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define ROOM (1U << 20)

struct outcome {
    bool whole; /* nothing was lacking */
    enum payload_error error;
    struct digest hash;
    size_t canonical_len;
};

/* gzip of "[1]" (RFC 1952), as `printf '[1]' | gzip -n` writes it. */
static const char gzipped[] =
    "\x1f\x8b\x08\0\0\0\0\0\0\x03\x8b\x36\x8c\x05\0\xb8\x32\x2f\x4c\x03\0\0\0";

struct request {
    struct slice body;
    struct slice type;
    struct slice coding;
    struct slice recipe;
};

/* Every step from recipe and body to hash, canonical bytes and recipe. */
static struct outcome run(const struct request *request)
{
    ARENA_AUTO struct arena arena = arena_make(ROOM);
    BUF_AUTO struct buf canonical = buf_make(ROOM);
    struct outcome outcome = {0};
    struct payload_selection selection;
    struct payload payload;
    if (!payload_recipe_read(request->recipe, &arena, &selection))
        return outcome;
    outcome.error = payload_read(
        &arena, &(struct payload_input){request->body, request->type, request->coding, ROOM},
        &payload);
    if (outcome.error != PAYLOAD_OK || !payload_hash(&payload, &selection, &outcome.hash) ||
        !payload_canonical(&payload, &selection, &canonical))
        return outcome;
    if (payload.kind == PAYLOAD_IS_FORM && !payload_form_value(&payload, &arena, SLICE("a")).at)
        return outcome;
    outcome.canonical_len = canonical.len;
    payload_recipe_write(&selection, &canonical);
    outcome.whole = buf_ok(&canonical);
    return outcome;
}

/* Fails the first allocation, then the second, ... until a run asks for fewer. */
static void sweep(const struct request *request)
{
    struct outcome wanted = run(request);
    assert_true(wanted.whole);
    int fired = 1;
    long n = 1;
    for (; fired; n++) {
        mem_fail_nth(n);
        struct outcome got = run(request);
        fired = mem_fail_fired();
        mem_fail_nth(0);
        assert_true(got.whole != (fired != 0));
        if (got.error != PAYLOAD_OK)
            assert_int_equal(got.error, PAYLOAD_NO_MEMORY);
        if (!got.whole)
            continue;
        assert_true(digest_eq(&got.hash, &wanted.hash));
        assert_int_equal(got.canonical_len, wanted.canonical_len);
    }
    assert_true(n > 2); /* two at the least: the arena's, and the canonical bytes' */
}

static void every_allocation_that_fails_is_reported_as_no_memory(void **state)
{
    static const char many[] =
        "{\"j\":1,\"i\":[{\"b\":\"\\u0041\"},2.50],\"h\":{},\"g\":0,\"f\":0,\"e\":0,\"d\":0,\"c\":"
        "0,"
        "\"b\":0,\"a\":{\"z\":1,\"y\":\"0123456789012345678901234567890123456789012345678901\"},"
        "\"k\":[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]],\"l\":0,\"m\":0}";
    const struct request requests[] = {
        {slice_of(many), SLICE("application/json"), SLICE(""), SLICE("1 all")},
        {slice_of(many), SLICE("application/json"), SLICE(""), SLICE("1 include /i /k /a")},
        {slice_of(many), SLICE("application/json"), SLICE(""), SLICE("1 exclude /i/0 /a/z")},
        {SLICE("a=b%20c&d"), SLICE("application/x-www-form-urlencoded"), SLICE(""), SLICE("1 all")},
        {SLICE("--b\r\n\r\n1\r\n--b--"), SLICE("multipart/form-data;boundary=b"), SLICE(""),
         SLICE("1 all")},
        {slice_make(gzipped, sizeof(gzipped) - 1), SLICE("application/json"), SLICE("gzip"),
         SLICE("1 all")},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
        sweep(&requests[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_that_fails_is_reported_as_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
