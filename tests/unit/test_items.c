/* SPDX-License-Identifier: Apache-2.0 */
#include "job/items.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "items_reading.h"

#define MARK "\xEF\xBB\xBF"
#define EMPTY SLICE("")

/* ---- lines ---- */

static void a_line_ends_with_lf_or_cr_lf(void **state)
{
    (void)state;
    expect(ITEMS_LINES, SLICE("one\ntwo\r\nthree\n"), "1 \"one\"\n2 \"two\"\n3 \"three\"\n");
}

static void the_last_line_needs_no_end(void **state)
{
    (void)state;
    expect(ITEMS_LINES, SLICE("one\ntwo"), "1 \"one\"\n2 \"two\"\n");
    expect(ITEMS_LINES, SLICE("one\ntwo\r"), "1 \"one\"\n2 \"two\"\n");
}

static void empty_lines_are_skipped_and_blanks_are_kept(void **state)
{
    (void)state;
    expect(ITEMS_LINES, SLICE("\n\r\n a \n\n\n \nb\n\n"), "1 \" a \"\n2 \" \"\n3 \"b\"\n");
    expect(ITEMS_LINES, SLICE("\r"), "");
    expect(ITEMS_LINES, EMPTY, "");
}

static void a_cr_inside_a_line_is_kept(void **state)
{
    (void)state;
    expect(ITEMS_LINES, SLICE("a\rb\r\r\n"), "1 \"a\\rb\\r\"\n");
}

static void a_line_with_a_nul_byte_is_bad_and_counts(void **state)
{
    (void)state;
    expect(ITEMS_LINES, SLICE("a\n\nb\0c\r\n\0\nd\n"),
           "1 \"a\"\nbad: line 3: a NUL byte\nbad: line 4: a NUL byte\n4 \"d\"\n");
}

static void a_byte_order_mark_is_dropped_at_the_start_only(void **state)
{
    (void)state;
    expect(ITEMS_LINES, SLICE(MARK "a\n" MARK "b\n"), "1 \"a\"\n2 \"" MARK "b\"\n");
    expect(ITEMS_LINES, SLICE(MARK), "");
    expect(ITEMS_LINES, SLICE(MARK MARK "\n"), "1 \"" MARK "\"\n");
    expect(ITEMS_JSONL, SLICE(MARK "1\n"), "1 \"1\" type 3\n");
    expect(ITEMS_CSV, SLICE(MARK "a\n1\n"), "1 \"1\" a=\"1\"\n");
}

static void half_a_byte_order_mark_is_text(void **state)
{
    (void)state;
    expect(ITEMS_LINES, SLICE("\xEF\xBB"), "1 \"\\ufffd\\ufffd\"\n");
    expect(ITEMS_LINES, SLICE("\xEF\nx\n"), "1 \"\\ufffd\"\n2 \"x\"\n");
}

/* ---- NUL ---- */

static void nul_ends_items_that_keep_everything_else(void **state)
{
    (void)state;
    expect(ITEMS_NUL, SLICE("a\nb\r\n\0 \0\0\0" MARK "\0last\r"),
           "1 \"a\\nb\\r\\n\"\n2 \" \"\n3 \"" MARK "\"\n4 \"last\\r\"\n");
    expect(ITEMS_NUL, SLICE(MARK "a\0"), "1 \"" MARK "a\"\n");
    expect(ITEMS_NUL, SLICE("\0\0"), "");
}

/* ---- CSV ---- */

static void csv_records_are_objects_of_strings_in_the_order_of_the_header(void **state)
{
    (void)state;
    expect(ITEMS_CSV, SLICE("id,name,n\n7,Ann,1.50\r\n8,,\n"),
           "1 \"7,Ann,1.50\" id=\"7\" name=\"Ann\" n=\"1.50\"\n"
           "2 \"8,,\" id=\"8\" name=\"\" n=\"\"\n");
}

static void quoted_fields_hold_commas_quotes_and_line_ends(void **state)
{
    (void)state;
    expect(ITEMS_CSV,
           SLICE("\"a\",b\n\"x,y\",\"say \"\"hi\"\"\"\n\"1\n2\r\n3\",\"\"\n\"\"\"\",4\n"),
           "1 \"\\\"x,y\\\",\\\"say \\\"\\\"hi\\\"\\\"\\\"\" a=\"x,y\" b=\"say \\\"hi\\\"\"\n"
           "2 \"\\\"1\\n2\\r\\n3\\\",\\\"\\\"\" a=\"1\\n2\\r\\n3\" b=\"\"\n"
           "3 \"\\\"\\\"\\\"\\\",4\" a=\"\\\"\" b=\"4\"\n");
}

