/* SPDX-License-Identifier: Apache-2.0 */
#include "job/feed.h"

#include "base/check.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmocka.h>

#define MUCH ((size_t)1000 * 1000)

struct bed {
    struct thread_parker waits;
    struct feed *feed;
    int pipe[2]; /* [0] is fed */
};

static void open_bed(struct bed *bed)
{
    thread_parker_init(&bed->waits);
    assert_int_equal(pipe(bed->pipe), 0);
    assert_non_null(bed->feed = feed_new(bed->pipe[0]));
}

static void close_input(struct bed *bed)
{
    close(bed->pipe[1]);
    bed->pipe[1] = -1;
}

/* The next thing that is not FEED_NOTHING. */
static enum feed_result take(struct bed *bed, struct slice *ret_bytes, int *ret_error)
{
    struct parker *parker = &bed->waits.parker;
    enum feed_result result;
    while ((result = feed_take(bed->feed, parker, ret_bytes, ret_error)) == FEED_NOTHING)
        (void)parker->park(parker, CLOCK_NEVER);
    return result;
}

/* Once the thread has ended: a descriptor that it reads is not closed. */
static void close_bed(struct bed *bed)
{
    struct slice bytes;
    int error;
    if (bed->pipe[1] >= 0)
        close_input(bed);
    while (take(bed, &bytes, &error) == FEED_BYTES)
        continue;
    feed_free(bed->feed);
    thread_parker_fini(&bed->waits);
    close(bed->pipe[0]);
}

static void assert_takes(struct bed *bed, const char *expected)
{
    struct slice bytes = {0};
    int error = 0;
    assert_int_equal(take(bed, &bytes, &error), FEED_BYTES);
    assert_int_equal(bytes.len, strlen(expected));
    assert_memory_equal(bytes.at, expected, bytes.len);
}

static void put(struct bed *bed, const char *text)
{
    assert_int_equal(write(bed->pipe[1], text, strlen(text)), strlen(text));
}

/* Until the thread has read all that was written. */
static void await_read(const struct bed *bed)
{
    int left;
    do
        CHECK(ioctl(bed->pipe[0], FIONREAD, &left) == 0);
    while (left > 0);
}

static void test_what_was_written_is_taken_as_it_comes_then_the_end(void **state)
{
    (void)state;
    struct bed bed;
    struct slice bytes;
    int error = -1;
    open_bed(&bed);
    put(&bed, "first");
    assert_takes(&bed, "first");
    put(&bed, "second");
    assert_takes(&bed, "second");
    close_input(&bed);
    for (int i = 0; i < 2; i++)
        assert_int_equal(take(&bed, &bytes, &error), FEED_END);
    close_bed(&bed);
}

static void test_nothing_yet_is_said_at_once_and_the_parker_is_woken_later(void **state)
{
    (void)state;
    struct bed bed;
    struct slice bytes;
    int error;
    open_bed(&bed);
    assert_int_equal(feed_take(bed.feed, &bed.waits.parker, &bytes, &error), FEED_NOTHING);
    put(&bed, "x");
    assert_true(bed.waits.parker.park(&bed.waits.parker, CLOCK_NEVER));
    assert_takes(&bed, "x");
    close_bed(&bed);
}

static void test_a_piece_stays_until_the_next_is_taken(void **state)
{
    (void)state;
    struct bed bed;
    struct slice first = {0};
    int error;
    open_bed(&bed);
    put(&bed, "first");
    assert_int_equal(take(&bed, &first, &error), FEED_BYTES);
    put(&bed, "SECOND");
    close_input(&bed);
    await_read(&bed);
    assert_memory_equal(first.at, "first", 5);
    assert_takes(&bed, "SECOND");
    close_bed(&bed);
}

static void write_much(void *argument)
{
    const int *fd = argument;
    char piece[997];
    for (size_t at = 0; at < MUCH;) {
        size_t n = MUCH - at < sizeof piece ? MUCH - at : sizeof piece;
        for (size_t i = 0; i < n; i++)
            piece[i] = (char)((at + i) % 251);
        CHECK(write(*fd, piece, n) == (ssize_t)n);
        at += n;
    }
    close(*fd);
}

static void test_every_byte_comes_once_and_in_order(void **state)
{
    (void)state;
    struct bed bed;
    struct thread writer;
    struct slice bytes;
    size_t at = 0;
    int error;
    open_bed(&bed);
    int fd = bed.pipe[1];
    bed.pipe[1] = -1;
    CHECK(thread_start(&writer, "writer", write_much, &fd));
    while (take(&bed, &bytes, &error) == FEED_BYTES)
        for (size_t i = 0; i < bytes.len; i++, at++)
            CHECK(bytes.at[i] == (char)(at % 251));
    assert_int_equal(at, MUCH);
    thread_join(&writer);
    close_bed(&bed);
}

static void test_a_descriptor_that_others_made_non_blocking_is_waited_for(void **state)
{
    (void)state;
    struct bed bed;
    struct slice bytes;
    int error;
    thread_parker_init(&bed.waits);
    assert_int_equal(pipe2(bed.pipe, O_NONBLOCK), 0);
    assert_non_null(bed.feed = feed_new(bed.pipe[0]));
    assert_int_equal(feed_take(bed.feed, &bed.waits.parker, &bytes, &error), FEED_NOTHING);
    put(&bed, "late");
    assert_takes(&bed, "late");
    assert_true(fcntl(bed.pipe[0], F_GETFL) & O_NONBLOCK);
    close_bed(&bed);
}

static void test_a_failure_says_its_number(void **state)
{
    (void)state;
    struct bed bed = {.pipe = {open("/", O_RDONLY | O_DIRECTORY), -1}};
    struct slice bytes;
    int error = 0;
    thread_parker_init(&bed.waits);
    assert_non_null(bed.feed = feed_new(bed.pipe[0]));
    assert_int_equal(take(&bed, &bytes, &error), FEED_FAILED);
    assert_int_equal(error, EISDIR);
    feed_free(bed.feed);
    thread_parker_fini(&bed.waits);
    close(bed.pipe[0]);
}

static void test_it_can_be_freed_with_a_piece_that_nobody_took(void **state)
{
    (void)state;
    struct bed bed;
    struct slice bytes;
    int error;
    open_bed(&bed);
    put(&bed, "one");
    assert_int_equal(take(&bed, &bytes, &error), FEED_BYTES);
    put(&bed, "two");
    feed_free(bed.feed); /* its thread may still read, and the descriptor stays open */
    close_input(&bed);
    thread_parker_fini(&bed.waits);
    feed_free(NULL);
}

/* Its thread still waits; the descriptor is the caller's, and so open until the end. */
static void test_freeing_waits_for_no_input(void **state)
{
    (void)state;
    struct bed bed;
    open_bed(&bed);
    feed_free(bed.feed);
    put(&bed, "ends the thread");
    assert_true(fcntl(bed.pipe[0], F_GETFD) >= 0);
    close_input(&bed);
    thread_parker_fini(&bed.waits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_written_is_taken_as_it_comes_then_the_end),
        cmocka_unit_test(test_nothing_yet_is_said_at_once_and_the_parker_is_woken_later),
        cmocka_unit_test(test_a_piece_stays_until_the_next_is_taken),
        cmocka_unit_test(test_every_byte_comes_once_and_in_order),
        cmocka_unit_test(test_a_descriptor_that_others_made_non_blocking_is_waited_for),
        cmocka_unit_test(test_a_failure_says_its_number),
        cmocka_unit_test(test_it_can_be_freed_with_a_piece_that_nobody_took),
        cmocka_unit_test(test_freeing_waits_for_no_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
