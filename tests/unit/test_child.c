/* SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "fiber/child.h"
#include "fiber/fiber.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MEGABYTE ((size_t)1 << 20)
#define SECOND CLOCK_US_PER_S
#define SHELL(script) ((const char *const[]){"sh", "-c", (script), NULL})

/* ---- a bed: one fiber runs a child, a second one may meddle ---- */

struct bed {
    struct child_spec spec;
    struct child_result result;
    bool started;
    bool ended;
    char *problem;
    void (*meddle)(struct bed *bed);
    char group[32];         /* of the child, as it wrote it */
    struct fiber_io events; /* lines that the child writes to the FIFO $EVENTS */
};

static char folder[64];
static char fifo[80];

static void run_child(void *argument)
{
    struct bed *bed = argument;
    bed->started = child_run(&bed->spec, &bed->result, &bed->problem) == 0;
    bed->ended = true;
}

static void run_meddler(void *argument)
{
    struct bed *bed = argument;
    int fd = open(fifo, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0 && fiber_io_open(&bed->events, fd));
    bed->meddle(bed);
    fiber_io_close(&bed->events);
}

static void await_event(struct bed *bed)
{
    char event;
    CHECK(fiber_read(&bed->events, &event, 1, CLOCK_NEVER) == 1);
}

static struct bed bed_of(const char *const *argv)
{
    return (struct bed){
        .spec = {.argv = argv,
                 .output_max = MEGABYTE,
                 .deadline_us = CLOCK_NEVER,
                 .grace_us = 1000 * SECOND},
    };
}

static void run_to_the_end(struct bed *bed)
{
    struct loop *loop = loop_new(2);
    assert_non_null(loop);
    assert_true(fiber_spawn(loop, "child", run_child, bed));
    if (bed->meddle)
        assert_true(fiber_spawn(loop, "meddler", run_meddler, bed));
    loop_stop(loop);
    loop_run(loop);
    loop_free(loop);
}

static size_t count_descriptors(void)
{
    size_t n = 0;
    DIR *open = opendir("/proc/self/fd");
    assert_non_null(open);
    while (readdir(open))
        n++;
    closedir(open);
    return n;
}

/* Runs it, and sees that nothing of it is left. */
static void run(struct bed *bed)
{
    size_t before = count_descriptors();
    run_to_the_end(bed);
    assert_int_equal(count_descriptors(), before);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    clock_test_set(0, 0);
}

static void assert_exited(const struct bed *bed, int code)
{
    assert_true(bed->started);
    assert_int_equal(bed->result.signal, 0);
    assert_int_equal(bed->result.exit_code, code);
}

static void assert_printed(const struct child_output *output, const char *text)
{
    if (!slice_eq(buf_slice(&output->bytes), slice_of(text)))
        fail_msg("%.*s", SLICE_ARG(buf_slice(&output->bytes)));
    assert_false(output->truncated);
}

/* ---- ends ---- */

static void an_exit_code_comes_back(void **state)
{
    struct bed bed = bed_of(SHELL("exit 7"));
    (void)state;
    run(&bed);
    assert_exited(&bed, 7);
    assert_false(bed.result.timed_out);
    child_result_fini(&bed.result);
}

static void a_signal_is_no_exit_code(void **state)
{
    struct bed bed = bed_of(SHELL("kill -9 $$"));
    (void)state;
    run(&bed);
    assert_true(bed.started);
    assert_int_equal(bed.result.signal, SIGKILL);
    assert_int_equal(bed.result.exit_code, -1);
    assert_false(bed.result.timed_out);
    child_result_fini(&bed.result);
}

static void an_exit_code_comes_back_also_where_sigchld_was_ignored(void **state)
{
    struct bed bed = bed_of(SHELL("exit 7"));
    (void)state;
    signal(SIGCHLD, SIG_IGN);
    run(&bed);
    assert_exited(&bed, 7);
    child_result_fini(&bed.result);
}

static void assert_not_started(struct bed *bed, const char *problem)
{
    run(bed);
    assert_false(bed->started);
    assert_string_equal(bed->problem, problem);
    mem_free(bed->problem);
}