static void the_last_csv_record_needs_no_end(void **state)
{
    (void)state;
    expect(ITEMS_CSV, SLICE("a,b\n1,2"), "1 \"1,2\" a=\"1\" b=\"2\"\n");
    expect(ITEMS_CSV, SLICE("a,b\n1,"), "1 \"1,\" a=\"1\" b=\"\"\n");
    expect(ITEMS_CSV, SLICE("a,b\n1,\"2\"\r"), "1 \"1,\\\"2\\\"\" a=\"1\" b=\"2\"\n");
    expect(ITEMS_CSV, SLICE("a,b"), "");
}

static void blank_lines_of_csv_are_skipped_but_an_empty_quoted_field_is_not(void **state)
{
    (void)state;
    expect(ITEMS_CSV, SLICE("\n\r\na\n\n1\n\r\n\"\"\n \n"),
           "1 \"1\" a=\"1\"\n2 \"\\\"\\\"\" a=\"\"\n3 \" \" a=\" \"\n");
}

static void another_number_of_fields_is_bad_and_reading_goes_on(void **state)
{
    (void)state;
    expect(ITEMS_CSV, SLICE("a,\"b\nc\"\n1\n1,2,3\n\"\n\",2\n,,,\n3,4\n"),
           "bad: line 3: the record has 1 field, the header has 2\n"
           "bad: line 4: the record has 3 fields, the header has 2\n"
           "3 \"\\\"\\n\\\",2\" a=\"\\n\" b\nc=\"2\"\n"
           "bad: line 7: the record has 4 fields, the header has 2\n"
           "5 \"3,4\" a=\"3\" b\nc=\"4\"\n");
}

#define STRAY "a quote inside a field: put the field in quotes and double each quote in it\n"
#define BEHIND "text behind the closing quote of a field: a quote in a quoted field is doubled\n"

static void a_stray_quote_is_bad_with_what_to_do(void **state)
{
    (void)state;
    expect(ITEMS_CSV, SLICE("a,b\n5\" disk,1\n1,2\n"),
           "bad: line 2: " STRAY "2 \"1,2\" a=\"1\" b=\"2\"\n");
    expect(ITEMS_CSV, SLICE("a,b\n1, \"x\"\n1,2\n"),
           "bad: line 2: " STRAY "2 \"1,2\" a=\"1\" b=\"2\"\n");
    expect(ITEMS_CSV, SLICE("a,b\n\"\n\n\"x\",1\n1,2\n"),
           "bad: line 4: " BEHIND "2 \"1,2\" a=\"1\" b=\"2\"\n");
    expect(ITEMS_CSV, SLICE("a,b\n\"say \"hi\" now\",1\n1,2\n"),
           "bad: line 2: " BEHIND "2 \"1,2\" a=\"1\" b=\"2\"\n");
}

static void a_field_of_many_lines_behind_a_stray_quote_is_no_record(void **state)
{
    (void)state;
    expect(ITEMS_CSV, SLICE("a,b\n5\" disk,\"x\n1,2\n\"\n3,4\n"),
           "bad: line 2: " STRAY "2 \"3,4\" a=\"3\" b=\"4\"\n");
}

static void a_cr_of_its_own_is_bad_in_csv(void **state)
{
    (void)state;
    expect(ITEMS_CSV, SLICE("a\nx\ry\n\r\r\n\"x\"\r\"\nz\n"),
           "bad: line 2: a CR without LF: put the field in quotes\n"
           "bad: line 3: a CR without LF: put the field in quotes\n"
           "bad: line 4: a CR without LF: put the field in quotes\n"
           "4 \"z\" a=\"z\"\n");
}

static void csv_is_utf8_without_nul_bytes(void **state)
{
    (void)state;
    expect(ITEMS_CSV, SLICE("\xC3\xA9\n\xE9\n\"\0\"\n\xC3\xA9\n"),
           "bad: line 2: invalid UTF-8: convert the input to UTF-8\n"
           "bad: line 3: a NUL byte\n3 \"\xC3\xA9\" \xC3\xA9=\"\xC3\xA9\"\n");
}

static void an_unclosed_quote_breaks_the_input_where_it_begins(void **state)
{
    (void)state;
    expect(ITEMS_CSV, SLICE("a,b\n1,2\n\"\n\",\"x\n5,6\n"),
           "1 \"1,2\" a=\"1\" b=\"2\"\nbroken: line 4: the quote that begins here is not closed\n");
    expect(ITEMS_CSV, SLICE("\n\"a,b"),
           "broken: line 2: the quote that begins here is not closed\n");
    expect(ITEMS_CSV, SLICE("a\n\""), "broken: line 2: the quote that begins here is not closed\n");
}

