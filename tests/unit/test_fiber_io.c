/* SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "fiber/fiber.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

#define MEGABYTE ((size_t)1 << 20)

/* Fibers state what they believe with CHECK: an assertion of cmocka must not leave their stack. */
static void run_fibers(void (*first)(void *), void (*second)(void *), void *argument)
{
    struct loop *loop = loop_new(4);
    assert_non_null(loop);
    assert_true(fiber_spawn(loop, "first", first, argument));
    if (second != NULL)
        assert_true(fiber_spawn(loop, "second", second, argument));
    loop_stop(loop);
    loop_run(loop);
    loop_free(loop);
}

static void open_pair(struct fiber_io *a, struct fiber_io *b)
{
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    CHECK(fiber_io_open(a, ends[0]) && fiber_io_open(b, ends[1]));
}

static void close_pair(struct fiber_io *a, struct fiber_io *b)
{
    fiber_io_close(a);
    fiber_io_close(b);
}

static int write_text(struct fiber_io *io, const char *text)
{
    struct iovec part = {(char *)(uintptr_t)text, strlen(text)};
    return fiber_write(io, &part, 1, CLOCK_NEVER, NULL);
}

static bool reads_text(struct fiber_io *io, const char *text)
{
    char bytes[64];
    ptrdiff_t n = fiber_read(io, bytes, sizeof bytes, CLOCK_NEVER);
    return n == (ptrdiff_t)strlen(text) && memcmp(bytes, text, (size_t)n) == 0;
}

static enum fiber_wake wait_for(struct fiber_io *io, unsigned want, int64_t deadline_us)
{
    struct fiber_source source = {io, want};
    return fiber_wait(&source, 1, deadline_us);
}

/* ---- streams ---- */

struct echo {
    int ends[2];
    size_t echoed;
};

static void echo_all(void *argument)
{
    struct echo *echo = argument;
    struct fiber_io io;
    char bytes[3000];
    ptrdiff_t n;
    CHECK(fiber_io_open(&io, echo->ends[1]));
    while ((n = fiber_read(&io, bytes, sizeof bytes, CLOCK_NEVER)) > 0) {
        struct iovec part = {bytes, (size_t)n};
        CHECK(fiber_write(&io, &part, 1, CLOCK_NEVER, NULL) == 0);
        echo->echoed += (size_t)n;
    }
    CHECK(n == 0);
    fiber_io_close(&io);
}

struct megabyte {
    struct fiber_io io;
    unsigned char *bytes;
};

static void write_megabyte(void *argument)
{
    struct megabyte *all = argument;
    unsigned char *at = all->bytes;
    struct iovec parts[] = {
        {NULL, 0}, {at, 1}, {at + 1, 99999}, {NULL, 0}, {at + 100000, MEGABYTE - 100000},
        {NULL, 0}};
    size_t sent = 0;
    CHECK(fiber_write(&all->io, parts, 6, CLOCK_NEVER, &sent) == 0);
    CHECK(sent == MEGABYTE);
    CHECK(shutdown(all->io.fd, SHUT_WR) == 0);
}

static void read_megabyte_back(struct fiber_io *io)
{
    unsigned char bytes[2048];
    size_t seen = 0;
    ptrdiff_t n;
    while ((n = fiber_read(io, bytes, sizeof bytes, CLOCK_NEVER)) > 0)
        for (ptrdiff_t i = 0; i < n; i++, seen++)
            CHECK(bytes[i] == (unsigned char)(seen * 31 >> 3));
    CHECK(n == 0 && seen == MEGABYTE);
}

/* One fiber writes while this one reads: each on an end of its own, over two descriptors. */
static void send_and_take_back(void *argument)
{
    struct echo *echo = argument;
    struct megabyte all = {.bytes = mem_alloc(MEGABYTE)};
    struct fiber_io reading;
    CHECK(all.bytes != NULL);
    for (size_t i = 0; i < MEGABYTE; i++)
        all.bytes[i] = (unsigned char)(i * 31 >> 3);
    CHECK(fiber_io_open(&reading, dup(echo->ends[0])));
    CHECK(fiber_io_open(&all.io, echo->ends[0]));
    CHECK(fiber_spawn(loop_current(), "writes", write_megabyte, &all));
    read_megabyte_back(&reading);
    close_pair(&reading, &all.io);
    mem_free(all.bytes);
}

static void test_a_megabyte_comes_back_whole_through_small_buffers(void **state)
{
    (void)state;
    struct echo echo = {0};
    int small = 4096;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, echo.ends), 0);
    for (int i = 0; i < 2; i++)
        setsockopt(echo.ends[i], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    run_fibers(send_and_take_back, echo_all, &echo);
    assert_int_equal(echo.echoed, MEGABYTE);
}

