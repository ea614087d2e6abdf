/* SPDX-License-Identifier: Apache-2.0 */
/* What items hold, how often they look at it, and what they do without memory. */
#include "base/mem.h"
#include "job/items.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "items_reading.h"

/* ---- limits ---- */

static void add_repeated(struct buf *buf, struct slice what, size_t times)
{
    for (size_t i = 0; i < times; i++)
        buf_add_slice(buf, what);
}

/* An item of `n` bytes and one of one byte; of CSV a header before them. */
static void make_long(struct buf *buf, enum items_form form, size_t n, struct slice end)
{
    buf_clear(buf);
    if (form == ITEMS_CSV)
        buf_add_str(buf, "a\n");
    if (form == ITEMS_JSONL)
        buf_add_char(buf, '1');
    add_repeated(buf, form == ITEMS_JSONL ? SLICE(" ") : SLICE("x"),
                 form == ITEMS_JSONL ? n - 1 : n);
    buf_add_slice(buf, end);
    buf_add_char(buf, '7');
    buf_add_slice(buf, end);
    assert_true(buf_ok(buf));
}

/* How many items, and how many bad ones; `*ret_cap`: the most that was held. */
static void count_items(enum items_form form, struct slice input, size_t piece, size_t ret_n[2],
                        size_t *ret_cap)
{
    BUF_AUTO struct buf problem = buf_make(1000);
    struct items items;
    enum items_result result = ITEMS_MORE;
    ret_n[0] = ret_n[1] = 0;
    items_init(&items, form);
    while (result != ITEMS_DONE) {
        ARENA_AUTO struct arena arena = arena_make(ITEMS_ARENA_MAX);
        struct item item;
        result = items_next(&items, &arena, &item, &problem);
        assert_true(result != ITEMS_NO_MEMORY && result != ITEMS_BROKEN);
        ret_n[0] += result == ITEMS_ONE;
        ret_n[1] += result == ITEMS_BAD;
        if (result == ITEMS_MORE && input.len > 0) {
            assert_true(items_feed(&items, slice_first(input, piece)));
            input = slice_skip(input, slice_first(input, piece).len);
        } else if (result == ITEMS_MORE) {
            items_end(&items);
        }
    }
    *ret_cap = items.input.cap;
    items_fini(&items);
}

static void expect_counts(enum items_form form, struct slice input, size_t good, size_t bad)
{
    static const size_t pieces[] = {SIZE_MAX, 65536, 4099};
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        size_t n[2], cap;
        count_items(form, input, pieces[i], n, &cap);
        assert_int_equal(n[0], good);
        assert_int_equal(n[1], bad);
    }
}

static void an_item_of_the_greatest_length_is_good_and_a_longer_one_bad(void **state)
{
    BUF_AUTO struct buf input = buf_make(ROOM);
    (void)state;
    for (enum items_form form = ITEMS_LINES; form <= ITEMS_JSONL; form++) {
        struct slice end = form == ITEMS_NUL ? slice_make("", 1) : SLICE("\n");
        make_long(&input, form, ITEMS_LONGEST, end);
        expect_counts(form, buf_slice(&input), 2, 0);
        make_long(&input, form, ITEMS_LONGEST + 1, end);
        expect_counts(form, buf_slice(&input), 1, 1);
        make_long(&input, form, ITEMS_LONGEST * 3, end);
        expect_counts(form, buf_slice(&input), 1, 1);
    }
}

static void the_end_of_a_line_is_not_part_of_its_length(void **state)
{
    BUF_AUTO struct buf input = buf_make(ROOM);
    (void)state;
    for (enum items_form form = ITEMS_LINES; form <= ITEMS_JSONL; form++) {
        if (form == ITEMS_NUL)
            continue;
        make_long(&input, form, ITEMS_LONGEST, SLICE("\r\n"));
        expect_counts(form, buf_slice(&input), 2, 0);
        make_long(&input, form, ITEMS_LONGEST + 1, SLICE("\r\n"));
        expect_counts(form, buf_slice(&input), 1, 1);
    }
}

static void a_long_item_is_told_by_line_or_number(void **state)
{
    BUF_AUTO struct buf input = buf_make(ROOM), log = buf_make(ROOM);
    (void)state;
    buf_add_str(&input, "a\nb\n");
    add_repeated(&input, SLICE("x"), ITEMS_LONGEST + 7);
    buf_add_str(&input, "\r\nlast");
    read_pieces(ITEMS_LINES, buf_slice(&input), 1000, &log);
    assert_true(
        slice_eq(buf_slice(&log),
                 SLICE("1 \"a\"\n2 \"b\"\nbad: line 3: longer than 1048576 bytes\n4 \"last\"\n")));
    buf_clear(&input);
    buf_clear(&log);
    buf_add(&input, "a\n\0", 3);
    add_repeated(&input, SLICE("x"), ITEMS_LONGEST + 7);
    read_pieces(ITEMS_NUL, buf_slice(&input), 1000, &log);
    assert_true(
        slice_eq(buf_slice(&log), SLICE("1 \"a\\n\"\nbad: item 2: longer than 1048576 bytes\n")));
}

