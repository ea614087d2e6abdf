/* SPDX-License-Identifier: Apache-2.0 */
#include "job/printer.h"

#include "base/check.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define ERASE "\r\033[K"

/* The process's standard output and error lead to `fds` while a printer is there. */
struct bed {
    struct printer *printer;
    int kept[2];
};

static void start(struct bed *bed, int output, int error)
{
    fflush(NULL);
    for (int i = 0; i < 2; i++)
        CHECK((bed->kept[i] = fcntl(i + 1, F_DUPFD_CLOEXEC, 3)) >= 0);
    CHECK(dup2(output, 1) == 1 && dup2(error, 2) == 2);
    bed->printer = printer_new();
    CHECK(bed->printer);
}

/* The error that printer_free gave. */
static int end(struct bed *bed)
{
    int error = -1;
    printer_free(bed->printer, &error);
    for (int i = 0; i < 2; i++) {
        CHECK(dup2(bed->kept[i], i + 1) == i + 1);
        close(bed->kept[i]);
    }
    return error;
}

static void say(const struct bed *bed, enum child_stream stream, const char *text)
{
    printer_add(bed->printer, stream, slice_of(text));
}

static void expect(int fd, const char *text)
{
    char got[512] = {0};
    size_t n = 0, len = strlen(text);
    while (n < len) {
        ssize_t more = read(fd, got + n, len - n);
        CHECK(more > 0);
        n += (size_t)more;
    }
    assert_string_equal(got, text);
}

static void open_pipe(int ends[2])
{
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
}

static void close_pipe(const int ends[2])
{
    close(ends[0]);
    close(ends[1]);
}

/* ---- order ---- */

static void test_both_streams_are_written_in_the_order_in_which_it_was_given(void **state)
{
    (void)state;
    struct bed bed;
    int ends[2];
    open_pipe(ends);
    start(&bed, ends[1], ends[1]);
    for (int i = 0; i < 20; i++) {
        say(&bed, CHILD_OUTPUT, "out ");
        say(&bed, CHILD_ERROR, "err\n");
    }
    assert_int_equal(end(&bed), 0);
    for (int i = 0; i < 20; i++)
        expect(ends[0], "out err\n");
    close_pipe(ends);
}

static void test_each_stream_goes_to_its_own_descriptor_byte_for_byte(void **state)
{
    (void)state;
    struct bed bed;
    int out[2], err[2];
    char got[4];
    open_pipe(out);
    open_pipe(err);
    start(&bed, out[1], err[1]);
    printer_add(bed.printer, CHILD_OUTPUT, SLICE("a\0\xff\n"));
    printer_add(bed.printer, CHILD_OUTPUT, SLICE(""));
    say(&bed, CHILD_ERROR, "err");
    assert_int_equal(end(&bed), 0);
    assert_int_equal(read(out[0], got, sizeof got), 4);
    assert_memory_equal(got, "a\0\xff\n", 4);
    expect(err[0], "err");
    close_pipe(out);
    close_pipe(err);
}

static void test_what_it_has_is_copied_and_written_before_it_ends(void **state)
{
    (void)state;
    struct bed bed;
    int ends[2];
    char text[] = "first";
    open_pipe(ends);
    start(&bed, ends[1], ends[1]);
    say(&bed, CHILD_OUTPUT, text);
    memset(text, 'x', sizeof text - 1);
    assert_int_equal(end(&bed), 0);
    expect(ends[0], "first");
    close_pipe(ends);
    printer_free(NULL, NULL);
}

/* ---- room ---- */

static void test_there_is_no_room_while_much_waits_and_who_waits_for_it_is_woken(void **state)
{
    (void)state;
    struct bed bed;
    int ends[2];
    struct thread_parker first, second;
    static char much[PRINTER_MOST + 1], got[sizeof much];
    size_t n = 0;
    open_pipe(ends);
    start(&bed, ends[1], ends[1]);
    thread_parker_init(&first);
    thread_parker_init(&second);
    struct printer_waiter waiters[] = {{.parker = &first.parker}, {.parker = &second.parker}};
    assert_true(printer_ask_room(bed.printer, &waiters[0]));
    memset(much, 'm', sizeof much);
    printer_add(bed.printer, CHILD_OUTPUT, slice_make(much, sizeof much)); /* a pipe takes less */
    for (int i = 0; i < 4; i++)
        assert_false(printer_ask_room(bed.printer, &waiters[i % 2]));
    while (n < sizeof much) {
        ssize_t more = read(ends[0], got, sizeof got);
        CHECK(more > 0);
        n += (size_t)more;
    }
    assert_true(first.parker.park(&first.parker, CLOCK_NEVER));
    assert_true(second.parker.park(&second.parker, CLOCK_NEVER));
    assert_true(printer_ask_room(bed.printer, &waiters[0]));
    assert_int_equal(end(&bed), 0);
    thread_parker_fini(&first);
    thread_parker_fini(&second);
    close_pipe(ends);
}

/* ---- errors ---- */