static void meet_short_reads(void *argument)
{
    (void)argument;
    struct fiber_io a, b;
    open_pair(&a, &b);
    CHECK(write_text(&b, "one") == 0);
    CHECK(reads_text(&a, "one") && !a.readable);
    CHECK(wait_for(&a, FIBER_READ, clock_boot_us()) == FIBER_DEADLINE);
    CHECK(write_text(&b, "two") == 0);
    CHECK(wait_for(&a, FIBER_READ, CLOCK_NEVER) == FIBER_READY);
    CHECK(reads_text(&a, "two"));
    close_pair(&a, &b);
}

static void test_after_a_short_read_new_bytes_make_readable_again(void **state)
{
    (void)state;
    run_fibers(meet_short_reads, NULL, NULL);
}

/* `polls`: whether the loop looked at the descriptor between bytes, end and reads. */
static void meet_end_of_stream(bool polls)
{
    struct fiber_io a, b;
    open_pair(&a, &b);
    CHECK(write_text(&b, "last") == 0);
    if (polls)
        fiber_sleep_until(clock_boot_us());
    fiber_io_close(&b);
    if (polls)
        CHECK(wait_for(&a, FIBER_HANGUP, CLOCK_NEVER) == FIBER_READY && a.hung_up);
    CHECK(reads_text(&a, "last"));
    CHECK(reads_text(&a, ""));
    CHECK(reads_text(&a, ""));
    fiber_io_close(&a);
}

static void meet_both_ends_of_stream(void *argument)
{
    (void)argument;
    meet_end_of_stream(false);
    meet_end_of_stream(true);
}

static void test_an_end_of_stream_behind_bytes_is_read_whenever_it_was_noticed(void **state)
{
    (void)state;
    run_fibers(meet_both_ends_of_stream, NULL, NULL);
}

static void wait_too_long(void *argument)
{
    (void)argument;
    struct fiber_io a, b;
    char byte;
    open_pair(&a, &b);
    CHECK(fiber_read(&a, &byte, 1, clock_boot_us()) == -ETIMEDOUT);
    CHECK(write_text(&b, "x") == 0);
    CHECK(fiber_read(&a, &byte, 1, clock_boot_us() + 60 * CLOCK_US_PER_S) == 1);
    close_pair(&a, &b);
}

static void test_a_read_ends_at_its_deadline(void **state)
{
    (void)state;
    run_fibers(wait_too_long, NULL, NULL);
}

static void fill_the_peer(void *argument)
{
    struct fiber_io a, b;
    size_t sent = 0, got = 0;
    ptrdiff_t n;
    char bytes[2048];
    open_pair(&a, &b);
    struct iovec part = {argument, MEGABYTE};
    CHECK(fiber_write(&a, &part, 1, clock_boot_us(), &sent) == -ETIMEDOUT);
    CHECK(sent > 0 && sent < MEGABYTE && part.iov_len == MEGABYTE - sent);
    fiber_io_close(&a);
    while ((n = fiber_read(&b, bytes, sizeof bytes, CLOCK_NEVER)) > 0)
        got += (size_t)n;
    CHECK(got == sent);
    fiber_io_close(&b);
}

static void test_a_write_that_ends_at_its_deadline_tells_what_the_kernel_took(void **state)
{
    (void)state;
    void *bytes = mem_zalloc(1, MEGABYTE);
    assert_non_null(bytes);
    run_fibers(fill_the_peer, NULL, bytes);
    mem_free(bytes);
}

static void write_to_nobody(void *argument)
{
    (void)argument;
    struct fiber_io a, b;
    open_pair(&a, &b);
    fiber_io_close(&b);
    CHECK(write_text(&a, "hello") == -EPIPE);
    fiber_io_close(&a);
    fiber_io_close(&a);
}

static void test_a_write_to_a_closed_peer_fails_without_a_signal(void **state)
{
    (void)state;
    run_fibers(write_to_nobody, NULL, NULL);
}

static void use_a_pipe(void *argument)
{
    (void)argument;
    int ends[2];
    struct fiber_io in, out;
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    CHECK(fiber_io_open(&in, ends[0]) && fiber_io_open(&out, ends[1]));
    CHECK(write_text(&out, "through") == 0);
    CHECK(reads_text(&in, "through"));
    fiber_io_close(&out);
    CHECK(wait_for(&in, FIBER_HANGUP, CLOCK_NEVER) == FIBER_READY);
    CHECK(reads_text(&in, ""));
    fiber_io_close(&in);
}

static void test_pipes_are_read_and_written_like_sockets(void **state)
{
    (void)state;
    run_fibers(use_a_pipe, NULL, NULL);
}

/* ---- waiting ---- */

struct two_pairs {
    struct fiber_io a, a_peer, b, b_peer;
    struct parker *parker;
    bool read_ended;
};

