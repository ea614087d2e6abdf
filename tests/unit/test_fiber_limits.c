/* SPDX-License-Identifier: Apache-2.0 */
/* Fibers at their limits: of number, stack and memory, and a clock that jumps. */
#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "fiber/fiber.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define TEST_CLOCK "PAWL_TEST_CLOCK"

static void run_to_its_end(struct loop *loop)
{
    loop_stop(loop);
    loop_run(loop);
}

static void do_nothing(void *argument)
{
    (void)argument;
}

static void test_a_loop_refuses_one_fiber_more_than_its_limit(void **state)
{
    (void)state;
    struct loop *loop = loop_new(3);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 3; i++)
            assert_true(fiber_spawn(loop, "one", do_nothing, NULL));
        assert_false(fiber_spawn(loop, "more", do_nothing, NULL));
        run_to_its_end(loop);
    }
    loop_free(loop);
}

/* How many of the pages kept what was written. The empty assembly keeps each page whole. */
static int spend_stack(int depth)
{
    char page[1024];
    memset(page, depth, sizeof page);
    __asm__ volatile("" : : "r"(page) : "memory");
    if (depth == 0)
        return 0;
    int intact = spend_stack(depth - 1);
    return intact + (page[7] == (char)depth && page[sizeof page - 7] == (char)depth);
}

static void spend_most_of_the_stack(void *argument)
{
    *(int *)argument = spend_stack(40);
}

static void test_a_fiber_may_use_most_of_its_stack(void **state)
{
    (void)state;
    int intact = 0;
    struct loop *loop = loop_new(1);
    assert_true(fiber_spawn(loop, "deep", spend_most_of_the_stack, &intact));
    run_to_its_end(loop);
    assert_int_equal(intact, 40);
    loop_free(loop);
}

#ifndef PAWL_SANITIZED
static void spend_all_of_the_stack(void *argument)
{
    (void)argument;
    spend_stack(100);
}

static _Noreturn void overrun(int stderr_fd)
{
    dup2(stderr_fd, STDERR_FILENO);
    fiber_install_guard_handler();
    struct loop *loop = loop_new(1);
    CHECK(fiber_spawn(loop, "glutton", spend_all_of_the_stack, NULL));
    run_to_its_end(loop);
    _exit(0);
}

static void test_a_fiber_that_runs_out_of_stack_is_named_and_ends_the_process(void **state)
{
    (void)state;
    int ends[2], status;
    char said[200] = "";
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        overrun(ends[1]);
    close(ends[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    CHECK(read(ends[0], said, sizeof said - 1) >= 0);
    close(ends[0]);
    assert_string_equal(said, "fiber 'glutton' ran out of stack\n");
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}
#endif

#ifdef PAWL_HOOKS
static void test_a_loop_without_memory_is_refused_and_leaves_nothing(void **state)
{
    (void)state;
    int refusals = 0;
    for (long n = 1;; n++) {
        mem_fail_nth(n);
        struct loop *loop = loop_new(1);
        bool spawned = loop != NULL && fiber_spawn(loop, "one", do_nothing, NULL);
        bool fired = mem_fail_fired();
        mem_fail_nth(0);
        if (loop != NULL)
            run_to_its_end(loop);
        loop_free(loop);
        assert_int_equal(spawned, !fired);
        if (!fired)
            break;
        refusals++;
    }
    assert_true(refusals > 0);
}

/* The clock's file is a memfd that survived the exec in main. */
static void move_clock(int64_t offset_us)
{
    long fd = strtol(strrchr(getenv(TEST_CLOCK), '/') + 1, NULL, 10);
    CHECK(pwrite((int)fd, &offset_us, sizeof offset_us, 0) == sizeof offset_us);
}

static void move_clock_later(void *argument)
{
    (void)argument;
    usleep(1000);
    move_clock(2 * 3600 * CLOCK_US_PER_S);
}

static void sleep_an_hour(void *argument)
{
    struct thread thread;
    int64_t in_an_hour_us = clock_after(clock_boot_us(), 3600 * CLOCK_US_PER_S);
    CHECK(thread_start(&thread, "mover", move_clock_later, NULL));
    fiber_sleep_until(in_an_hour_us);
    thread_join(&thread);
    *(bool *)argument = true;
}

static void test_a_clock_moved_by_a_test_ends_a_sleep(void **state)
{
    (void)state;
    bool slept = false;
    struct loop *loop = loop_new(1);
    assert_true(fiber_spawn(loop, "hour", sleep_an_hour, &slept));
    run_to_its_end(loop);
    assert_true(slept);
    loop_free(loop);
    move_clock(0);
}

/* The clock is read before main: start again with one of our own. */
static void restart_with_test_clock(char **arguments)
{
    if (getenv(TEST_CLOCK) != NULL)
        return;
    char path[32];
    int fd = memfd_create("clock", 0);
    CHECK(fd >= 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    CHECK(setenv(TEST_CLOCK, path, 1) == 0);
    move_clock(0);
    execv("/proc/self/exe", arguments);
    UNREACHABLE();
}
#endif

int main(int n, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_loop_refuses_one_fiber_more_than_its_limit),
        cmocka_unit_test(test_a_fiber_may_use_most_of_its_stack),
#ifndef PAWL_SANITIZED
        cmocka_unit_test(test_a_fiber_that_runs_out_of_stack_is_named_and_ends_the_process),
#endif
#ifdef PAWL_HOOKS
        cmocka_unit_test(test_a_loop_without_memory_is_refused_and_leaves_nothing),
        cmocka_unit_test(test_a_clock_moved_by_a_test_ends_a_sleep),
#endif
    };
    (void)n, (void)arguments;
#ifdef PAWL_HOOKS
    restart_with_test_clock(arguments);
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