static void a_malformed_header_breaks_the_input(void **state)
{
    (void)state;
    expect(ITEMS_CSV, SLICE("a,b,c,b\n1,2,3,4\n"),
           "broken: line 1: the header's columns 2 and 4 are both named \"b\"\n");
    expect(ITEMS_CSV, SLICE("\na,\"\",c\n1,2,3\n"),
           "broken: line 2: the header's column 2 has no name\n");
    expect(ITEMS_CSV, SLICE("a,\n1,2\n"), "broken: line 1: the header's column 2 has no name\n");
    expect(ITEMS_CSV, SLICE("\"\"\n1\n"), "broken: line 1: the header's column 1 has no name\n");
    expect(ITEMS_CSV, SLICE("a,b\"c\n1,2\n"), "broken: line 1: " STRAY);
    expect(ITEMS_CSV, SLICE("a,\xFF\n1,2\n"),
           "broken: line 1: invalid UTF-8: convert the input to UTF-8\n");
}

static void csv_without_a_header_is_broken(void **state)
{
    (void)state;
    expect(ITEMS_CSV, EMPTY,
           "broken: line 1: no header: the first line of CSV names its columns\n");
    expect(ITEMS_CSV, SLICE(MARK "\n\r\n"),
           "broken: line 3: no header: the first line of CSV names its columns\n");
}

static void column_names_are_the_same_to_the_byte_or_others(void **state)
{
    (void)state;
    expect(ITEMS_CSV, SLICE("a,A, a\n1,2,3\n"), "1 \"1,2,3\" a=\"1\" A=\"2\"  a=\"3\"\n");
}

static void the_columns_are_known_once_the_header_was_read(void **state)
{
    ARENA_AUTO struct arena arena = arena_make(ITEMS_ARENA_MAX);
    BUF_AUTO struct buf problem = buf_make(1000);
    struct items items;
    struct item item;
    (void)state;
    items_init(&items, ITEMS_CSV);
    assert_true(items_feed(&items, SLICE("id,\"full \"\"name\"\"\"")));
    assert_int_equal(items_next(&items, &arena, &item, &problem), ITEMS_MORE);
    assert_false(items_header_known(&items));
    assert_false(items_has_column(&items, SLICE("/id")));
    assert_int_equal(items_column_count(&items), 0);
    assert_true(items_feed(&items, SLICE("\n")));
    assert_int_equal(items_next(&items, &arena, &item, &problem), ITEMS_MORE);
    assert_true(items_header_known(&items));
    assert_true(items_has_column(&items, SLICE("/id")));
    assert_true(items_has_column(&items, SLICE("/full \"name\"")));
    assert_false(items_has_column(&items, SLICE("/ID")));
    assert_int_equal(items_column_count(&items), 2);
    assert_true(slice_eq(items_column_at(&items, 1), SLICE("full \"name\"")));
    items_fini(&items);
}

/* Sanitizers see a pointer into the reader. */
static void an_item_outlives_its_reader(void **state)
{
    ARENA_AUTO struct arena arena = arena_make(ITEMS_ARENA_MAX);
    BUF_AUTO struct buf problem = buf_make(1000);
    BUF_AUTO struct buf log = buf_make(1000);
    struct items items;
    struct item item;
    (void)state;
    items_init(&items, ITEMS_CSV);
    assert_true(items_feed(&items, SLICE("a,b\n1,\"\"\"2\"\n")));
    assert_int_equal(items_next(&items, &arena, &item, &problem), ITEMS_ONE);
    items_fini(&items);
    log_item(&log, ITEMS_CSV, &item);
    assert_true(
        slice_eq(buf_slice(&log), SLICE("1 \"1,\\\"\\\"\\\"2\\\"\" a=\"1\" b=\"\\\"2\"\n")));
}

/* ---- JSON lines ---- */

static void every_json_value_is_an_item(void **state)
{
    (void)state;
    expect(ITEMS_JSONL, SLICE("{\"a\":1}\r\n[]\n null \n\"x\"\n0\nfalse"),
           "1 \"{\\\"a\\\":1}\" type 6\n2 \"[]\" type 5\n3 \" null \" type 0\n"
           "4 \"\\\"x\\\"\" type 4\n5 \"0\" type 3\n6 \"false\" type 1\n");
}

static void blank_lines_of_json_are_skipped(void **state)
{
    (void)state;
    expect(ITEMS_JSONL, SLICE("\n \t\r\n\r\n1\n  \n"), "1 \"1\" type 3\n");
}