static void wait_for_two(void *argument)
{
    struct two_pairs *pairs = argument;
    open_pair(&pairs->a, &pairs->a_peer);
    open_pair(&pairs->b, &pairs->b_peer);
    pairs->a.readable = false;
    struct fiber_source both[] = {{&pairs->a, FIBER_READ | FIBER_HANGUP},
                                  {&pairs->b, FIBER_HANGUP}};
    CHECK(fiber_wait(both, 2, clock_boot_us()) == FIBER_DEADLINE);
    CHECK(write_text(&pairs->b_peer, "not what is waited for") == 0);
    CHECK(fiber_wait(both, 2, clock_boot_us()) == FIBER_DEADLINE);
    CHECK(write_text(&pairs->a_peer, "this is") == 0);
    CHECK(fiber_wait(both, 2, CLOCK_NEVER) == FIBER_READY);
    CHECK(pairs->a.readable && !pairs->a.hung_up && !pairs->b.hung_up);
    CHECK(reads_text(&pairs->a, "this is"));
    fiber_io_close(&pairs->b_peer);
    CHECK(fiber_wait(both, 2, CLOCK_NEVER) == FIBER_READY);
    CHECK(!pairs->a.readable && pairs->b.hung_up);
    close_pair(&pairs->a, &pairs->a_peer);
    fiber_io_close(&pairs->b);
}

static void test_a_wait_for_two_ends_with_what_either_asked_for(void **state)
{
    (void)state;
    struct two_pairs pairs = {0};
    run_fibers(wait_for_two, NULL, &pairs);
}

static void read_though_woken(void *argument)
{
    struct two_pairs *pairs = argument;
    pairs->parker = fiber_parker();
    open_pair(&pairs->a, &pairs->a_peer);
    CHECK(reads_text(&pairs->a, "bytes"));
    pairs->read_ended = true;
    CHECK(wait_for(&pairs->a, FIBER_READ, CLOCK_NEVER) == FIBER_WOKEN);
    close_pair(&pairs->a, &pairs->a_peer);
}

static void wake_then_write(void *argument)
{
    struct two_pairs *pairs = argument;
    pairs->parker->wake(pairs->parker);
    fiber_yield();
    CHECK(!pairs->read_ended);
    CHECK(write_text(&pairs->a_peer, "bytes") == 0);
}

static void test_a_wake_during_a_read_is_left_to_the_next_wait(void **state)
{
    (void)state;
    struct two_pairs pairs = {0};
    run_fibers(read_though_woken, wake_then_write, &pairs);
    assert_true(pairs.read_ended);
}

static void read_without_end(void *argument)
{
    struct two_pairs *pairs = argument;
    char byte, bytes[1000] = {0};
    struct iovec part = {bytes, sizeof bytes};
    open_pair(&pairs->a, &pairs->a_peer);
    CHECK(fiber_write(&pairs->a_peer, &part, 1, CLOCK_NEVER, NULL) == 0);
    for (int i = 0; i < 1000 && !pairs->read_ended; i++)
        CHECK(fiber_read(&pairs->a, &byte, 1, CLOCK_NEVER) == 1);
    CHECK(pairs->read_ended);
    close_pair(&pairs->a, &pairs->a_peer);
}

static void end_the_reads(void *argument)
{
    struct two_pairs *pairs = argument;
    pairs->read_ended = true;
}

static void test_a_socket_that_never_runs_dry_does_not_starve_other_fibers(void **state)
{
    (void)state;
    struct two_pairs pairs = {0};
    run_fibers(read_without_end, end_the_reads, &pairs);
}

/* As a child does between fork and exec, the copy keeps the open file alive. */
static void close_one_of_two_copies(void *argument)
{
    (void)argument;
    struct fiber_io a, b;
    open_pair(&a, &b);
    int copy = dup(a.fd);
    CHECK(copy >= 0);
    fiber_io_close(&a);
    CHECK(a.fd == -1);
    memset(&a, 0x5a, sizeof a);
    CHECK(write_text(&b, "unseen") == 0);
    fiber_sleep_until(clock_boot_us());
    fiber_io_close(&b);
    close(copy);
}

static void test_a_closed_descriptor_is_watched_no_longer_even_if_a_copy_lives(void **state)
{
    (void)state;
    run_fibers(close_one_of_two_copies, NULL, NULL);
}

/* ---- connections ---- */

/* Names are free ports of 127.0.0.1; backlog < 0: bound but not listening. */
static int bound_socket(struct sockaddr_in *ret_name, int backlog)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof name;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&name, size) == 0);
    CHECK(backlog < 0 || listen(fd, backlog) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&name, &size) == 0);
    *ret_name = name;
    return fd;
}

static int connect_to(struct fiber_io *io, const struct sockaddr_in *name, int64_t deadline_us)
{
    return fiber_connect(io, (const struct sockaddr *)name, sizeof *name, deadline_us);
}

