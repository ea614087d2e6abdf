/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept of a job's output: frames in their order, up to a size, and what was cut off. */
#include "base/mem.h"
#include "job/output.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define LARGE ((size_t)200 * 1000)

/* `1:text` for each frame, one behind the other; what is left of the body is no frame. */
static struct slice print_frames(struct slice body, struct buf *text)
{
    enum child_stream stream;
    struct slice bytes;
    while (output_next(&body, &stream, &bytes))
        buf_printf(text, "%d:%.*s ", (int)stream + 1, SLICE_ARG(bytes));
    return body;
}

static void assert_frames(const struct output *output, const char *wanted)
{
    BUF_AUTO struct buf text = buf_make(SIZE_MAX);
    assert_int_equal(print_frames(buf_slice(&output->frames), &text).len, 0);
    if (!slice_eq(buf_slice(&text), slice_of(wanted)))
        fail_msg("%.*s", SLICE_ARG(buf_slice(&text)));
}

static void add(struct output *output, enum child_stream stream, const char *text)
{
    output_add(output, stream, slice_of(text));
}

static struct outcome *keep(const struct output *output, int code)
{
    COMPRESS_AUTO struct compress compress = {0};
    struct outcome *outcome = output_keep(output, code, SLICE("true"), &compress);
    assert_non_null(outcome);
    return outcome;
}

/* ---- frames ---- */

static void frames_are_in_the_order_of_arrival_and_neighbours_of_a_stream_are_one(void **state)
{
    struct output output;
    (void)state;
    output_init(&output, 100);
    assert_frames(&output, "");
    add(&output, CHILD_OUTPUT, "a");
    add(&output, CHILD_OUTPUT, "b");
    add(&output, CHILD_ERROR, "c");
    add(&output, CHILD_OUTPUT, "d");
    add(&output, CHILD_OUTPUT, "");
    add(&output, CHILD_OUTPUT, "e");
    assert_frames(&output, "1:ab 2:c 1:de ");
    output_fini(&output);
}

static void bytes_of_any_value_are_kept(void **state)
{
    static const char bytes[] = "\0\1\2\0\0\0\5\377";
    struct output output;
    (void)state;
    output_init(&output, 100);
    output_add(&output, CHILD_ERROR, slice_make(bytes, sizeof bytes));
    struct slice body = buf_slice(&output.frames), got;
    enum child_stream stream;
    assert_true(output_next(&body, &stream, &got));
    assert_int_equal(stream, CHILD_ERROR);
    assert_true(slice_eq(got, slice_make(bytes, sizeof bytes)));
    output_fini(&output);
}

static void streams_that_take_turns_with_every_byte_are_kept_to_the_cap(void **state)
{
    struct output output;
    (void)state;
    output_init(&output, 1000);
    for (int i = 0; i < 1000; i++) {
        add(&output, CHILD_OUTPUT, "o");
        add(&output, CHILD_ERROR, "e");
    }
    assert_true(buf_ok(&output.frames));
    assert_int_equal(output.kept[CHILD_OUTPUT] + output.kept[CHILD_ERROR], 2000);
    assert_false(output.is_cut[CHILD_OUTPUT] || output.is_cut[CHILD_ERROR]);
    output_fini(&output);
}

/* ---- the cap ---- */

static void the_first_bytes_of_each_stream_are_kept_and_the_rest_is_noted(void **state)
{
    struct output output;
    (void)state;
    output_init(&output, 4);
    add(&output, CHILD_OUTPUT, "abcd");
    assert_false(output.is_cut[CHILD_OUTPUT]);
    add(&output, CHILD_OUTPUT, "");
    assert_false(output.is_cut[CHILD_OUTPUT]);
    add(&output, CHILD_ERROR, "xyz");
    add(&output, CHILD_OUTPUT, "e");
    assert_true(output.is_cut[CHILD_OUTPUT] && !output.is_cut[CHILD_ERROR]);
    add(&output, CHILD_ERROR, "12");
    assert_true(output.is_cut[CHILD_ERROR]);
    assert_frames(&output, "1:abcd 2:xyz1 ");
    output_fini(&output);
}