static void a_long_record_ends_behind_its_quotes(void **state)
{
    BUF_AUTO struct buf input = buf_make(ROOM), log = buf_make(ROOM);
    (void)state;
    buf_add_str(&input, "a,b\n\"");
    add_repeated(&input, SLICE("x,\"\"\n"), ITEMS_LONGEST / 4);
    buf_add_str(&input, "\",2\n3,4\n5\n");
    read_pieces(ITEMS_CSV, buf_slice(&input), 999, &log);
    assert_true(slice_eq(buf_slice(&log),
                         SLICE("bad: line 2: longer than 1048576 bytes\n"
                               "2 \"3,4\" a=\"3\" b=\"4\"\n"
                               "bad: line 262148: the record has 1 field, the header has 2\n")));
}

static void a_long_header_is_broken_without_waiting_for_its_end(void **state)
{
    static const size_t pieces[] = {SIZE_MAX, 1000};
    BUF_AUTO struct buf input = buf_make(ROOM);
    (void)state;
    buf_add_char(&input, '"');
    add_repeated(&input, SLICE("xy"), ITEMS_LONGEST);
    for (size_t i = 0; i < 2; i++) {
        BUF_AUTO struct buf log = buf_make(ROOM);
        read_pieces(ITEMS_CSV, buf_slice(&input), pieces[i], &log);
        assert_true(
            slice_eq(buf_slice(&log), SLICE("broken: line 1: longer than 1048576 bytes\n")));
    }
}

/* What is held depends on an item's greatest length, not on the input's. */
static void little_is_held_of_a_long_input(void **state)
{
    BUF_AUTO struct buf input = buf_make(ROOM);
    size_t n[2], cap;
    (void)state;
    add_repeated(&input, SLICE("0123456789abcde\n"), ITEMS_LONGEST);
    count_items(ITEMS_LINES, buf_slice(&input), 4096, n, &cap);
    assert_int_equal(n[0], ITEMS_LONGEST);
    assert_true(cap <= 4 * 4096);
    buf_clear(&input);
    add_repeated(&input, SLICE("x"), 16 * ITEMS_LONGEST);
    count_items(ITEMS_LINES, buf_slice(&input), 4096, n, &cap);
    assert_int_equal(n[1], 1);
    assert_true(cap <= 4 * ITEMS_LONGEST);
}

/* Each byte is looked at once: where more input is needed nothing is left to look at, and what was
 * looked at stays so. */
static void an_unfinished_record_is_not_looked_at_again(void **state)
{
    ARENA_AUTO struct arena arena = arena_make(ITEMS_ARENA_MAX);
    BUF_AUTO struct buf problem = buf_make(1000);
    struct items items;
    struct item item;
    (void)state;
    items_init(&items, ITEMS_CSV);
    assert_true(items_feed(&items, SLICE("a\n\"")));
    for (size_t i = 1; i < ITEMS_LONGEST - 1; i++) {
        assert_int_equal(items_next(&items, &arena, &item, &problem), ITEMS_MORE);
        size_t scanned = items.scanned - items.start;
        assert_int_equal(scanned, i);
        assert_true(items_feed(&items, i % 3 ? SLICE("x") : SLICE("\n")));
        assert_int_equal(items.scanned - items.start, scanned);
    }
    assert_true(items_feed(&items, SLICE("\"\n")));
    assert_int_equal(items_next(&items, &arena, &item, &problem), ITEMS_ONE);
    assert_int_equal(item.text.len, ITEMS_LONGEST);
    items_fini(&items);
}

/* A long backlog of short items, to which a byte comes with every item that is taken. */
static void a_backlog_moves_no_more_bytes_than_are_taken(void **state)
{
    BUF_AUTO struct buf input = buf_make(ROOM), problem = buf_make(1000);
    struct items items;
    struct item item;
    (void)state;
    add_repeated(&input, SLICE("x\n"), ITEMS_LONGEST);
    items_init(&items, ITEMS_LINES);
    assert_true(items_feed(&items, buf_slice(&input)));
    size_t taken = 0, moved = 0;
    for (size_t i = 0; i < ITEMS_LONGEST; i++) {
        ARENA_AUTO struct arena arena = arena_make(ITEMS_ARENA_MAX);
        assert_int_equal(items_next(&items, &arena, &item, &problem), ITEMS_ONE);
        taken += 2;
        size_t start = items.start, left = items.input.len - start;
        assert_true(items_feed(&items, SLICE("y")));
        moved += items.start < start ? left : 0;
    }
    assert_true(moved <= taken);
    items_fini(&items);
}

