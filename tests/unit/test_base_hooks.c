/* SPDX-License-Identifier: Apache-2.0 */
/* What builds with hooks read from the environment before main: the test clock and crash points.
 * Each case runs this program again with the variables set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/crash.h"
#include "base/park.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HOUR_US (INT64_C(3600) * CLOCK_US_PER_S)

/* ---- what the program run again does ---- */

static int child_passes(void)
{
    CRASH_POINT(before_begin);
    CRASH_POINT(after_commit);
    CRASH_POINT(after_commit);
    CRASH_POINT(after_commit);
    return 7;
}

static int64_t real_us(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * CLOCK_US_PER_S + now.tv_nsec / 1000;
}

/* The hour that both clocks are ahead by, or -1. */
static int64_t hours_ahead(void)
{
    int64_t wall = (clock_wall_us() - real_us(CLOCK_REALTIME) + HOUR_US / 2) / HOUR_US;
    int64_t boot = (clock_boot_us() - real_us(CLOCK_BOOTTIME) + HOUR_US / 2) / HOUR_US;
    return wall == boot ? wall : -1;
}

static void clock_move(int64_t offset_us)
{
    int fd = open(getenv("PAWL_TEST_CLOCK"), O_WRONLY);
    if (fd < 0 || pwrite(fd, &offset_us, sizeof(offset_us), 0) != sizeof(offset_us))
        abort();
    close(fd);
}

static void move_past_the_deadline(void *unused)
{
    (void)unused;
    clock_move(5 * HOUR_US);
}

static int child_reads_clock(void)
{
    struct thread_parker own;
    struct thread thread;
    if (hours_ahead() != 2)
        return 1;
    clock_move(3 * HOUR_US);
    if (hours_ahead() != 3)
        return 2;
    thread_parker_init(&own);
    int64_t deadline_us = clock_boot_us() + HOUR_US;
    if (!thread_start(&thread, "mover", move_past_the_deadline, NULL))
        return 3;
    bool woken = own.parker.park(&own.parker, deadline_us);
    thread_join(&thread);
    thread_parker_fini(&own);
    return woken ? 4 : 7;
}

/* ---- the tests ---- */

/* Runs this program again; it stays stopped for the caller when it stops. */
static pid_t run_again(const char *task, const char *variable, const char *value, int *ret_status)
{
    pid_t pid = fork();
    if (pid == 0) {
        char *const arguments[] = {(char *)(uintptr_t) "test", (char *)(uintptr_t)task, NULL};
        setenv(variable, value, 1);
        if (!freopen("/dev/null", "w", stderr))
            _exit(120);
        execv("/proc/self/exe", arguments);
        _exit(121);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, ret_status, WUNTRACED), pid);
    return pid;
}

static void without_the_variables_nothing_happens(void **state)
{
    int status;
    (void)state;
    run_again("passes", "PAWL_UNUSED", "1", &status);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    assert_int_equal(hours_ahead(), 0);
}

static void a_crash_point_kills_at_the_named_pass(void **state)
{
    int status;
    (void)state;
    run_again("passes", "PAWL_CRASH_AT", "before_begin", &status);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    run_again("passes", "PAWL_CRASH_AT", "after_commit:3", &status);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    run_again("passes", "PAWL_CRASH_AT", "after_commit:4", &status);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    run_again("passes", "PAWL_CRASH_AT", "inside_sweep", &status);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static void a_stop_point_stops_once_and_goes_on(void **state)
{
    int status;
    (void)state;
    pid_t pid = run_again("passes", "PAWL_STOP_AT", "after_commit:2", &status);
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    assert_int_equal(kill(pid, SIGCONT), 0);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static void a_misspelt_crash_point_ends_the_program_at_start(void **state)
{
    static const char *const bad[] = {"after_comit", "", "after_commit:", "after_commit:0",
                                      "after_commit:x"};
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int status;
        run_again("passes", "PAWL_CRASH_AT", bad[i], &status);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
}

static void the_test_clock_moves_both_clocks_and_whoever_is_parked(void **state)
{
    char path[] = "/tmp/pawl-clock-XXXXXX";
    int64_t offset_us = 2 * HOUR_US;
    int status;
    (void)state;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, &offset_us, sizeof(offset_us)), sizeof(offset_us));
    close(fd);
    run_again("clock", "PAWL_TEST_CLOCK", path, &status);
    unlink(path);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_the_variables_nothing_happens),
        cmocka_unit_test(a_crash_point_kills_at_the_named_pass),
        cmocka_unit_test(a_stop_point_stops_once_and_goes_on),
        cmocka_unit_test(a_misspelt_crash_point_ends_the_program_at_start),
        cmocka_unit_test(the_test_clock_moves_both_clocks_and_whoever_is_parked),
    };
    if (argc > 1)
        return strcmp(argv[1], "clock") == 0 ? child_reads_clock() : child_passes();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
