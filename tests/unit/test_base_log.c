/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time/timestamp.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#define RING 4096

struct pipe {
    int reader;
    int writer;
};

static struct pipe pipe_open(void)
{
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    return (struct pipe){fds[0], fds[1]};
}

/* Fills the pipe to its last byte, so that its reader counts as blocked; the bytes are 'x'. */
static size_t pipe_fill(struct pipe pipe)
{
    static const char filler[] = {[0 ... 511] = 'x'};
    size_t filled = 0;
    ssize_t n;
    assert_int_equal(fcntl(pipe.writer, F_SETFL, O_NONBLOCK), 0);
    while ((n = write(pipe.writer, filler, sizeof(filler))) > 0)
        filled += (size_t)n;
    assert_int_equal(fcntl(pipe.writer, F_SETFL, 0), 0);
    return filled;
}

/* All that was written, to the end of the pipe. */
static void pipe_drain(struct pipe pipe, struct buf *out)
{
    ssize_t n;
    close(pipe.writer);
    while ((n = read(pipe.reader, buf_room(out, 4096), 4096)) > 0)
        buf_added(out, (size_t)n);
    close(pipe.reader);
    assert_true(buf_ok(out));
}

static void a_line_is_json_with_time_level_event_and_members(void **state)
{
    struct pipe pipe = pipe_open();
    struct log *log = log_new(pipe.writer, RING);
    struct log_line line;
    BUF_AUTO struct buf out = buf_make(1 << 20);
    ARENA_AUTO struct arena arena = arena_make(RING);
    struct json *root;
    size_t offset;
    int64_t time_us;
    (void)state;
    log_line_start(&line, LOG_LEVEL_WARN, "store_down");
    log_line_str(&line, "path", SLICE("/a\"b\n\xff"));
    log_line_i64(&line, "n", -5);
    log_line_bool(&line, "ok", true);
    log_line_end(log, &line);
    log_free(log);
    pipe_drain(pipe, &out);
    assert_int_equal(json_parse(&arena, buf_slice(&out), &root, &offset), JSON_OK);
    assert_true(timestamp_parse(json_at(root, SLICE("/time"))->text, &time_us));
    assert_true(slice_eq(json_at(root, SLICE("/level"))->text, SLICE("warn")));
    assert_true(slice_eq(json_at(root, SLICE("/event"))->text, SLICE("store_down")));
    assert_true(slice_eq(json_at(root, SLICE("/path"))->text, SLICE("/a\"b\n\xef\xbf\xbd")));
    assert_true(slice_eq(json_at(root, SLICE("/n"))->text, SLICE("-5")));
    assert_int_equal(json_at(root, SLICE("/ok"))->type, JSON_TRUE);
    assert_int_equal(slice_find(buf_slice(&out), '\n'), out.len - 1);
}

static void a_free_writes_all_that_was_queued_in_order(void **state)
{
    struct pipe pipe = pipe_open();
    struct log *log = log_new(pipe.writer, RING);
    BUF_AUTO struct buf expected = buf_make(1 << 20), out = buf_make(1 << 20);
    (void)state;
    for (int i = 0; i < 200; i++) {
        BUF_AUTO struct buf line = buf_make(100);
        buf_printf(&line, "line %d", i);
        log_write(log, buf_slice(&line));
        buf_printf(&expected, "line %d\n", i);
    }
    assert_int_equal(log_dropped(log), 0);
    log_free(log);
    pipe_drain(pipe, &out);
    assert_true(slice_eq(buf_slice(&out), buf_slice(&expected)));
}

static void a_blocked_reader_costs_whole_lines_and_no_waiting(void **state)
{
    struct pipe pipe = pipe_open();
    size_t filled = pipe_fill(pipe);
    struct log *log = log_new(pipe.writer, 100);
    BUF_AUTO struct buf out = buf_make(1 << 20);
    (void)state;
    for (int i = 0; i < 30; i++)
        log_write(log, SLICE("123456789"));
    assert_int_equal(log_dropped(log), 20);
    assert_int_equal(read(pipe.reader, buf_room(&out, filled), filled), filled);
    log_free(log);
    pipe_drain(pipe, &out);
    assert_int_equal(out.len, 100);
    for (size_t i = 0; i < 100; i += 10)
        assert_memory_equal(out.at + i, "123456789\n", 10);
}

static void a_ring_goes_round_and_keeps_lines_whole(void **state)
{
    struct pipe pipe = pipe_open();
    struct log *log = log_new(pipe.writer, 64);
    char line[18];
    (void)state;
    for (int i = 0; i < 1000; i++) {
        log_write(log, SLICE("0123456789abcdef"));
        for (size_t got = 0; got < 17;) {
            ssize_t n = read(pipe.reader, line + got, 17 - got);
            assert_true(n > 0);
            got += (size_t)n;
        }
        assert_memory_equal(line, "0123456789abcdef\n", 17);
    }
    log_free(log);
    close(pipe.reader);
    close(pipe.writer);
}