static void what_cannot_be_started_is_told_in_the_systems_words(void **state)
{
    struct bed absent = bed_of((const char *const[]){"no-such-command", NULL});
    struct bed plain = bed_of((const char *const[]){"/etc/passwd", NULL});
    struct bed nowhere = bed_of(SHELL("exit 0"));
    nowhere.spec.folder = "/no/such/folder";
    (void)state;
    assert_not_started(&absent, "cannot run no-such-command: No such file or directory");
    assert_not_started(&plain, "cannot run /etc/passwd: Permission denied");
    assert_not_started(&nowhere, "cannot enter /no/such/folder: No such file or directory");
}

static void without_descriptors_nothing_is_started(void **state)
{
    struct bed bed = bed_of(SHELL("exit 0"));
    struct rlimit before, low;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct loop *loop = loop_new(1);
    assert_true(fiber_spawn(loop, "child", run_child, &bed));
    low = before;
    int lowest = dup(STDIN_FILENO);
    close(lowest);
    low.rlim_cur = (rlim_t)lowest + 3; /* one pipe, not two */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    loop_stop(loop);
    loop_run(loop);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    loop_free(loop);
    assert_false(bed.started);
    assert_string_equal(bed.problem, "cannot run sh: Too many open files");
    mem_free(bed.problem);
}

static void restore_limit(void *before)
{
    CHECK(setrlimit(RLIMIT_NOFILE, before) == 0);
}

static void a_child_that_no_descriptor_is_left_to_watch_by_is_not_lost(void **state)
{
    struct bed bed = bed_of(SHELL("exit 8"));
    struct rlimit before, low;
    (void)state;
    bed.spec.input = CHILD_INPUT_INHERIT;
    bed.spec.output_max = 0;
    struct loop *loop = loop_new(2);
    assert_true(fiber_spawn(loop, "child", run_child, &bed));
    assert_true(fiber_spawn(loop, "limit", restore_limit, &before));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = before;
    int lowest = dup(STDIN_FILENO);
    close(lowest);
    low.rlim_cur = (rlim_t)lowest;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    loop_stop(loop);
    loop_run(loop);
    loop_free(loop);
    assert_exited(&bed, 8);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    child_result_fini(&bed.result);
}

/* ---- what a child gets ---- */

static void a_child_gets_its_arguments_environment_and_folder(void **state)
{
    struct bed bed = bed_of((const char *const[]){
        "sh", "-c", "pwd; echo \"$1\"; tr '\\0' ' ' </proc/$$/environ", "sh", "two words", NULL});
    bed.spec.environment = (const char *const[]){"WORD=a", "PATH=/usr/bin:/bin", NULL};
    bed.spec.folder = "/usr/bin";
    bed.spec.program = "./sh";
    (void)state;
    run(&bed);
    assert_exited(&bed, 0);
    assert_printed(&bed.result.output, "/usr/bin\ntwo words\nWORD=a PATH=/usr/bin:/bin ");
    child_result_fini(&bed.result);
}

static void a_child_has_no_descriptor_but_its_streams(void **state)
{
    struct bed bed = bed_of((const char *const[]){"ls", "/proc/self/fd", NULL});
    (void)state;
    for (int fd = 3; fd < 1024; fd++) /* what this test was given itself */
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    int kept = open("/dev/null", O_RDONLY | O_CLOEXEC);
    run(&bed);
    assert_exited(&bed, 0);
    assert_printed(&bed.result.output, "0\n1\n2\n3\n"); /* 3: the folder */
    child_result_fini(&bed.result);
    close(kept);
}

static void streams_arrive_also_where_this_process_has_none(void **state)
{
    struct bed bed = bed_of(SHELL("cat; echo error >&2"));
    bed.spec.input = CHILD_INPUT_BYTES;
    bed.spec.bytes = SLICE("given");
    int kept[3];
    (void)state;
    for (int i = 0; i < 3; i++)
        kept[i] = fcntl(i, F_DUPFD_CLOEXEC, 10);
    for (int i = 0; i < 3; i++)
        close(i);
    run_to_the_end(&bed);
    for (int i = 0; i < 3; i++) {
        dup2(kept[i], i);
        close(kept[i]);
    }
    assert_exited(&bed, 0);
    assert_printed(&bed.result.output, "given");
    assert_printed(&bed.result.error, "error\n");
    child_result_fini(&bed.result);
}

