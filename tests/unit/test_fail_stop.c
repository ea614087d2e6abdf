/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/errors.h"
#include "daemon/fail_stop.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define RING ((size_t)64 * 1024)

/* In a child whose stderr is the pipe: a line in the log, and then the store fails. */
static void stop_with(int error)
{
    alarm(60);
    dup2(error, STDERR_FILENO);
    struct log *log = log_new(STDERR_FILENO, RING);
    log_write(log, SLICE("a line that was not written yet"));
    fail_stop(&log, "no disk");
    abort();
}

static int wait_for(pid_t child)
{
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void the_log_is_written_before_the_last_word(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0)
        stop_with(ends[1]);
    close(ends[1]);
    assert_int_equal(wait_for(child), EXIT_FAIL_STOP);
    char text[4096] = {0};
    size_t n = 0;
    ssize_t got;
    while ((got = read(ends[0], text + n, sizeof text - 1 - n)) > 0)
        n += (size_t)got;
    close(ends[0]);
    assert_string_equal(text, "a line that was not written yet\n"
                              "pawl: the store failed, stopping: no disk\n");
}

/* found: D-B7 */
static void a_store_that_fails_ends_the_process_though_nobody_reads_its_stderr(void **state)
{
    (void)state;
    int ends[2];
    char page[4096] = {0};
    assert_int_equal(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
    while (write(ends[1], page, sizeof page) > 0)
        ;
    fcntl(ends[1], F_SETFL, 0);
    pid_t child = fork();
    if (child == 0)
        stop_with(ends[1]);
    assert_int_equal(wait_for(child), EXIT_FAIL_STOP);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_log_is_written_before_the_last_word),
        cmocka_unit_test(a_store_that_fails_ends_the_process_though_nobody_reads_its_stderr),
    };
    return cmocka_run_group_tests_name("fail_stop", tests, NULL, NULL);
}
