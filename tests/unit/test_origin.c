/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept of the request that made a claim. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core/web/origin.h"

static const struct origin whole = {.method = {"POST", 4},
                                    .path = {"/refunds", 8},
                                    .client = {"10.0.0.1", 8},
                                    .correlation_id = {"c1", 2},
                                    .trace_id = {"t1", 2},
                                    .body = {"{\n\t}", 4},
                                    .emit = {"refund.made", 11},
                                    .emit_without_response = true,
                                    .spelling = KEY_FORWARD_QUOTED};

static struct buf write_origin(const struct origin *origin)
{
    struct buf buf = buf_make(ORIGIN_MAX);
    origin_write(origin, &buf);
    assert_true(buf_ok(&buf));
    return buf;
}

static void check_same(const struct origin *a, const struct origin *b)
{
    assert_true(slice_eq(a->method, b->method) && slice_eq(a->path, b->path));
    assert_true(slice_eq(a->client, b->client) && slice_eq(a->trace_id, b->trace_id));
    assert_true(slice_eq(a->correlation_id, b->correlation_id) && slice_eq(a->body, b->body));
    assert_true(slice_eq(a->emit, b->emit));
    assert_int_equal(a->emit_without_response, b->emit_without_response);
}

static void it_reads_back_with_and_without_a_spelling(void **state)
{
    (void)state;
    for (enum key_forward i = KEY_FORWARD_BY_SYNTAX; i <= KEY_FORWARD_QUOTED; i++) {
        struct origin origin = whole, read;
        origin.spelling = i;
        BUF_AUTO struct buf text = write_origin(&origin);
        assert_true(origin_read(buf_slice(&text), &read));
        check_same(&origin, &read);
        assert_int_equal(read.spelling, i);
        assert_int_equal(origin_spelling(buf_slice(&text)), i);
    }
}

static void a_text_of_an_older_pawl_has_no_spelling(void **state)
{
    (void)state;
    struct slice old = SLICE("POST /refunds\n10.0.0.1\nc1\nt1\nbare\n\tquoted");
    struct origin read;
    assert_true(origin_read(old, &read));
    assert_true(slice_eq(read.trace_id, SLICE("t1")));
    assert_true(slice_eq(read.body, SLICE("bare\n\tquoted")));
    assert_int_equal(read.spelling, KEY_FORWARD_BY_SYNTAX);
    assert_int_equal(origin_spelling(SLICE("POST /\n\n\nt1\tslanted\n")), KEY_FORWARD_BY_SYNTAX);
    assert_int_equal(origin_spelling(SLICE("")), KEY_FORWARD_BY_SYNTAX);
}

static void another_spelling_changes_nothing_else(void **state)
{
    (void)state;
    ARENA_AUTO struct arena arena = arena_make(ORIGIN_MAX * 2);
    BUF_AUTO struct buf text = write_origin(&whole);
    struct slice other = origin_respell(buf_slice(&text), KEY_FORWARD_BARE, &arena);
    struct origin read;
    assert_true(origin_read(other, &read));
    check_same(&whole, &read);
    assert_int_equal(read.spelling, KEY_FORWARD_BARE);
    other = origin_respell(other, KEY_FORWARD_BY_SYNTAX, &arena);
    assert_int_equal(origin_spelling(other), KEY_FORWARD_BY_SYNTAX);
    other = origin_respell(SLICE(""), KEY_FORWARD_BARE, &arena);
    assert_int_equal(origin_spelling(other), KEY_FORWARD_BARE);
}

#ifdef PAWL_HOOKS

/* found: its data was null, as that of what is no JSON */
static void what_an_event_says_is_told_apart_from_no_memory_to_read_it(void **state)
{
    static const char *const bodies[] = {"{\"a\":[1,\"\\u0078\"]}", "[", ""};
    (void)state;
    BUF_AUTO struct buf text = write_origin(&whole);
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        int fired = 1;
        for (long n = 1; fired; n++) {
            struct slice data, body = slice_of(bodies[i]);
            mem_fail_nth(n);
            bool is_read = emit_read_body(body, &data);
            fired = mem_fail_fired();
            mem_fail_nth(0);
            assert_true(is_read == !fired && (fired || n > 1 || body.len == 0));
            assert_true(slice_eq(data, is_read && i == 0 ? body : SLICE("")));
        }
    }
    struct slice data;
    mem_fail_nth(1);
    assert_true(origin_read_event_data(buf_slice(&text), slice_of(bodies[0]), &data));
    assert_false(mem_fail_fired()); /* it has one without the response */
    assert_false(emit_read_body(slice_of(bodies[0]), &data));
    mem_fail_nth(0);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_reads_back_with_and_without_a_spelling),
        cmocka_unit_test(a_text_of_an_older_pawl_has_no_spelling),
        cmocka_unit_test(another_spelling_changes_nothing_else),
#ifdef PAWL_HOOKS
        cmocka_unit_test(what_an_event_says_is_told_apart_from_no_memory_to_read_it),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
