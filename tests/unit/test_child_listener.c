/* SPDX-License-Identifier: Apache-2.0 */
/* A child whose output goes to a listener as it comes, and signals from another fiber. */
#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "fiber/child.h"
#include "fiber/fiber.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND CLOCK_US_PER_S
#define SHELL(script) ((const char *const[]){"sh", "-c", (script), NULL})
#define MUCH 1000000

/* ---- a bed: one fiber runs a child and listens, a second one meddles ---- */

struct bed {
    struct child_listener listener; /* first: the two are cast into each other */
    struct child_spec spec;
    struct child_result result;
    struct parker *parker;  /* the fiber that runs the child */
    struct fiber_io events; /* bytes that the child writes to the FIFO $EVENTS */
    void (*meddle)(struct bed *bed);
    struct buf heard[2];
    struct buf order; /* 1 or 2 for each piece */
    size_t room;      /* bytes that it takes before it is full; SIZE_MAX: any number */
    bool heard_when_full;
    bool ended;
    int error;
    pid_t pid;
};

static char folder[64];
static char fifo[80];

static bool has_exited(const struct bed *bed)
{
    siginfo_t info = {0};
    int options = WEXITED | WNOHANG | WNOWAIT;
    return bed->pid > 0 && waitid(P_PID, (id_t)bed->pid, &info, options) == 0 && info.si_pid != 0;
}

static void hear(struct child_listener *listener, enum child_stream stream, struct slice bytes)
{
    struct bed *bed = (struct bed *)listener;
    bed->heard_when_full |= (bed->room == 0 && !has_exited(bed)) || bytes.len == 0;
    buf_add_slice(&bed->heard[stream], bytes);
    buf_add_char(&bed->order, stream == CHILD_OUTPUT ? '1' : '2');
    if (bed->room != SIZE_MAX)
        bed->room -= bytes.len < bed->room ? bytes.len : bed->room;
}

static bool has_room(struct child_listener *listener)
{
    return ((struct bed *)listener)->room > 0;
}

static void make_room(struct bed *bed, size_t room)
{
    bed->room = room;
    parker_wake(bed->parker);
}

static void run_child(void *argument)
{
    struct bed *bed = argument;
    char *problem = NULL;
    bed->parker = fiber_parker();
    bed->error = child_run(&bed->spec, &bed->result, &problem);
    mem_free(problem);
    bed->ended = true;
}

static void run_meddler(void *argument)
{
    struct bed *bed = argument;
    int fd = open(fifo, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0 && fiber_io_open(&bed->events, fd));
    if (bed->meddle)
        bed->meddle(bed);
    fiber_io_close(&bed->events);
}

static void await_event(struct bed *bed)
{
    char event;
    CHECK(fiber_read(&bed->events, &event, 1, CLOCK_NEVER) == 1);
}

static void run(struct bed *bed, const char *const *argv)
{
    struct loop *loop = loop_new(2);
    bed->listener = (struct child_listener){hear, has_room};
    bed->heard[0] = bed->heard[1] = bed->order = buf_make(SIZE_MAX);
    bed->room = bed->room ? bed->room : SIZE_MAX;
    bed->spec.argv = argv;
    bed->spec.listener = &bed->listener;
    bed->spec.deadline_us = bed->spec.deadline_us ? bed->spec.deadline_us : CLOCK_NEVER;
    bed->spec.grace_us = 1000 * SECOND;
    bed->spec.pid = &bed->pid;
    bed->pid = -1;
    assert_true(loop && fiber_spawn(loop, "child", run_child, bed) &&
                fiber_spawn(loop, "meddler", run_meddler, bed));
    loop_stop(loop);
    loop_run(loop);
    loop_free(loop);
    clock_test_set(0, 0);
    assert_int_equal(bed->pid, 0);
    assert_false(bed->heard_when_full);
}

static void end(struct bed *bed)
{
    for (int i = 0; i < 2; i++)
        buf_fini(&bed->heard[i]);
    buf_fini(&bed->order);
    child_result_fini(&bed->result);
}