static void a_cap_of_nothing_keeps_nothing_and_says_so(void **state)
{
    struct output output;
    (void)state;
    output_init(&output, 0);
    add(&output, CHILD_ERROR, "x");
    assert_frames(&output, "");
    assert_true(output.is_cut[CHILD_ERROR] && !output.is_cut[CHILD_OUTPUT]);
    output_fini(&output);
}

static void an_attempt_forgets_what_the_one_before_wrote(void **state)
{
    struct output output;
    (void)state;
    output_init(&output, 2);
    add(&output, CHILD_OUTPUT, "abc");
    add(&output, CHILD_ERROR, "x");
    output_clear(&output);
    assert_false(output.is_cut[CHILD_OUTPUT]);
    add(&output, CHILD_ERROR, "yz");
    add(&output, CHILD_OUTPUT, "d");
    assert_frames(&output, "2:yz 1:d ");
    assert_false(output.is_cut[CHILD_ERROR]);
    output_fini(&output);
}

/* ---- outcomes ---- */

static void an_outcome_says_the_exit_code_and_which_stream_was_cut(void **state)
{
    static const int codes[] = {0, 1, 124, 255};
    (void)state;
    for (int cut = 0; cut < 4; cut++) {
        struct output output;
        output_init(&output, 3);
        add(&output, CHILD_OUTPUT, cut & 1 ? "outs" : "out");
        add(&output, CHILD_ERROR, cut & 2 ? "errs" : "err");
        struct outcome *outcome = keep(&output, codes[cut]);
        assert_int_equal(output_exit_code(outcome), codes[cut]);
        assert_int_equal(outcome->failed, codes[cut] != 0);
        assert_int_equal(outcome->status, 0);
        assert_int_equal(output_was_cut(outcome, CHILD_OUTPUT), cut & 1);
        assert_int_equal(output_was_cut(outcome, CHILD_ERROR), cut >> 1);
        assert_true(slice_eq(outcome->body, buf_slice(&output.frames)));
        outcome_unref(outcome);
        output_fini(&output);
    }
}

static void what_was_packed_is_unpacked_as_it_was(void **state)
{
    COMPRESS_AUTO struct compress compress = {0};
    struct output output;
    char *bytes = mem_alloc(LARGE);
    (void)state;
    for (size_t i = 0; i < LARGE; i++)
        bytes[i] = (char)(i / 100);
    output_init(&output, LARGE);
    output_add(&output, CHILD_OUTPUT, slice_make(bytes, LARGE));
    struct outcome *owner = keep(&output, 0);
    assert_true(owner->packed.len > 0 && owner->packed.len < LARGE / 10);
    struct outcome *outcome =
        outcome_new_packed(0, false, owner->fields, buf_slice(&owner->packed));
    assert_int_equal(outcome_unpack(outcome, &compress), OUTCOME_UNPACKED);
    assert_true(slice_eq(outcome->body, buf_slice(&output.frames)));
    assert_int_equal(output_exit_code(outcome), 0);
    outcome_unref(outcome);
    outcome_unref(owner);
    output_fini(&output);
    mem_free(bytes);
}

static void what_is_no_job_s_outcome_has_no_exit_code(void **state)
{
    static const char *const fields[] = {
        "",
        "Content-Type: text/plain\r\n",
        "Exit-Code: \r\n",
        "Exit-Code: 256\r\n",
        "Exit-Code: -1\r\n",
        "Exit-Code: 1x\r\n",
        "X-Exit-Code: 1\r\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        struct outcome *outcome = outcome_new(0, false, slice_of(fields[i]), SLICE(""));
        assert_int_equal(output_exit_code(outcome), OUTPUT_NO_CODE);
        assert_false(output_was_cut(outcome, CHILD_OUTPUT) || output_was_cut(outcome, CHILD_ERROR));
        outcome_unref(outcome);
    }
}