static unsigned long long number_of(const struct bed *bed, const char *name, int base)
{
    char *text = mem_copy(bed->result.output.bytes.at, bed->result.output.bytes.len);
    const char *found = strstr(text, name);
    assert_non_null(found);
    unsigned long long number = strtoull(found + strlen(name), NULL, base);
    mem_free(text);
    return number;
}

static void a_child_begins_with_default_signals_and_a_group_of_its_own(void **state)
{
    struct bed bed = bed_of((const char *const[]){"cat", "/proc/self/status", NULL});
    sigset_t usr1, before;
    (void)state;
    for (int number = SIGHUP; number <= SIGQUIT; number++) /* ignored ones stay so */
        signal(number, SIG_DFL);
    signal(SIGUSR2, SIG_IGN);
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr1, &before);
    run(&bed);
    sigprocmask(SIG_SETMASK, &before, NULL);
    signal(SIGUSR2, SIG_DFL);
    assert_exited(&bed, 0);
    assert_int_equal(number_of(&bed, "SigBlk:", 16), 0);
    assert_int_equal(number_of(&bed, "SigIgn:", 16) & 0x7fffffff, 0); /* 32, 33: the C library's */
    assert_int_equal(number_of(&bed, "NSpgid:", 10), number_of(&bed, "\nPid:", 10));
    child_result_fini(&bed.result);
}

static void without_input_a_child_reads_the_end_at_once(void **state)
{
    struct bed bed = bed_of(SHELL("readlink /proc/$$/fd/0; cat"));
    (void)state;
    run(&bed);
    assert_exited(&bed, 0);
    assert_printed(&bed.result.output, "/dev/null\n");
    child_result_fini(&bed.result);
}

static void a_child_may_have_this_process_s_own_streams(void **state)
{
    struct bed bed = bed_of(SHELL("cat; echo error >&2"));
    bed.spec.input = CHILD_INPUT_INHERIT;
    bed.spec.output_max = 0;
    int ends[2], kept[3];
    char got[32] = "";
    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    for (int i = 0; i < 3; i++)
        kept[i] = fcntl(i, F_DUPFD_CLOEXEC, 10);
    int given = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(given, 0);
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    run_to_the_end(&bed);
    for (int i = 0; i < 3; i++) {
        dup2(kept[i], i);
        close(kept[i]);
    }
    assert_exited(&bed, 0);
    assert_int_equal(read(ends[0], got, sizeof got - 1), strlen("error\n"));
    assert_string_equal(got, "error\n");
    close(given);
    close(ends[0]);
    close(ends[1]);
    child_result_fini(&bed.result);
}

/* ---- streams ---- */

static void much_output_on_both_streams_comes_whole(void **state)
{
    struct bed bed = bed_of(SHELL("head -c 500000 /dev/zero >&2; head -c 600000 /dev/zero & "
                                  "head -c 400000 /dev/zero >&2; wait"));
    (void)state;
    run(&bed);
    assert_exited(&bed, 0);
    assert_int_equal(bed.result.output.bytes.len, 600000);
    assert_int_equal(bed.result.error.bytes.len, 900000);
    assert_false(bed.result.output.truncated || bed.result.error.truncated);
    child_result_fini(&bed.result);
}

static void output_beyond_the_limit_is_dropped_and_said(void **state)
{
    struct bed bed = bed_of(SHELL("head -c 300000 /dev/zero; printf 12345 >&2; exit 3"));
    bed.spec.output_max = 5;
    (void)state;
    run(&bed);
    assert_exited(&bed, 3);
    assert_int_equal(bed.result.output.bytes.len, 5);
    assert_true(bed.result.output.truncated);
    assert_printed(&bed.result.error, "12345");
    child_result_fini(&bed.result);
}

static void a_child_that_closes_its_output_early_is_waited_for(void **state)
{
    struct bed bed = bed_of(SHELL("echo first; exec >&- 2>&-; read line; exit $line"));
    bed.spec.input = CHILD_INPUT_BYTES;
    bed.spec.bytes = SLICE("9\n");
    (void)state;
    run(&bed);
    assert_exited(&bed, 9);
    assert_printed(&bed.result.output, "first\n");
    child_result_fini(&bed.result);
}

