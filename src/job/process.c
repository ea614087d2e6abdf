/* SPDX-License-Identifier: Apache-2.0 */
#include "job/process.h"

#include "base/check.h"
#include "base/crash.h"
#include "base/mem.h"
#include "engine/host.h"
#include "fiber/fiber.h"
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define GRACE_US (INT64_C(5) * CLOCK_US_PER_S) /* from TERM to KILL; for streams left open */
#define PROBE_US                                                                                   \
    (INT64_C(60) * CLOCK_US_PER_S)         /* for a probe, where an attempt has no time limit */
#define LINE_MAX_BYTES ((size_t)64 * 1024) /* by lines: a longer one goes on in pieces */
#define VARIABLES 4
#define VARIABLE_MAX ((size_t)512)

static_assert(offsetof(struct process, executor) == 0, "executors are cast into processes");

/* ---- its environment ---- */

struct environment {
    char texts[VARIABLES][VARIABLE_MAX];
    const char *at[]; /* ends with NULL */
};

static const char *const names[VARIABLES] = {HOST_KEY, HOST_TOKEN,
                                             "PAWL_ATTEMPT=", "IDEMPOTENCY_KEY="};

static bool is_ours(const char *variable)
{
    for (size_t i = 0; i < VARIABLES; i++)
        if (strncmp(variable, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* This process's, and what is said of the attempt. NULL: no memory. */
static struct environment *make_environment(const struct process *process,
                                            const struct runner_attempt *attempt)
{
    size_t n = 0, at = 0;
    while (environ && environ[n])
        n++;
    struct environment *made = mem_alloc(sizeof *made + (n + VARIABLES + 1) * sizeof made->at[0]);
    if (!made)
        return NULL;
    CHECK(process->key.len < VARIABLE_MAX - 32);
    (void)snprintf(made->texts[0], VARIABLE_MAX, "%s%.*s", names[0], SLICE_ARG(process->key));
    (void)snprintf(made->texts[1], VARIABLE_MAX, "%s%lld", names[1], (long long)attempt->token);
    (void)snprintf(made->texts[2], VARIABLE_MAX, "%s%lld", names[2], (long long)attempt->acquired);
    (void)snprintf(made->texts[3], VARIABLE_MAX, "%s%.*s", names[3], SLICE_ARG(process->key));
    for (size_t i = 0; i < VARIABLES; i++)
        made->at[at++] = made->texts[i];
    for (size_t i = 0; i < n; i++)
        if (!is_ours(environ[i]))
            made->at[at++] = environ[i];
    made->at[at] = NULL;
    return made;
}

/* ---- what it writes ---- */

static struct process *process_of(struct child_listener *listener)
{
    return (struct process *)((char *)listener - offsetof(struct process, listener));
}

/* Whole lines go on, so that those of several commands do not mix. */
static void print_lines(struct process *process, enum child_stream stream, struct slice bytes)
{
    struct buf *line = &process->line[stream];
    const char *end = memrchr(bytes.at, '\n', bytes.len);
    size_t whole = end ? (size_t)(end - bytes.at) + 1 : 0;
    if (!end && line->len + bytes.len >= LINE_MAX_BYTES)
        whole = bytes.len;
    if (whole > 0) {
        buf_add(line, bytes.at, whole);
        printer_add(process->settings->printer, stream, buf_slice(line));
        buf_clear(line);
    }
    buf_add_slice(line, slice_skip(bytes, whole));
}

static void print_rest(struct process *process)
{
    for (enum child_stream stream = 0; stream < OUTPUT_STREAMS; stream++) {
        struct buf *line = &process->line[stream];
        if (line->len > 0)
            printer_add(process->settings->printer, stream, buf_slice(line));
        buf_clear(line);
    }
}

static void hear_output(struct child_listener *listener, enum child_stream stream,
                        struct slice bytes)
{
    struct process *process = process_of(listener);
    output_add(&process->output, stream, bytes);
    if (process->is_quiet || !process->settings->printer)
        return;
    if (process->settings->by_lines)
        print_lines(process, stream, bytes);
    else
        printer_add(process->settings->printer, stream, bytes);
}

static bool ask_output_room(struct child_listener *listener)
{
    struct process *process = process_of(listener);
    struct printer *printer = process->settings->printer;
    return process->is_quiet || !printer || printer_ask_room(printer, &process->waiter);
}

/* ---- one child ---- */

/* What `timeout` and shells make of how it ended. */
static int code_of_child(const struct child_result *result)
{
    if (result->timed_out)
        return PROCESS_TIMED_OUT;
    return result->signal > 0 ? PROCESS_SIGNALLED + result->signal : result->exit_code;
}

/* What it started in this process's group, or has left its own: by its token. Twice, for what began
 * meanwhile. */
static void end_what_it_left(const struct process *process, const struct runner_attempt *attempt)
{
    for (int i = 0; i < 2 && process->timed_out; i++)
        if (host_signal(process->key, attempt->token, SIGKILL) == 0)
            return;
}

/* 0, or the number of the error for which it could not be started. */
static int run_child(struct process *process, const struct runner_attempt *attempt,
                     const char *const *argv)
{
    CHECK(process->pid == 0); /* no other one of it runs */
    struct child_result result = {0};
    struct environment *environment MEM_AUTO = make_environment(process, attempt);
    output_clear(&process->output);
    mem_free(process->problem);
    process->problem = NULL;
    process->timed_out = false;
    process->signal = 0;
    if (!environment)
        return ENOMEM;
    process->waiter = (struct printer_waiter){.parker = fiber_parker()};
    process->spec = (struct child_spec){.argv = argv,
                                        .environment = environment->at,
                                        .input = process->input,
                                        .bytes = process->input_bytes,
                                        .listener = &process->listener,
                                        .group = process->settings->group,
                                        .pid = &process->pid,
                                        .deadline_us = attempt->until,
                                        .grace_us = GRACE_US};
    int error = child_run(&process->spec, &result, &process->problem);
    if (process->settings->printer)
        printer_leave(process->settings->printer, &process->waiter);
    if (error != 0)
        return error;
    for (enum child_stream stream = 0; stream < OUTPUT_STREAMS; stream++)
        process->output.is_cut[stream] |=
            (stream == CHILD_OUTPUT ? &result.output : &result.error)->truncated;
    process->timed_out = result.timed_out;
    process->exit_code = code_of_child(&result);
    process->signal = result.timed_out ? 0 : result.signal;
    end_what_it_left(process, attempt);
    child_result_fini(&result);
    print_rest(process);
    return 0;
}

/* ---- an attempt ---- */

/* This machine lacks something that it may have later. */
static bool is_shortage(int error)
{
    return error == EAGAIN || error == ENOMEM || error == EMFILE || error == ENFILE;
}

static void judge_start(struct process *process, int error, struct runner_end *end)
{
    process->exit_code = error == ENOENT      ? PROCESS_NOT_FOUND
                         : is_shortage(error) ? EXIT_TRY_AGAIN
                                              : PROCESS_NOT_RUN;
    end->class = is_shortage(error) ? RETRY_LATER : RETRY_FINAL;
    end->write = WRITE_RELEASE;
    end->note = "it could not be run";
}

static void judge_child_end(struct process *process, struct runner_end *end)
{
    int code = process->exit_code;
    CHECK(code >= 0 && code < PROCESS_CODES);
    bool not_run = code == PROCESS_NOT_RUN || code == PROCESS_NOT_FOUND;
    bool is_final = not_run || process->settings->final[code];
    end->class = code == 0 ? RETRY_DONE : is_final ? RETRY_FINAL : RETRY_LATER;
    end->write = code == 0 ? WRITE_COMPLETE : is_final && !not_run ? WRITE_FAIL : WRITE_RELEASE;
    if (end->write != WRITE_RELEASE)
        end->outcome = output_keep(&process->output, code, process->command, &process->compress);
}

static void run_process(struct runner_executor *executor, const struct runner_attempt *attempt,
                        struct runner_end *ret_end)
{
    struct process *process = (struct process *)executor;
    ret_end->reached = true;
    process->probed = false;
    if (clock_boot_us() >= attempt->send_by) {
        process->exit_code = EXIT_TRY_AGAIN;
        *ret_end = (struct runner_end){.class = RETRY_LATER,
                                       .write = WRITE_RELEASE,
                                       .hint_us = RETRY_NO_HINT,
                                       .note = "the time to start it had passed"};
        return;
    }
    int error = run_child(process, attempt, process->argv);
    if (error != 0)
        judge_start(process, error, ret_end);
    else
        judge_child_end(process, ret_end);
}

/* 0: it was done, and its output is what this one wrote; 1: it was not; anything else: unknown. */
static void run_probe(struct runner_executor *executor, const struct runner_attempt *attempt,
                      struct runner_end *ret_end)
{
    struct process *process = (struct process *)executor;
    const char *const argv[] = {"sh", "-c", process->settings->probe, NULL};
    struct runner_attempt bounded = *attempt;
    bounded.until = clock_first(attempt->until, clock_after(clock_boot_us(), PROBE_US));
    process->is_quiet = process->probed = true;
    int error = run_child(process, &bounded, argv);
    process->is_quiet = false;
    int code = error != 0 ? PROCESS_NOT_RUN : process->exit_code;
    ret_end->write = code == 0 ? WRITE_COMPLETE : code == 1 ? WRITE_RELEASE : WRITE_DOUBT;
    ret_end->class = code == 0 ? RETRY_DONE : RETRY_LATER;
    if (code == 0)
        ret_end->outcome = output_keep(&process->output, 0, process->command, &process->compress);
}

static bool goes_on(struct runner_executor *executor, struct slice origin, int64_t token)
{
    const struct process *process = (const struct process *)executor;
    return host_goes_on(origin, process->key, token);
}

/* ---- its life ---- */

void process_init(struct process *process)
{
    CHECK(process->settings && process->argv && process->argv[0]);
    process->executor = (struct runner_executor){run_process, run_probe, goes_on};
    process->listener = (struct child_listener){hear_output, ask_output_room};
    output_init(&process->output, process->settings->keep_output);
    for (size_t i = 0; i < OUTPUT_STREAMS; i++)
        process->line[i] = buf_make(LINE_MAX_BYTES * 2);
}

void process_fini(struct process *process)
{
    output_fini(&process->output);
    for (size_t i = 0; i < OUTPUT_STREAMS; i++)
        buf_fini(&process->line[i]);
    compress_fini(&process->compress);
    mem_free(process->problem);
}

void process_signal(struct process *process, int number)
{
    if (process->pid != 0)
        child_signal(&process->spec, number);
}
