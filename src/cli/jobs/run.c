/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl run`: a command, run once per key (src/job, src/runner). */
#include "base/check.h"
#include "base/mem.h"
#include "base/time/timestamp.h"
#include "cli/jobs/jobs.h"
#include "cli/lib/again.h"
#include "fiber/fiber.h"
#include "job/signals.h"
#include "operator/keys.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define NAME "run"
#define INPUT_MAX ((size_t)64 * 1024 * 1024) /* of --payload */
#define TEXT_MAX ((size_t)4096)
#define FIBERS 2

struct run {
    struct jobs_options options;
    const char *payload;
    const char *reason;
    bool again;
    bool verbose;

    struct buf input; /* of --payload */
    struct digest compared;
    struct runner_gate gate;
    struct job_parker parker;
    struct loop *loop;    /* has ended; freed once no thread is left that wakes its fibers */
    struct parker *waits; /* the runner's fiber */
    struct signals signals;
    struct job job;
    enum runner_result result;
    int signal;     /* that stopped it; 0: none */
    bool passed_on; /* it came while the command ran, whose end it may be */
};

/* ---- what is said ---- */

static void add_signal(int number, struct buf *line)
{
    const char *name = sigabbrev_np(number); /* NULL: one without a name of its own */
    buf_printf(line, "ended by signal %d%s%s%s", number, name ? " (" : "", name ? name : "",
               name ? ")" : "");
}

static void add_ending(const struct run *run, struct buf *line)
{
    const struct process *process = &run->job.process;
    if (process->problem)
        buf_add_str(line, process->problem);
    else if (process->timed_out)
        jobs_add_timeout(&run->options, line);
    else if (process->signal > 0)
        add_signal(process->signal, line);
    else
        buf_printf(line, "exit code %d", process->exit_code);
}

/* After each attempt that failed, where more are made. */
static void report_run(void *argument, const struct runner_report *report)
{
    const struct run *run = argument;
    BUF_AUTO struct buf line = buf_make(TEXT_MAX);
    if (report->end->class < RETRY_LATER || report->next.end != RETRY_GOES_ON || run->gate.closed)
        return;
    add_ending(run, &line);
    int64_t wait = report->next.at - report->now;
    jobs_say(EXIT_DONE, "attempt %d: %.*s; trying again in %.2f s", report->attempt->number,
             SLICE_ARG(buf_slice(&line)), (double)(wait > 0 ? wait : 0) / (double)CLOCK_US_PER_S);
}

/* One that could not be run, or was ended by something else than itself, or was tried again. */
static void explain_failure(const struct run *run)
{
    const struct process *process = &run->job.process;
    const struct runner *runner = &run->job.runner;
    BUF_AUTO struct buf line = buf_make(TEXT_MAX);
    bool own = !process->problem && !process->timed_out && process->signal == 0;
    if (runner->course.attempts == 0 || (own && runner->course.attempts == 1))
        return;
    add_ending(run, &line);
    if (runner->course.attempts > 1)
        jobs_say(EXIT_DONE, "attempt %d, the last: %.*s", runner->course.attempts,
                 SLICE_ARG(buf_slice(&line)));
    else
        jobs_say(EXIT_DONE, "%.*s", SLICE_ARG(buf_slice(&line)));
}

/* That nothing was run now: not among what the command says, where programs read. */
static void explain_run_replay(const struct run *run)
{
    BUF_AUTO struct buf at = buf_make(TEXT_MAX);
    const struct runner *runner = &run->job.runner;
    if (runner->course.attempts > 0) {
        jobs_say(EXIT_DONE, "another run or an operator ended the job meanwhile: this is its "
                            "outcome, not that of the command");
        return;
    }
    if (!run->verbose && !isatty(STDERR_FILENO))
        return;
    timestamp_print(&at, runner->attempt.result.record.completed_at);
    jobs_say(EXIT_DONE, "ran before, on %.*s; %s", SLICE_ARG(buf_slice(&at)),
             runner->outcome ? "this is its kept output" : "its output is not kept any more");
}

static void explain_run_in_progress(const struct run *run)
{
    const struct store_result *found = &run->job.runner.attempt.result;
    if (found->lease == RECORD_LEASE_LAPSED)
        jobs_say(EXIT_DONE,
                 "in progress: the pawl that began it has died or stands still, but it or what it "
                 "started still runs on this host");
    else
        jobs_say(EXIT_DONE,
                 "the key is in use; if the pawl that uses it has died, it becomes free in %lld s "
                 "(--wait 20s waits for that)",
                 (long long)(found->lease_left_us / CLOCK_US_PER_S + 1));
}

static void add_run_settling(const struct run *run, struct buf *text)
{
    const struct process *process = &run->job.process;
    jobs_add_settling(&run->options, process->key, run->job.runner.attempt.result.record.token,
                      text);
}

/* What came of it is not known: how to find out, and how to say it. */
static void explain_held(const struct run *run)
{
    BUF_AUTO struct buf text = buf_make(TEXT_MAX);
    const struct process *process = &run->job.process;
    if (process->probed)
        buf_printf(&text,
                   "pawl: the probe ended with exit code %d, which is neither 0, it was "
                   "done, nor 1, it was not\n",
                   process->exit_code);
    buf_add_str(&text, "pawl: an earlier run may have done its work, and nothing is run before "
                       "somebody says whether it did:\n");
    add_run_settling(run, &text);
    fprintf(stderr, "%.*s", SLICE_ARG(buf_slice(&text)));
}

/* The command line that the key was used for is in its record. */
static void explain_run_mismatch(const struct run *run)
{
    BUF_AUTO struct buf text = buf_make(TEXT_MAX);
    const struct runner *runner = &run->job.runner;
    const char *payload = run->payload ? " or payload" : "";
    buf_printf(&text, "pawl: %sthe key ",
               runner->course.attempts > 0 ? "between two attempts another run took over: " : "");
    switch (jobs_clash_of(&runner->attempt.result)) {
    case JOBS_IN_USE:
        buf_printf(&text,
                   "is in use for another command line%s; wait for its end, or choose "
                   "another key\n",
                   payload);
        break;
    case JOBS_IN_DOUBT:
        buf_printf(&text,
                   "was used for another command line%s, which may have done its work; "
                   "repeat that one, or say whether it did:\n",
                   payload);
        add_run_settling(run, &text);
        break;
    case JOBS_DONE:
        buf_printf(&text, "was used for another command line%s, which has ended and which `",
                   payload);
        jobs_add_keys_command(&run->options, "show", run->job.process.key, &text);
        buf_add_str(&text,
                    "` prints; choose another key, use --again if this one takes its place, or "
                    "compare less (--payload)\n");
    }
    fprintf(stderr, "%.*s", SLICE_ARG(buf_slice(&text)));
}