static void input_larger_than_a_pipe_goes_through_a_child(void **state)
{
    struct bed bed = bed_of((const char *const[]){"cat", NULL});
    char *bytes = mem_alloc(MEGABYTE);
    (void)state;
    for (size_t i = 0; i < MEGABYTE; i++)
        bytes[i] = (char)(i % 251);
    bed.spec.input = CHILD_INPUT_BYTES;
    bed.spec.bytes = slice_make(bytes, MEGABYTE);
    run(&bed);
    assert_exited(&bed, 0);
    assert_true(slice_eq(buf_slice(&bed.result.output.bytes), bed.spec.bytes));
    assert_false(bed.result.output.truncated);
    child_result_fini(&bed.result);
    mem_free(bytes);
}

static void input_that_is_not_read_is_no_error(void **state)
{
    struct bed bed = bed_of(SHELL("exec <&-; exit 4"));
    char *bytes = mem_zalloc(1, MEGABYTE);
    (void)state;
    bed.spec.input = CHILD_INPUT_BYTES;
    bed.spec.bytes = slice_make(bytes, MEGABYTE);
    run(&bed);
    assert_exited(&bed, 4);
    child_result_fini(&bed.result);
    mem_free(bytes);
}

static void empty_input_is_the_end_at_once(void **state)
{
    struct bed bed = bed_of(SHELL("cat; echo done"));
    bed.spec.input = CHILD_INPUT_BYTES;
    (void)state;
    run(&bed);
    assert_exited(&bed, 0);
    assert_printed(&bed.result.output, "done\n");
    child_result_fini(&bed.result);
}

/* ---- time ---- */

static void pass_the_deadline(struct bed *bed)
{
    await_event(bed);
    clock_test_set(0, bed->spec.deadline_us);
}

static struct bed late_bed(const char *script, void (*meddle)(struct bed *))
{
    static const char *argv[] = {"sh", "-c", NULL, NULL};
    argv[2] = script;
    struct bed bed = bed_of(argv);
    bed.spec.deadline_us = clock_after(clock_boot_us(), 1000 * SECOND);
    bed.meddle = meddle;
    return bed;
}

static void at_the_deadline_a_child_is_terminated(void **state)
{
    struct bed bed = late_bed("echo > $EVENTS; exec sleep 1000", pass_the_deadline);
    (void)state;
    run(&bed);
    assert_true(bed.result.timed_out);
    assert_int_equal(bed.result.signal, SIGTERM);
    child_result_fini(&bed.result);
}

static void what_a_child_makes_of_its_end_is_told(void **state)
{
    struct bed bed =
        late_bed("trap 'echo last; exit 5' TERM; echo > $EVENTS; while :; do sleep 0.01; done",
                 pass_the_deadline);
    (void)state;
    run(&bed);
    assert_exited(&bed, 5);
    assert_true(bed.result.timed_out);
    assert_printed(&bed.result.output, "last\n");
    child_result_fini(&bed.result);
}

static void pass_deadline_and_grace(struct bed *bed)
{
    pass_the_deadline(bed);
    await_event(bed);
    clock_test_set(0, bed->spec.deadline_us + bed->spec.grace_us);
}

static void a_child_that_ignores_its_end_is_killed_with_its_group(void **state)
{
    struct bed bed = late_bed("trap 'echo > $EVENTS' TERM; echo > $EVENTS; "
                              "while :; do sleep 1000 & wait; done",
                              pass_deadline_and_grace);
    (void)state;
    run(&bed);
    assert_true(bed.result.timed_out);
    assert_int_equal(bed.result.signal, SIGKILL);
    assert_false(bed.result.output.truncated); /* nobody of the group holds it any more */
    child_result_fini(&bed.result);
}

static void a_child_that_never_stops_writing_meets_its_deadline(void **state)
{
    struct bed bed = late_bed("yes | head -c 1000; echo > $EVENTS; exec yes", pass_the_deadline);
    bed.spec.output_max = 100;
    (void)state;
    run(&bed);
    assert_true(bed.result.timed_out);
    assert_int_equal(bed.result.signal, SIGTERM);
    assert_int_equal(bed.result.output.bytes.len, 100);
    assert_true(bed.result.output.truncated);
    child_result_fini(&bed.result);
}

/* How often does not matter: the grace counts from the exit. */
static void pass_graces(struct bed *bed)
{
    while (!bed->ended) {
        clock_test_set(0, clock_boot_us() + bed->spec.grace_us);
        fiber_sleep_until(clock_boot_us());
    }
    bed->group[fiber_read(&bed->events, bed->group, sizeof bed->group - 1, CLOCK_NEVER)] = '\0';
}