static void connect_to_nobody(void *argument)
{
    (void)argument;
    struct sockaddr_in name;
    struct fiber_io io;
    int fd = bound_socket(&name, -1);
    CHECK(connect_to(&io, &name, CLOCK_NEVER) == -ECONNREFUSED);
    CHECK(io.fd == -1);
    close(fd);
}

static void test_a_refused_connection_is_told_and_leaves_nothing_open(void **state)
{
    (void)state;
    run_fibers(connect_to_nobody, NULL, NULL);
}

/* A full queue of a listener makes the kernel drop what would open a connection. */
static void connect_to_a_full_queue(void *argument)
{
    (void)argument;
    struct sockaddr_in name;
    struct fiber_io io[4];
    int fd = bound_socket(&name, 0), n = 0, result = 0;
    while (n < 4 && (result = connect_to(&io[n], &name, clock_boot_us() + 20000)) == 0)
        n++;
    CHECK(result == -ETIMEDOUT && io[n].fd == -1);
    while (n > 0)
        fiber_io_close(&io[--n]);
    close(fd);
}

static void test_a_connection_that_nobody_answers_ends_at_its_deadline(void **state)
{
    (void)state;
    run_fibers(connect_to_a_full_queue, NULL, NULL);
}

struct meeting {
    struct sockaddr_in name;
    struct fiber_io client;
    in_port_t client_port;
    bool hung_up;
};

static void connect_and_reset(void *argument)
{
    struct meeting *meeting = argument;
    struct sockaddr_in mine;
    socklen_t size = sizeof mine;
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    CHECK(connect_to(&meeting->client, &meeting->name, CLOCK_NEVER) == 0);
    CHECK(reads_text(&meeting->client, "hello"));
    CHECK(getsockname(meeting->client.fd, (struct sockaddr *)&mine, &size) == 0);
    fiber_yield();
    CHECK(meeting->client_port == mine.sin_port && !meeting->hung_up);
    CHECK(setsockopt(meeting->client.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
    fiber_io_close(&meeting->client);
}

static void accept_and_wait_for_the_end(void *argument)
{
    struct meeting *meeting = argument;
    struct fiber_io listener, io;
    struct sockaddr_storage peer;
    char bytes[8];
    CHECK(fiber_io_open(&listener, bound_socket(&meeting->name, 8)));
    CHECK(fiber_accept(&listener, NULL, clock_boot_us()) == -ETIMEDOUT);
    CHECK(fiber_spawn(loop_current(), "client", connect_and_reset, meeting));
    int fd = fiber_accept(&listener, &peer, CLOCK_NEVER);
    CHECK(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
    meeting->client_port = ((struct sockaddr_in *)&peer)->sin_port;
    CHECK(fiber_io_open(&io, fd));
    CHECK(write_text(&io, "hello") == 0);
    CHECK(wait_for(&io, FIBER_HANGUP, CLOCK_NEVER) == FIBER_READY);
    meeting->hung_up = io.hung_up;
    CHECK(fiber_read(&io, bytes, sizeof bytes, CLOCK_NEVER) == -ECONNRESET);
    close_pair(&io, &listener);
}

static void test_a_peers_reset_wakes_who_waits_for_the_end(void **state)
{
    (void)state;
    struct meeting meeting = {0};
    run_fibers(accept_and_wait_for_the_end, NULL, &meeting);
    assert_true(meeting.hung_up);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_megabyte_comes_back_whole_through_small_buffers),
        cmocka_unit_test(test_after_a_short_read_new_bytes_make_readable_again),
        cmocka_unit_test(test_an_end_of_stream_behind_bytes_is_read_whenever_it_was_noticed),
        cmocka_unit_test(test_a_read_ends_at_its_deadline),
        cmocka_unit_test(test_a_write_that_ends_at_its_deadline_tells_what_the_kernel_took),
        cmocka_unit_test(test_a_write_to_a_closed_peer_fails_without_a_signal),
        cmocka_unit_test(test_pipes_are_read_and_written_like_sockets),
        cmocka_unit_test(test_a_wait_for_two_ends_with_what_either_asked_for),
        cmocka_unit_test(test_a_wake_during_a_read_is_left_to_the_next_wait),
        cmocka_unit_test(test_a_socket_that_never_runs_dry_does_not_starve_other_fibers),
        cmocka_unit_test(test_a_closed_descriptor_is_watched_no_longer_even_if_a_copy_lives),
        cmocka_unit_test(test_a_refused_connection_is_told_and_leaves_nothing_open),
        cmocka_unit_test(test_a_connection_that_nobody_answers_ends_at_its_deadline),
        cmocka_unit_test(test_a_peers_reset_wakes_who_waits_for_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