static void assert_heard(const struct bed *bed, const char *output, const char *error)
{
    assert_true(slice_eq(buf_slice(&bed->heard[CHILD_OUTPUT]), slice_of(output)));
    assert_true(slice_eq(buf_slice(&bed->heard[CHILD_ERROR]), slice_of(error)));
}

/* ---- what it hears ---- */

static void what_a_child_writes_is_heard_by_stream(void **state)
{
    struct bed bed = {0};
    (void)state;
    run(&bed, SHELL("echo out; echo err >&2; exit 4"));
    assert_heard(&bed, "out\n", "err\n");
    assert_int_equal(bed.result.exit_code, 4);
    assert_int_equal(bed.result.output.bytes.len, 0); /* nothing is kept beside */
    assert_false(bed.result.output.truncated || bed.result.error.truncated);
    end(&bed);
}

static void hear_of_each(struct bed *bed)
{
    static const char wanted[] = "12112";
    int go = open("go", O_RDWR | O_CLOEXEC);
    for (size_t i = 1; i < sizeof wanted; i++) {
        await_event(bed);
        while (bed->order.len < i)
            fiber_sleep_until(clock_boot_us());
        CHECK(memcmp(bed->order.at, wanted, i) == 0);
        CHECK(write(go, "\n", 1) == 1);
    }
    close(go);
}

static void it_is_heard_while_the_child_runs_in_the_order_of_its_writes(void **state)
{
    struct bed bed = {.meddle = hear_of_each};
    (void)state;
    assert_int_equal(chdir(folder), 0);
    run(&bed, SHELL("said() { printf x > $EVENTS; read line < go; }; exec 3<> go; echo a; said;"
                    "echo b >&2; said; echo c; said; echo d; said; echo e >&2; said"));
    assert_heard(&bed, "a\nc\nd\n", "b\ne\n");
    end(&bed);
}

static void a_child_that_writes_nothing_is_not_heard(void **state)
{
    struct bed bed = {0};
    (void)state;
    run(&bed, SHELL("exit 0"));
    assert_heard(&bed, "", "");
    end(&bed);
}

/* ---- room ---- */

/* Again and again some room, once the child has filled what there was. */
static void make_room_often(struct bed *bed)
{
    while (!bed->ended) {
        if (bed->room == 0)
            make_room(bed, 10000);
        fiber_sleep_until(clock_after(clock_boot_us(), CLOCK_US_PER_MS / 10));
    }
}

static void without_room_its_pipe_is_held_back_and_nothing_is_lost(void **state)
{
    struct bed bed = {.meddle = make_room_often, .room = 10000};
    (void)state;
    run(&bed, SHELL("head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2"));
    assert_int_equal(bed.heard[CHILD_OUTPUT].len, MUCH);
    assert_int_equal(bed.heard[CHILD_ERROR].len, MUCH);
    assert_int_equal(bed.result.exit_code, 0);
    assert_false(bed.result.output.truncated || bed.result.error.truncated);
    end(&bed);
}

/* How it ended does not wait for who has no room. */
static void what_a_child_that_has_exited_left_in_its_pipes_is_heard_without_room(void **state)
{
    struct bed bed = {.room = 1};
    (void)state;
    run(&bed, SHELL("printf x; head -c 30000 /dev/zero; echo end >&2"));
    assert_int_equal(bed.heard[CHILD_OUTPUT].len, 30001);
    assert_true(slice_eq(buf_slice(&bed.heard[CHILD_ERROR]), SLICE("end\n")));
    assert_false(bed.result.output.truncated || bed.result.error.truncated);
    end(&bed);
}

static void pass_the_deadline(struct bed *bed)
{
    await_event(bed);
    clock_test_set(0, bed->spec.deadline_us);
    while (bed->pid > 0 && kill(bed->pid, 0) == 0 && bed->room == 0)
        make_room(bed, SIZE_MAX);
}

static void without_room_a_child_meets_its_deadline(void **state)
{
    struct bed bed = {.meddle = pass_the_deadline, .room = 1};
    (void)state;
    bed.spec.deadline_us = clock_after(clock_boot_us(), 1000 * SECOND);
    run(&bed, SHELL("printf x; printf x > $EVENTS; exec cat /dev/zero"));
    assert_true(bed.result.timed_out);
    assert_int_equal(bed.result.signal, SIGTERM);
    end(&bed);
}