static void streams_that_a_grandchild_holds_open_are_left_after_the_grace(void **state)
{
    struct bed bed = bed_of(SHELL("echo said; sleep 1000 & echo $$ > $EVENTS; exit 6"));
    bed.meddle = pass_graces;
    (void)state;
    run(&bed);
    assert_exited(&bed, 6);
    assert_false(bed.result.timed_out);
    assert_true(slice_eq(buf_slice(&bed.result.output.bytes), SLICE("said\n")));
    assert_true(bed.result.output.truncated && bed.result.error.truncated);
    assert_int_equal(kill(-(pid_t)strtol(bed.group, NULL, 10), SIGKILL), 0); /* it was let live */
    child_result_fini(&bed.result);
}

/* ---- detached ---- */

static void a_detached_child_leads_a_session_of_its_own(void **state)
{
    struct child_spec spec = {.argv = SHELL("cut -d ' ' -f 6 /proc/$$/stat > $EVENTS"),
                              .group = CHILD_GROUP_SESSION};
    char *problem = NULL;
    char session[32] = "";
    (void)state;
    int events = open(fifo, O_RDWR | O_CLOEXEC);
    assert_true(child_spawn_detached(&spec, &problem));
    pid_t pid = wait(NULL); /* this test's own */
    assert_true(read(events, session, sizeof session - 1) > 0);
    assert_int_equal(strtol(session, NULL, 10), pid);
    close(events);
    spec.argv = (const char *const[]){"no-such-command", NULL};
    assert_false(child_spawn_detached(&spec, &problem));
    assert_string_equal(problem, "cannot run no-such-command: No such file or directory");
    mem_free(problem);
}

/* ---- */

static int make_fifo(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    snprintf(folder, sizeof folder, "/tmp/pawl-child-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(fifo, sizeof fifo, "%s/events", folder);
    return mkfifo(fifo, 0600) == 0 ? setenv("EVENTS", fifo, 1) : -1;
}

static int remove_fifo(void **state)
{
    (void)state;
    return unlink(fifo) == 0 ? rmdir(folder) : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exit_code_comes_back),
        cmocka_unit_test(a_signal_is_no_exit_code),
        cmocka_unit_test(an_exit_code_comes_back_also_where_sigchld_was_ignored),
        cmocka_unit_test(what_cannot_be_started_is_told_in_the_systems_words),
        cmocka_unit_test(without_descriptors_nothing_is_started),
        cmocka_unit_test(a_child_that_no_descriptor_is_left_to_watch_by_is_not_lost),
        cmocka_unit_test(a_child_gets_its_arguments_environment_and_folder),
        cmocka_unit_test(a_child_has_no_descriptor_but_its_streams),
        cmocka_unit_test(streams_arrive_also_where_this_process_has_none),
        cmocka_unit_test(a_child_begins_with_default_signals_and_a_group_of_its_own),
        cmocka_unit_test(without_input_a_child_reads_the_end_at_once),
        cmocka_unit_test(a_child_may_have_this_process_s_own_streams),
        cmocka_unit_test(much_output_on_both_streams_comes_whole),
        cmocka_unit_test(output_beyond_the_limit_is_dropped_and_said),
        cmocka_unit_test(a_child_that_closes_its_output_early_is_waited_for),
        cmocka_unit_test(input_larger_than_a_pipe_goes_through_a_child),
        cmocka_unit_test(input_that_is_not_read_is_no_error),
        cmocka_unit_test(empty_input_is_the_end_at_once),
        cmocka_unit_test(at_the_deadline_a_child_is_terminated),
        cmocka_unit_test(what_a_child_makes_of_its_end_is_told),
        cmocka_unit_test(a_child_that_ignores_its_end_is_killed_with_its_group),
        cmocka_unit_test(a_child_that_never_stops_writing_meets_its_deadline),
        cmocka_unit_test(streams_that_a_grandchild_holds_open_are_left_after_the_grace),
        cmocka_unit_test(a_detached_child_leads_a_session_of_its_own),
    };
    return cmocka_run_group_tests(tests, make_fifo, remove_fifo);
}