static void what_json_refuses_is_bad_with_its_byte(void **state)
{
    (void)state;
    expect(ITEMS_JSONL,
           SLICE("{\"a\":1,\"a\":2}\n\n\"\\ud800\"\n1 2\n\"\xFF\"\n{\"a\":\n}\n1e9999999\n\0\n7\n"),
           "bad: line 1: duplicate member name at byte 12\n"
           "bad: line 3: lone surrogate in a string at byte 1\n"
           "bad: line 4: unexpected text after the JSON value at byte 2\n"
           "bad: line 5: invalid UTF-8 at byte 1\n"
           "bad: line 6: not JSON at byte 5\n"
           "bad: line 7: not JSON at byte 0\n"
           "bad: line 8: number with too many digits or too large an exponent at byte 0\n"
           "bad: line 9: not JSON at byte 0\n"
           "9 \"7\" type 3\n");
}

static void a_json_tree_is_the_parsers(void **state)
{
    ARENA_AUTO struct arena arena = arena_make(ITEMS_ARENA_MAX);
    BUF_AUTO struct buf problem = buf_make(1000);
    struct items items;
    struct item item;
    (void)state;
    items_init(&items, ITEMS_JSONL);
    assert_true(items_feed(&items, SLICE("{\"a\":{\"b\":[1,\"x\\n\"]}}\n")));
    assert_int_equal(items_next(&items, &arena, &item, &problem), ITEMS_ONE);
    items_fini(&items);
    const struct json *value = json_at_as(item.value, SLICE("/a/b/1"), JSON_STRING);
    assert_non_null(value);
    assert_true(slice_eq(value->text, SLICE("x\n")));
}

static void a_problem_replaces_the_one_before_it(void **state)
{
    ARENA_AUTO struct arena arena = arena_make(ITEMS_ARENA_MAX);
    BUF_AUTO struct buf problem = buf_make(1000);
    struct items items;
    struct item item = {.number = 99};
    (void)state;
    items_init(&items, ITEMS_JSONL);
    assert_true(items_feed(&items, SLICE("x\ny\n")));
    assert_int_equal(items_next(&items, &arena, &item, &problem), ITEMS_BAD);
    assert_int_equal(items_next(&items, &arena, &item, &problem), ITEMS_BAD);
    assert_true(slice_eq(buf_slice(&problem), SLICE("line 2: not JSON at byte 0")));
    assert_int_equal(item.number, 99);
    items_fini(&items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_ends_with_lf_or_cr_lf),
        cmocka_unit_test(the_last_line_needs_no_end),
        cmocka_unit_test(empty_lines_are_skipped_and_blanks_are_kept),
        cmocka_unit_test(a_cr_inside_a_line_is_kept),
        cmocka_unit_test(a_line_with_a_nul_byte_is_bad_and_counts),
        cmocka_unit_test(a_byte_order_mark_is_dropped_at_the_start_only),
        cmocka_unit_test(half_a_byte_order_mark_is_text),
        cmocka_unit_test(nul_ends_items_that_keep_everything_else),
        cmocka_unit_test(csv_records_are_objects_of_strings_in_the_order_of_the_header),
        cmocka_unit_test(quoted_fields_hold_commas_quotes_and_line_ends),
        cmocka_unit_test(the_last_csv_record_needs_no_end),
        cmocka_unit_test(blank_lines_of_csv_are_skipped_but_an_empty_quoted_field_is_not),
        cmocka_unit_test(another_number_of_fields_is_bad_and_reading_goes_on),
        cmocka_unit_test(a_stray_quote_is_bad_with_what_to_do),
        cmocka_unit_test(a_field_of_many_lines_behind_a_stray_quote_is_no_record),
        cmocka_unit_test(a_cr_of_its_own_is_bad_in_csv),
        cmocka_unit_test(csv_is_utf8_without_nul_bytes),
        cmocka_unit_test(an_unclosed_quote_breaks_the_input_where_it_begins),
        cmocka_unit_test(a_malformed_header_breaks_the_input),
        cmocka_unit_test(csv_without_a_header_is_broken),
        cmocka_unit_test(column_names_are_the_same_to_the_byte_or_others),
        cmocka_unit_test(the_columns_are_known_once_the_header_was_read),
        cmocka_unit_test(an_item_outlives_its_reader),
        cmocka_unit_test(every_json_value_is_an_item),
        cmocka_unit_test(blank_lines_of_json_are_skipped),
        cmocka_unit_test(what_json_refuses_is_bad_with_its_byte),
        cmocka_unit_test(a_json_tree_is_the_parsers),
        cmocka_unit_test(a_problem_replaces_the_one_before_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