static void a_child_that_never_stops_writing_meets_its_deadline(void **state)
{
    struct bed bed = {.meddle = pass_the_deadline};
    (void)state;
    bed.spec.deadline_us = clock_after(clock_boot_us(), 1000 * SECOND);
    run(&bed, SHELL("yes | head -c 1000; echo > $EVENTS; exec yes"));
    assert_true(bed.result.timed_out);
    assert_int_equal(bed.result.signal, SIGTERM);
    assert_true(bed.heard[CHILD_OUTPUT].len >= 1000);
    end(&bed);
}

/* ---- signals, groups ---- */

static void signal_usr1(struct bed *bed)
{
    await_event(bed);
    child_signal(&bed->spec, SIGUSR1);
}

static void a_signal_reaches_the_group_that_a_child_leads(void **state)
{
    struct bed bed = {.meddle = signal_usr1};
    (void)state;
    bed.spec.group = CHILD_GROUP_OWN;
    run(&bed, SHELL("trap 'wait; echo outer; exit 6' USR1;"
                    "sh -c 'trap \"echo inner; exit\" USR1; printf x > $EVENTS;"
                    "while :; do sleep 0.01; done' & while :; do sleep 0.01; done"));
    assert_true(slice_eq(buf_slice(&bed.heard[CHILD_OUTPUT]), SLICE("inner\nouter\n")));
    assert_int_equal(bed.result.exit_code, 6);
    end(&bed);
}

static void in_a_shared_group_a_signal_reaches_the_child_alone(void **state)
{
    struct bed bed = {.meddle = signal_usr1};
    char group[32];
    (void)state;
    bed.spec.group = CHILD_GROUP_SHARED;
    signal(SIGUSR1, SIG_IGN); /* this test is of that group */
    run(&bed, SHELL("trap 'kill $!; wait $!; echo alone; exit 6' USR1;"
                    "cut -d ' ' -f 5 /proc/$$/stat >&2;"
                    "sh -c 'trap \"echo it too\" USR1; trap \"echo ended; exit\" TERM;"
                    "printf x > $EVENTS; while :; do sleep 0.01; done' &"
                    "while :; do sleep 0.01; done"));
    signal(SIGUSR1, SIG_DFL);
    (void)snprintf(group, sizeof group, "%d\n", (int)getpgrp());
    assert_heard(&bed, "ended\nalone\n", group);
    assert_int_equal(bed.result.exit_code, 6);
    end(&bed);
}

/* ---- */

static int make_folder(void **state)
{
    char go[80];
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    (void)snprintf(folder, sizeof folder, "/tmp/pawl-listener-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    (void)snprintf(fifo, sizeof fifo, "%s/events", folder);
    (void)snprintf(go, sizeof go, "%s/go", folder);
    if (mkfifo(fifo, 0600) != 0 || mkfifo(go, 0600) != 0)
        return -1;
    return setenv("EVENTS", fifo, 1);
}

static int remove_folder(void **state)
{
    char go[80];
    (void)state;
    (void)snprintf(go, sizeof go, "%s/go", folder);
    return unlink(fifo) == 0 && unlink(go) == 0 ? rmdir(folder) : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_child_writes_is_heard_by_stream),
        cmocka_unit_test(it_is_heard_while_the_child_runs_in_the_order_of_its_writes),
        cmocka_unit_test(a_child_that_writes_nothing_is_not_heard),
        cmocka_unit_test(without_room_its_pipe_is_held_back_and_nothing_is_lost),
        cmocka_unit_test(what_a_child_that_has_exited_left_in_its_pipes_is_heard_without_room),
        cmocka_unit_test(without_room_a_child_meets_its_deadline),
        cmocka_unit_test(a_child_that_never_stops_writing_meets_its_deadline),
        cmocka_unit_test(a_signal_reaches_the_group_that_a_child_leads),
        cmocka_unit_test(in_a_shared_group_a_signal_reaches_the_child_alone),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