/* The trees that need the most memory for their bytes. */
static void any_item_has_room_in_an_arena_of_the_named_size(void **state)
{
    BUF_AUTO struct buf input = buf_make(ROOM);
    (void)state;
    buf_add_char(&input, '[');
    add_repeated(&input, SLICE("1,"), ITEMS_LONGEST / 2 - 2);
    buf_add_str(&input, "11]\n");
    assert_int_equal(input.len, ITEMS_LONGEST + 1);
    expect_counts(ITEMS_JSONL, buf_slice(&input), 1, 0);
    buf_clear(&input);
    size_t n = 0;
    for (; input.len < ITEMS_LONGEST - 8; n++)
        buf_printf(&input, n ? ",%zx" : "%zx", n);
    buf_add_char(&input, '\n');
    add_repeated(&input, SLICE(","), n - 1);
    buf_add_char(&input, '\n');
    expect_counts(ITEMS_CSV, buf_slice(&input), 1, 0);
}

static void one_duplicate_among_many_columns_is_found(void **state)
{
    BUF_AUTO struct buf input = buf_make(ROOM), log = buf_make(ROOM);
    (void)state;
    for (size_t i = 0; i < 100000; i++)
        buf_printf(&input, "%zu,", i);
    buf_add_str(&input, "4711\n");
    read_pieces(ITEMS_CSV, buf_slice(&input), SIZE_MAX, &log);
    assert_true(
        slice_eq(buf_slice(&log),
                 SLICE("broken: line 1: the header's columns 4712 and 100001 are both named "
                       "\"4711\"\n")));
}

/* ---- memory ---- */

static void an_arena_too_small_takes_nothing(void **state)
{
    static const struct {
        enum items_form form;
        const char *input;
    } cases[] = {
        {ITEMS_LINES, "one\ntwo\n"},
        {ITEMS_CSV, "a,b\n1,\"\"\"\"\n3,4\n"},
        {ITEMS_JSONL, "{\"a\":\"\\n\"}\n1\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        BUF_AUTO struct buf problem = buf_make(1000);
        struct items items;
        struct item item = {0};
        enum items_result result = ITEMS_NO_MEMORY;
        items_init(&items, cases[i].form);
        assert_true(items_feed(&items, slice_of(cases[i].input)));
        for (size_t room = 0; result == ITEMS_NO_MEMORY; room++) {
            ARENA_AUTO struct arena arena = arena_make(room);
            assert_int_equal(item.number, 0);
            result = items_next(&items, &arena, &item, &problem);
        }
        assert_int_equal(result, ITEMS_ONE);
        assert_int_equal(item.number, 1);
        ARENA_AUTO struct arena arena = arena_make(ITEMS_ARENA_MAX);
        assert_int_equal(items_next(&items, &arena, &item, &problem), ITEMS_ONE);
        assert_int_equal(item.number, 2);
        items_fini(&items);
    }
}

#ifdef PAWL_HOOKS
static void without_memory_for_input_feeding_fails(void **state)
{
    struct items items;
    (void)state;
    items_init(&items, ITEMS_LINES);
    mem_fail_nth(1);
    assert_false(items_feed(&items, SLICE("a\n")));
    mem_fail_nth(0);
    items_fini(&items);
}

static void whichever_allocation_fails_the_next_try_reads_the_same(void **state)
{
    BUF_AUTO struct buf problem = buf_make(1000);
    bool fired = true;
    long tried = 0;
    (void)state;
    for (long n = 1; fired; n++, tried++) {
        ARENA_AUTO struct arena arena = arena_make(ITEMS_ARENA_MAX);
        struct items items;
        struct item item;
        items_init(&items, ITEMS_CSV);
        assert_true(items_feed(&items, SLICE("a,b\n1,\"\"\"\"\n")));
        mem_fail_nth(n);
        enum items_result result = items_next(&items, &arena, &item, &problem);
        fired = mem_fail_fired();
        mem_fail_nth(0);
        assert_int_equal(result, fired ? ITEMS_NO_MEMORY : ITEMS_ONE);
        arena_reset(&arena);
        if (fired)
            assert_int_equal(items_next(&items, &arena, &item, &problem), ITEMS_ONE);
        assert_int_equal(item.number, 1);
        items_fini(&items);
    }
    assert_true(tried > 2);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_item_of_the_greatest_length_is_good_and_a_longer_one_bad),
        cmocka_unit_test(the_end_of_a_line_is_not_part_of_its_length),
        cmocka_unit_test(a_long_item_is_told_by_line_or_number),
        cmocka_unit_test(a_long_record_ends_behind_its_quotes),
        cmocka_unit_test(a_long_header_is_broken_without_waiting_for_its_end),
        cmocka_unit_test(little_is_held_of_a_long_input),
        cmocka_unit_test(an_unfinished_record_is_not_looked_at_again),
        cmocka_unit_test(a_backlog_moves_no_more_bytes_than_are_taken),
        cmocka_unit_test(any_item_has_room_in_an_arena_of_the_named_size),
        cmocka_unit_test(one_duplicate_among_many_columns_is_found),
        cmocka_unit_test(an_arena_too_small_takes_nothing),
#ifdef PAWL_HOOKS
        cmocka_unit_test(without_memory_for_input_feeding_fails),
        cmocka_unit_test(whichever_allocation_fails_the_next_try_reads_the_same),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