/* Before what came of it. */
static void explain_unproved(const struct run *run)
{
    if (run->job.runner.unproved)
        jobs_say(EXIT_DONE, "it was run although the store may lack the record of an earlier run "
                            "(`pawl store restored`): without --unknown probe:CMD nobody is asked");
}

static void explain_run(const struct run *run)
{
    enum store_status closed;
    switch (run->result) {
    case RUNNER_DONE:
        return;
    case RUNNER_REPLAYED:
        explain_run_replay(run);
        return;
    case RUNNER_FOUND:
        jobs_say(EXIT_DONE, "an earlier run was done, as the probe says; it is not run again");
        return;
    case RUNNER_FINAL:
    case RUNNER_ENDED:
    case RUNNER_STOPPED:
        explain_failure(run);
        return;
    case RUNNER_HELD:
        explain_held(run);
        return;
    case RUNNER_UNPROVED:
        jobs_say(
            EXIT_DONE,
            "the store may lack the record of an earlier run (`pawl store restored`), and the "
            "probe did not find out whether there was one, or said no too soon to be believed; "
            "nothing was run, try again later");
        return;
    case RUNNER_MISMATCH:
        explain_run_mismatch(run);
        return;
    case RUNNER_IN_PROGRESS:
        explain_run_in_progress(run);
        return;
    case RUNNER_STORE_DOWN:
        closed = store_closed_by(&run->job.runner.attempt.result);
        jobs_say(EXIT_DONE, "%s",
                 closed != STORE_DONE
                     ? keys_status_text(closed)
                     : "the store did not respond in time, or its disk is full; nothing more was "
                       "run");
        return;
    case RUNNER_NOT_STORED:
        jobs_say(EXIT_DONE, "the outcome could not be written to the store");
        return;
    case RUNNER_LOST:
        jobs_say(EXIT_DONE, "the store stopped after a disk error");
        return;
    }
    UNREACHABLE();
}

