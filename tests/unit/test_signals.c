/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "job/signals.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include <cmocka.h>

static void note_signal(void *argument, int number, bool from_terminal)
{
    struct signals *signals = argument;
    assert_int_equal(number, SIGTERM);
    assert_false(from_terminal);
    signals_end(signals);
}

static void a_signal_is_read(void **state)
{
    (void)state;
    struct loop *loop = loop_new(1);
    struct signals signals = {.got = note_signal, .argument = &signals};
    signals_hold_back();
    assert_true(signals_watch(loop, &signals));
    assert_int_equal(raise(SIGTERM), 0);
    loop_stop(loop);
    loop_run(loop);
    assert_true(signals.ends);
    loop_free(loop);
    signals_let_go();
}

static void without_a_descriptor_it_is_told_before_anything_runs(void **state)
{
    (void)state;
    struct loop *loop = loop_new(1);
    struct signals signals = {.got = note_signal, .argument = &signals};
    struct rlimit as_it_was, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &as_it_was), 0);
    none = as_it_was;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    bool watches = signals_watch(loop, &signals);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &as_it_was), 0);
    assert_false(watches);
    loop_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signal_is_read),
        cmocka_unit_test(without_a_descriptor_it_is_told_before_anything_runs),
    };
    return cmocka_run_group_tests_name("signals", tests, NULL, NULL);
}