static void a_line_that_fits_nowhere_is_dropped_and_counted(void **state)
{
    struct pipe pipe = pipe_open();
    struct log *log = log_new(pipe.writer, 10);
    struct log_line line;
    BUF_AUTO struct buf long_value = buf_make(LOG_LINE_MAX), out = buf_make(1 << 20);
    (void)state;
    log_write(log, SLICE("0123456789"));
    assert_int_equal(log_dropped(log), 1);
    for (size_t i = 0; i < LOG_LINE_MAX; i++)
        buf_add_char(&long_value, 'a');
    log_line_start(&line, LOG_LEVEL_INFO, "long");
    log_line_str(&line, "value", buf_slice(&long_value));
    log_line_end(log, &line);
    assert_int_equal(log_dropped(log), 2);
    log_write(log, SLICE("012345678"));
    log_free(log);
    pipe_drain(pipe, &out);
    assert_true(slice_eq(buf_slice(&out), SLICE("012345678\n")));
}

static void a_free_gives_up_on_a_reader_that_sleeps(void **state)
{
    struct pipe pipe = pipe_open();
    size_t filled = pipe_fill(pipe);
    struct log *log = log_new(pipe.writer, RING);
    BUF_AUTO struct buf out = buf_make(1 << 20);
    (void)state;
    log_write(log, SLICE("never read"));
    int64_t start_us = clock_boot_us();
    log_free(log);
    assert_true(clock_boot_us() - start_us >= LOG_FLUSH_US);
    pipe_drain(pipe, &out);
    assert_int_equal(out.len, filled);
}

static void a_reader_that_left_costs_counted_lines_only(void **state)
{
    struct pipe pipe = pipe_open();
    struct log *log = log_new(pipe.writer, RING);
    struct mutex mutex;
    struct cond cond;
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    close(pipe.reader);
    mutex_init(&mutex);
    cond_init(&cond);
    log_write(log, SLICE("one"));
    log_write(log, SLICE("two"));
    mutex_lock(&mutex);
    while (log_dropped(log) < 2)
        cond_wait_for(&cond, &mutex, CLOCK_US_PER_MS);
    mutex_unlock(&mutex);
    log_free(log);
    close(pipe.writer);
    cond_fini(&cond);
    mutex_fini(&mutex);
}

static void no_log_discards(void **state)
{
    struct log_line line;
    (void)state;
    log_write(NULL, SLICE("line"));
    log_line_start(&line, LOG_LEVEL_DEBUG, "x");
    log_line_end(NULL, &line);
    assert_null(line.buf.at);
    assert_int_equal(log_dropped(NULL), 0);
    log_free(NULL);
}

#ifdef PAWL_HOOKS
static void a_log_without_memory_is_not_made_and_a_line_without_is_counted(void **state)
{
    struct pipe pipe = pipe_open();
    static char value[2 * sizeof(((struct log_line *)NULL)->room)]; /* a line that has to grow */
    struct log_line line;
    BUF_AUTO struct buf out = buf_make(1 << 20);
    (void)state;
    memset(value, 'v', sizeof value);
    for (long n = 1; n <= 2; n++) {
        mem_fail_nth(n);
        assert_null(log_new(pipe.writer, RING));
        assert_true(mem_fail_fired());
    }
    mem_fail_nth(0);
    struct log *log = log_new(pipe.writer, RING);
    mem_fail_nth(1);
    log_line_start(&line, LOG_LEVEL_ERROR, "x");
    log_line_str(&line, "value", slice_make(value, sizeof value));
    log_line_end(log, &line);
    mem_fail_nth(0);
    assert_int_equal(log_dropped(log), 1);
    log_free(log);
    pipe_drain(pipe, &out);
    assert_int_equal(out.len, 0);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_json_with_time_level_event_and_members),
        cmocka_unit_test(a_free_writes_all_that_was_queued_in_order),
        cmocka_unit_test(a_blocked_reader_costs_whole_lines_and_no_waiting),
        cmocka_unit_test(a_ring_goes_round_and_keeps_lines_whole),
        cmocka_unit_test(a_line_that_fits_nowhere_is_dropped_and_counted),
        cmocka_unit_test(a_free_gives_up_on_a_reader_that_sleeps),
        cmocka_unit_test(a_reader_that_left_costs_counted_lines_only),
        cmocka_unit_test(no_log_discards),
#ifdef PAWL_HOOKS
        cmocka_unit_test(a_log_without_memory_is_not_made_and_a_line_without_is_counted),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