static void damaged_frames_end_the_reading(void **state)
{
    static const struct {
        struct slice body;
        const char *read;
    } cases[] = {
        {SLICE("\1\0\0\0\2ab"), "1:ab "},
        {SLICE("\1\0\0\0\0\2\0\0\0\1x"), "1: 2:x "},
        {SLICE("\1\0\0\0\2ab\0\0\0\0\1x"), "1:ab "}, /* a stream that there is not */
        {SLICE("\3\0\0\0\1x"), ""},
        {SLICE("\1\0\0\0\3ab"), ""},
        {SLICE("\1\377\377\377\377ab"), ""},
        {SLICE("\2\0\0\0\1x\1\0\0\0"), "2:x "},
        {SLICE("hello"), ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        BUF_AUTO struct buf text = buf_make(SIZE_MAX);
        struct slice left = print_frames(cases[i].body, &text);
        if (!slice_eq(buf_slice(&text), slice_of(cases[i].read)))
            fail_msg("case %zu: %.*s", i, SLICE_ARG(buf_slice(&text)));
        assert_int_equal(left.len > 0, i > 1);
    }
}

static void a_body_that_was_cut_off_anywhere_is_read_up_to_there(void **state)
{
    struct output output;
    (void)state;
    output_init(&output, 100);
    add(&output, CHILD_OUTPUT, "abc");
    add(&output, CHILD_ERROR, "de");
    struct slice body = buf_slice(&output.frames);
    for (size_t n = 0; n < body.len; n++) {
        BUF_AUTO struct buf text = buf_make(SIZE_MAX);
        char *part = mem_copy(body.at, n); /* nothing behind it may be read */
        print_frames(slice_make(part, n), &text);
        assert_true(slice_eq(buf_slice(&text), n < 8 ? SLICE("") : SLICE("1:abc ")));
        mem_free(part);
    }
    output_fini(&output);
}

#ifdef PAWL_HOOKS
/* What is kept is a whole, or is said to be cut off. */
static void assert_honest(const struct outcome *outcome)
{
    size_t kept[OUTPUT_STREAMS] = {0};
    struct slice body = outcome->body, bytes;
    enum child_stream stream;
    while (output_next(&body, &stream, &bytes))
        kept[stream] += bytes.len;
    assert_int_equal(body.len, 0);
    for (stream = 0; stream < OUTPUT_STREAMS; stream++)
        if (kept[stream] < LARGE)
            assert_true(output_was_cut(outcome, stream));
}

static void add_without_memory(bool takes_turns)
{
    static const char bytes[LARGE / 10];
    bool fails = true;
    for (long nth = 1; fails; nth++) {
        COMPRESS_AUTO struct compress compress = {0};
        struct output output;
        output_init(&output, LARGE);
        mem_fail_nth(nth);
        for (int i = 0; i < 20; i++)
            output_add(&output, (takes_turns ? i % 2 : i / 10) ? CHILD_OUTPUT : CHILD_ERROR,
                       slice_make(bytes, sizeof bytes));
        struct outcome *outcome = output_keep(&output, 3, SLICE("true"), &compress);
        fails = mem_fail_fired();
        mem_fail_nth(0);
        if (outcome) {
            assert_int_equal(output_exit_code(outcome), 3);
            assert_honest(outcome);
        }
        assert_true(outcome || fails);
        outcome_unref(outcome);
        output_fini(&output);
    }
}

static void without_memory_what_is_lost_is_said_to_be_cut_off(void **state)
{
    (void)state;
    add_without_memory(true);
    add_without_memory(false);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_are_in_the_order_of_arrival_and_neighbours_of_a_stream_are_one),
        cmocka_unit_test(bytes_of_any_value_are_kept),
        cmocka_unit_test(streams_that_take_turns_with_every_byte_are_kept_to_the_cap),
        cmocka_unit_test(the_first_bytes_of_each_stream_are_kept_and_the_rest_is_noted),
        cmocka_unit_test(a_cap_of_nothing_keeps_nothing_and_says_so),
        cmocka_unit_test(an_attempt_forgets_what_the_one_before_wrote),
        cmocka_unit_test(an_outcome_says_the_exit_code_and_which_stream_was_cut),
        cmocka_unit_test(what_was_packed_is_unpacked_as_it_was),
        cmocka_unit_test(what_is_no_job_s_outcome_has_no_exit_code),
        cmocka_unit_test(damaged_frames_end_the_reading),
        cmocka_unit_test(a_body_that_was_cut_off_anywhere_is_read_up_to_there),
#ifdef PAWL_HOOKS
        cmocka_unit_test(without_memory_what_is_lost_is_said_to_be_cut_off),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