static void test_the_first_error_is_told_and_the_other_stream_goes_on(void **state)
{
    (void)state;
    struct bed bed;
    int ends[2], full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    open_pipe(ends);
    start(&bed, full, ends[1]);
    say(&bed, CHILD_OUTPUT, "lost");
    say(&bed, CHILD_ERROR, "one ");
    say(&bed, CHILD_OUTPUT, "lost");
    say(&bed, CHILD_ERROR, "two");
    assert_int_equal(end(&bed), ENOSPC);
    expect(ends[0], "one two");
    close(full);
    close_pipe(ends);
}

static void test_a_reader_that_has_gone_is_no_error_and_there_is_room(void **state)
{
    (void)state;
    struct bed bed;
    int out[2], err[2];
    struct thread_parker parker;
    static char much[2 * PRINTER_MOST];
    signal(SIGPIPE, SIG_IGN);
    open_pipe(out);
    open_pipe(err);
    start(&bed, out[1], err[1]);
    close(out[0]);
    thread_parker_init(&parker);
    struct printer_waiter waiter = {.parker = &parker.parker};
    memset(much, 'm', sizeof much);
    printer_add(bed.printer, CHILD_OUTPUT, slice_make(much, sizeof much));
    while (!printer_ask_room(bed.printer, &waiter))
        (void)parker.parker.park(&parker.parker, CLOCK_NEVER);
    say(&bed, CHILD_ERROR, "still here");
    assert_int_equal(end(&bed), 0);
    expect(err[0], "still here");
    thread_parker_fini(&parker);
    close(out[1]);
    close_pipe(err);
}

static void test_a_stream_that_others_made_non_blocking_loses_nothing(void **state)
{
    (void)state;
    struct bed bed;
    int ends[2];
    static char much[PRINTER_MOST], got[PRINTER_MOST];
    size_t n = 0;
    open_pipe(ends);
    CHECK(fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
    start(&bed, ends[1], ends[1]);
    for (size_t i = 0; i < sizeof much; i++)
        much[i] = (char)(i % 251);
    printer_add(bed.printer, CHILD_OUTPUT, slice_make(much, sizeof much));
    while (n < sizeof much) {
        ssize_t more = read(ends[0], got + n, sizeof got - n);
        CHECK(more > 0);
        n += (size_t)more;
    }
    assert_memory_equal(got, much, sizeof much);
    assert_int_equal(end(&bed), 0);
    close_pipe(ends);
}

/* ---- the status line ---- */

static void test_the_status_line_is_below_what_is_written_and_is_taken_away(void **state)
{
    (void)state;
    struct bed bed;
    int ends[2];
    open_pipe(ends);
    start(&bed, ends[1], ends[1]);
    printer_show_status(bed.printer, SLICE("10 %"));
    expect(ends[0], "10 %");
    printer_show_status(bed.printer, SLICE("20 %"));
    expect(ends[0], ERASE "20 %");
    say(&bed, CHILD_ERROR, "a line\n");
    expect(ends[0], ERASE "a line\n20 %");
    say(&bed, CHILD_OUTPUT, "another\n");
    expect(ends[0], ERASE "another\n20 %");
    printer_show_status(bed.printer, SLICE(""));
    expect(ends[0], ERASE);
    say(&bed, CHILD_ERROR, "the last\n");
    assert_int_equal(end(&bed), 0);
    expect(ends[0], "the last\n");
    close_pipe(ends);
}

static void test_a_status_line_is_cut_at_its_bound(void **state)
{
    (void)state;
    struct bed bed;
    int ends[2];
    char line[PRINTER_STATUS_MAX + 100], cut[PRINTER_STATUS_MAX + 1] = {0};
    open_pipe(ends);
    start(&bed, ends[1], ends[1]);
    memset(line, 's', sizeof line);
    memset(cut, 's', PRINTER_STATUS_MAX);
    printer_show_status(bed.printer, slice_make(line, sizeof line));
    expect(ends[0], cut);
    printer_show_status(bed.printer, SLICE(""));
    assert_int_equal(end(&bed), 0);
    expect(ends[0], ERASE);
    close_pipe(ends);
}

static void test_a_last_status_line_is_shown_before_it_ends(void **state)
{
    (void)state;
    struct bed bed;
    int ends[2];
    open_pipe(ends);
    start(&bed, ends[1], ends[1]);
    printer_show_status(bed.printer, SLICE("done"));
    assert_int_equal(end(&bed), 0);
    expect(ends[0], "done");
    close_pipe(ends);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_streams_are_written_in_the_order_in_which_it_was_given),
        cmocka_unit_test(test_each_stream_goes_to_its_own_descriptor_byte_for_byte),
        cmocka_unit_test(test_what_it_has_is_copied_and_written_before_it_ends),
        cmocka_unit_test(test_there_is_no_room_while_much_waits_and_who_waits_for_it_is_woken),
        cmocka_unit_test(test_the_first_error_is_told_and_the_other_stream_goes_on),
        cmocka_unit_test(test_a_reader_that_has_gone_is_no_error_and_there_is_room),
        cmocka_unit_test(test_a_stream_that_others_made_non_blocking_loses_nothing),
        cmocka_unit_test(test_the_status_line_is_below_what_is_written_and_is_taken_away),
        cmocka_unit_test(test_a_status_line_is_cut_at_its_bound),
        cmocka_unit_test(test_a_last_status_line_is_shown_before_it_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