/* ---- before it runs ---- */

/* The foreground group of a terminal: it shares that with the command, and so keys such as
 * Control-C reach both, and jobs of the shell stay jobs. */
static bool is_in_foreground(void)
{
    int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    bool is = terminal >= 0 && tcgetpgrp(terminal) == getpgrp();
    if (terminal >= 0)
        close(terminal);
    return is;
}

static int read_run_payload(struct run *run)
{
    bool is_input = strcmp(run->payload, "-") == 0;
    int fd = is_input ? STDIN_FILENO : open(run->payload, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? 1 : -1;
    while (n > 0) {
        char *room = buf_room(&run->input, 65536);
        n = room ? read(fd, room, 65536) : 0;
        if (n > 0)
            buf_added(&run->input, (size_t)n);
        n = n < 0 && errno == EINTR ? 1 : n;
    }
    int error = errno;
    if (fd > STDIN_FILENO)
        close(fd);
    if (n < 0)
        return command_failed(NAME, EXIT_USAGE, "cannot read %s: %s",
                              is_input ? "standard input" : run->payload, strerror(error));
    return buf_ok(&run->input)
               ? EXIT_DONE
               : command_failed(NAME, EXIT_USAGE, "--payload is longer than 64 MiB");
}

/* What is compared, and what the command reads. */
static int take_payload(struct run *run, const char *const *argv)
{
    struct process *process = &run->job.process;
    process->input = isatty(STDIN_FILENO) ? CHILD_INPUT_INHERIT : CHILD_INPUT_NONE;
    if (!run->payload) {
        run->compared = job_payload_of(argv);
        return EXIT_DONE;
    }
    if (strcmp(run->payload, "ignore") == 0)
        return EXIT_DONE;
    int code = read_run_payload(run);
    run->compared = digest_of(buf_slice(&run->input));
    if (strcmp(run->payload, "-") == 0) {
        process->input = CHILD_INPUT_BYTES;
        process->input_bytes = buf_slice(&run->input);
    }
    return code;
}

/* ---- while it runs ---- */

static bool enter(struct runner_gate *gate, struct parker *parker)
{
    (void)parker;
    return !gate->closed;
}

static void leave(struct runner_gate *gate)
{
    (void)gate;
}

/* Passed on, but for what the terminal has told the command, too; and no attempt follows on one
 * that is to end it. */
static void end_run_by_signal(void *argument, int number, bool from_terminal)
{
    struct run *run = argument;
    bool shares = run->options.job.process.group == CHILD_GROUP_SHARED;
    if (number != SIGUSR1 && number != SIGUSR2) {
        run->gate.closed = true;
        run->signal = number;
        run->passed_on = run->job.process.pid != 0;
    }
    if (!shares || !from_terminal)
        process_signal(&run->job.process, number);
    if (run->waits)
        parker_wake(run->waits);
}

static void run_one_job(void *argument)
{
    struct run *run = argument;
    run->waits = fiber_parker();
    job_parker_init(&run->parker, fiber_parker(), &run->gate);
    run->job.runner.parker = &run->parker.parker;
    run->result = runner_run(&run->job.runner);
    run->waits = NULL;
    if (run->result == RUNNER_REPLAYED)
        job_count(run->options.store, TALLY_JOB_SKIPPED, 1, fiber_parker());
    if (run->result == RUNNER_HELD)
        job_count(run->options.store, TALLY_JOB_DOUBT, 1, fiber_parker());
    signals_end(&run->signals);
}

static int run_job_loop(struct run *run)
{
    struct loop *loop = loop_new(FIBERS);
    run->signals = (struct signals){.got = end_run_by_signal, .argument = run};
    if (!loop || !signals_watch(loop, &run->signals) || !fiber_spawn(loop, "job", run_one_job, run))
        return jobs_say(EXIT_UNAVAILABLE, "out of memory");
    loop_stop(loop);
    loop_run(loop);
    run->loop = loop;
    return EXIT_DONE;
}

/* What an earlier run wrote. */
static void print_earlier(struct run *run)
{
    struct outcome *kept = run->job.runner.outcome;
    bool earlier = run->result == RUNNER_REPLAYED || run->result == RUNNER_FOUND;
    if (earlier && kept && !jobs_print_kept(run->options.job.process.printer, kept))
        jobs_say(EXIT_DONE, "its kept output cannot be read: out of memory, or damaged");
}

/* What was done and could not be written down for the reader is kept: repeated, it is printed. */
static int end_printing(struct run *run, int code)
{
    int error = 0;
    signals_let_go(); /* a reader may stand still for ever */
    printer_free(run->options.job.process.printer, &error);
    run->options.job.process.printer = NULL;
    if (error == 0)
        return code;
    return jobs_say(code == EXIT_DONE ? EXIT_TRY_AGAIN : (enum exit_code)code,
                    "cannot write the command's output: %s", strerror(error));
}

static int code_of_run(const struct run *run)
{
    bool stopped = run->result == RUNNER_STOPPED && run->signal > 0 && !run->passed_on;
    return stopped ? PROCESS_SIGNALLED + run->signal : job_exit_code(&run->job, run->result);
}

static int run_prepared(struct run *run)
{
    CHECK(run->options.store && run->options.job.engine && run->job.process.key.at);
    run->options.job.gate = &run->gate;
    run->options.job.process.printer = printer_new();
    run->options.job.process.group = is_in_foreground() ? CHILD_GROUP_SHARED : CHILD_GROUP_OWN;
    if (!run->options.job.process.printer ||
        !job_prepare(&run->job, &run->options.job, run->compared))
        return jobs_say(EXIT_UNAVAILABLE, "out of memory");
    run->job.runner.report = report_run;
    run->job.runner.argument = run;
    int code = run_job_loop(run);
    if (code != EXIT_DONE)
        return code;
    print_earlier(run);
    code = end_printing(run, code_of_run(run));
    explain_unproved(run);
    explain_run(run);
    return code;
}

/* ---- all of it ---- */

static int prepare_run(struct run *run, const char *const *argv)
{
    BUF_AUTO struct buf problem = buf_make(TEXT_MAX);
    struct template_facts *facts = mem_zalloc(1, sizeof *facts);
    struct jobs_options *options = &run->options;
    int code = facts ? jobs_prepare(options, TEMPLATE_FOR_JOB) : EXIT_UNAVAILABLE;
    if (code == EXIT_DONE) {
        code = jobs_make_key(options, facts, &options->arena, &run->job.process.key, &problem);
        if (code == EXIT_BAD_DATA)
            code = command_misused(NAME, "%.*s", SLICE_ARG(buf_slice(&problem)));
        else if (code != EXIT_DONE)
            jobs_say(EXIT_DONE, "%.*s", SLICE_ARG(buf_slice(&problem)));
    }
    mem_free(facts);
    if (code == EXIT_DONE)
        code = take_payload(run, argv);
    return code;
}

static int run_once(struct run *run, const char *const *argv)
{
    if (run->reason && !run->again)
        return command_misused(NAME, "--reason belongs to --again");
    run->job.process.argv = argv;
    int code = prepare_run(run, argv);
    if (code != EXIT_DONE)
        return code;
    signals_hold_back();
    code = jobs_open(&run->options);
    if (code == EXIT_DONE && run->again) {
        struct again again = {.command = NAME,
                              .store = run->options.store,
                              .rule = run->options.job.rule,
                              .key = run->job.process.key,
                              .failed = true,
                              .reason = run->reason};
        code = again_forget(&again);
    }
    return code == EXIT_DONE ? run_prepared(run) : code;
}

static int run_job_command(const struct command *command, struct operands at)
{
    struct run *run = mem_zalloc(1, sizeof *run);
    if (!run)
        return jobs_say(EXIT_UNAVAILABLE, "out of memory");
    jobs_init(&run->options, NAME);
    run->input = buf_make(INPUT_MAX);
    run->gate = (struct runner_gate){.enter = enter, .leave = leave};
    int code = command_read(command, &at, run);
    if (code == EXIT_DONE)
        code = run_once(run, (const char *const *)at.at);
    if (run->result == RUNNER_NOT_STORED) /* the store may still write from it */
        return code;
    outcome_unref(run->job.runner.outcome);
    if (run->job.process.settings)
        job_fini(&run->job);
    printer_free(run->options.job.process.printer, NULL);
    jobs_close(&run->options);
    loop_free(run->loop);
    buf_fini(&run->input);
    mem_free(run);
    return code;
}

/* ---- the row ---- */

#define OPTIONS struct run
const struct command command_run = {
    .name = "run",
    .summary = "run a command once per key",
    .synopsis = "--key TEMPLATE [OPTIONS] [--] CMD [ARG]...",
    .about = "Runs CMD, unless it was done under this key: then pawl prints what CMD wrote, and "
             "exits with its exit code. Exit code 0 means that it is done. After any other it can "
             "be run again, unless --final says that this is useless.\n\n"
             "If the key is in use elsewhere, pawl exits with 75, or waits (--wait). If pawl or "
             "its machine died half-way, the next run repeats the job, 15 seconds later at the "
             "latest; --unknown says otherwise.\n\n"
             "CMD finds PAWL_KEY, PAWL_TOKEN, PAWL_ATTEMPT and IDEMPOTENCY_KEY in its environment. "
             "Its standard input is empty, except at a terminal and with --payload -. Lines on "
             "standard error that begin with `pawl` are pawl's own; they show whether an exit code "
             "is pawl's or CMD's. 126 and 127 mean that CMD could not be run or found, 128 and "
             "more that a signal ended it.",
    .runs_other = true,
    .operand = "CMD",
    .operands = {1, 1 << 20},
    .needs_first = true,
    .flags = FLAGS(
        FLAG(options.key, "key", 0, "TEMPLATE", ANY,
             "the name of the job: text with sources such as {date:Area/City}, {week:Area/City}, "
             "{month:Area/City}, {hour} and {env:NAME}"),
        FLAG(options.ttl_us, "ttl", 0, "D", SPAN(1, FOREVER),
             "remember it for D after its end, or forever (default 24h; with {date} in the key 2d, "
             "with {week} 8d, with {month} 32d)"),
        FLAG_RETRY(options),
        FLAG(options.job.wait_us, "wait", 0, "D", SPAN(0, FOREVER),
             "how long to wait for an attempt in progress elsewhere (default 0: exit 75 at once)"),
        FLAG_BY(options, jobs_take_unknown, "unknown", 0, "POLICY", ANY,
                "what to do if an earlier run may have done it, because pawl or its machine died "
                "before it ended: retry (default); hold, until somebody settles it; probe:CMD, "
                "which exits with 0 if it was done, with 1 if it was not"),
        END_FLAGS(options),
        FLAG(payload, "payload", 0, "FILE|-|ignore", ANY,
             "what must be the same under one key: what is in FILE, or on standard input (-), "
             "which CMD then reads; ignore: nothing (default: the command line)"),
        FLAG_KEEP_OUTPUT(options), NAME_FLAGS(options),
        SWITCH(again, "again", 0, "run it although it was done, or has failed for good (--final)"),
        FLAG_REASON(reason),
        SWITCH(verbose, "verbose", 'v',
               "say so when the output is that of an earlier run (at a terminal it always does)"),
        FLAG_STORE(options.store_path)),
    .exits = {{EXIT_USAGE, NULL},
              {EXIT_BAD_DATA, "the key was used for another command line"},
              {EXIT_UNAVAILABLE, "the store or the time zones cannot be used"},
              {EXIT_FAIL_STOP, NULL},
              {EXIT_TRY_AGAIN, NULL},
              {EXIT_OUTCOME_UNKNOWN, "it may have been done, and --unknown says not to repeat it"},
              {EXIT_DEADLINE, "CMD timed out (--timeout)"}},
    .run = run_job_command,
};
