/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl each`: a command or a request for each item of an input, each once per key (src/job). */
#include "cli/jobs/each.h"

#include "base/check.h"
#include "base/mem.h"
#include "fiber/fiber.h"
#include "job/signals.h"
#include "operator/keys.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define TTL_US (INT64_C(7) * 86400 * CLOCK_US_PER_S)
#define MAX_TIME_US (30 * CLOCK_US_PER_S)
#define CONNECT_US (5 * CLOCK_US_PER_S)
#define PROGRESS_US (200 * CLOCK_US_PER_MS)
#define FIBERS_BESIDE 8
#define PROBLEM_MAX ((size_t)1024)
#define FILES_OF_COMMAND ((size_t)5)
#define FILES_BESIDE ((size_t)32)

/* ---- flags ---- */

static int take_rate(void *to, const char *text)
{
    int64_t *apart_us = to;
    static const char units[] = "smh";
    static const int64_t seconds[] = {1, 60, 3600};
    struct slice number, unit = slice_cut(slice_of(text), '/', &number);
    uint64_t n;
    const char *known = !unit.at ? units : unit.len == 1 ? strchr(units, unit.at[0]) : NULL;
    if (!slice_to_u64(number, 1000000, &n) || n == 0 || !known || !*known)
        return command_misused(EACH_NAME,
                               "--rate wants a number, such as 50 (a second), 50/s, "
                               "30/m or 10/h, not `%s`",
                               text);
    *apart_us = seconds[known - units] * CLOCK_US_PER_S / (int64_t)n;
    return EXIT_DONE;
}

static int review_each(const struct each_session *session, const struct operands *at)
{
    if (session->nul + session->csv + session->jsonl > 1)
        return command_misused(EACH_NAME, "--null, --csv and --jsonl exclude each other");
    if (session->keeps_going && session->fails_fast)
        return command_misused(EACH_NAME, "--keep-going and --fail-fast exclude each other");
    if (session->json && session->is_dry)
        return command_misused(EACH_NAME, "--json and --dry-run exclude each other");
    if (session->send && at->n > 0)
        return command_misused(EACH_NAME, "--send takes no CMD: unexpected argument `%s`",
                               at->at[0]);
    if (!session->send && at->n == 0)
        return command_misused(EACH_NAME, "needs a CMD, or --send");
    if (!session->send && (session->body || session->request.request.headers.n > 0))
        return command_misused(EACH_NAME, "--data and --header belong to --send");
    if (session->send &&
        (session->options.job.process.probe || session->options.job.timeout_us != CLOCK_NEVER))
        return command_misused(EACH_NAME, "--send takes no --unknown probe:CMD, and --max-time in "
                                          "place of --timeout");
    if (session->payload && strcmp(session->payload, "ignore") != 0)
        return command_misused(EACH_NAME, "--payload must be ignore, not `%s`", session->payload);
    return EXIT_DONE;
}

/* ---- the input ---- */

static int open_input(struct each_session *session)
{
    struct stat about;
    bool is_named = session->input && strcmp(session->input, "-") != 0;
    int fd = is_named ? open(session->input, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
    if (fd < 0)
        return command_failed(EACH_NAME, EXIT_USAGE, "cannot read %s: %s", session->input,
                              strerror(errno));
    if (!is_named && isatty(fd))
        jobs_say(EXIT_DONE, "reading items from the terminal, a line each; end with Control-D");
    if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode))
        session->input_size = (uint64_t)about.st_size;
    session->each.feed = feed_new(fd);
    return session->each.feed ? EXIT_DONE : jobs_say(EXIT_UNAVAILABLE, "out of memory");
}

/* Pipes and a descriptor of the process for each item that runs, a connection for each that is
 * sent. What commands may open stays as it was, and so the limit is not raised for them. */
static int check_descriptors(const struct each_session *session)
{
    struct rlimit limit;
    size_t needed = session->n_jobs * (session->send ? 1 : FILES_OF_COMMAND) + FILES_BESIDE;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed)
        return EXIT_DONE;
    return command_failed(
        EACH_NAME, EXIT_USAGE,
        "-j %zu needs %zu open files, and the limit is %llu; use a smaller -j, or "
        "raise it (ulimit -n)",
        session->n_jobs, needed, (unsigned long long)limit.rlim_cur);
}

/* ---- while it runs ---- */

static void end_each_by_signal(void *argument, int number, bool from_terminal)
{
    struct each_session *session = argument;
    (void)from_terminal; /* what it runs has no terminal */
    if (number == SIGUSR1 || number == SIGUSR2)
        return;
    if (session->signals++ > 0) {
        each_signal(&session->each, SIGKILL);
        return;
    }
    each_stop(&session->each);
    if (session->each.slots.taken > 0) {
        static const char line[] = "pawl: stopping: what runs goes on to its end; a second signal "
                                   "kills it\n";
        printer_add(session->printer, CHILD_ERROR, slice_make(line, sizeof line - 1));
    }
}

struct beside {
    struct each_session *session;
    struct signals signals;
    struct parker *progress;
};

static void show_each_progress(void *argument)
{
    struct beside *beside = argument;
    beside->progress = fiber_parker();
    while (!beside->session->has_ended) {
        each_show_progress(beside->session);
        (void)fiber_parker()->park(fiber_parker(), clock_after(clock_boot_us(), PROGRESS_US));
    }
    printer_show_status(beside->session->printer, SLICE(""));
}

static void note_each_done(void *argument)
{
    struct each_session *session = argument;
    session->has_ended = true;
    if (session->ender)
        parker_wake(session->ender);
}

/* All fibers but these have ended: they may. */
static void end_beside(void *argument)
{
    struct beside *beside = argument;
    beside->session->ender = fiber_parker();
    while (!beside->session->has_ended)
        (void)fiber_parker()->park(fiber_parker(), CLOCK_NEVER);
    signals_end(&beside->signals);
    if (beside->progress)
        parker_wake(beside->progress);
}

static int run_each_loop(struct each_session *session)
{
    struct each *each = &session->each;
    CHECK(each->kind && session->how && session->printer);
    struct loop *loop = loop_new(each_fibers(each->jobs) + FIBERS_BESIDE);
    struct beside beside = {.session = session,
                            .signals = {.got = end_each_by_signal, .argument = session}};
    bool shows = isatty(STDERR_FILENO) && !session->silent && !session->json;
    session->started_at = clock_boot_us();
    if (!loop || !each_start(each, loop) || !signals_watch(loop, &beside.signals) ||
        !fiber_spawn(loop, "end", end_beside, &beside) ||
        (shows && !fiber_spawn(loop, "progress", show_each_progress, &beside)))
        return jobs_say(EXIT_UNAVAILABLE, "out of memory");
    loop_stop(loop);
    loop_run(loop);
    printer_leave(session->printer, &session->waiter);
    if (each->lingers)
        return EXIT_DONE;
    http_origins_free(session->origins); /* whose connections the loop watches */
    session->origins = NULL;
    session->loop = loop;
    return EXIT_DONE;
}

/* ---- what came of it ---- */

/* The first that applies, as docs/guide/jobs.md lists them. */
static enum exit_code code_of_each(const struct each_session *session)
{
    const struct each *each = &session->each;
    const uint64_t *counts = each->counts;
    if (each->store_is_dead)
        return EXIT_FAIL_STOP;
    if (counts[EACH_CHANGED] + counts[EACH_BAD] > 0 || each->problem)
        return EXIT_BAD_DATA;
    if (counts[EACH_DOUBT] > 0)
        return EXIT_OUTCOME_UNKNOWN;
    if (counts[EACH_FAILED] > 0)
        return EXIT_FINAL_ERROR;
    if (each->store_is_down && each->closed != STORE_FROZEN)
        return EXIT_UNAVAILABLE;
    bool is_left = !session->is_dry && (counts[EACH_LEFT] > 0 || !each->all_read);
    return is_left ? EXIT_TRY_AGAIN : EXIT_DONE;
}

/* Behind what is still to be written. */
static void say_of_each(struct each_session *session, const char *text)
{
    printer_add(session->printer, CHILD_ERROR, SLICE("pawl: "));
    printer_add(session->printer, CHILD_ERROR, slice_of(text));
    printer_add(session->printer, CHILD_ERROR, SLICE("\n"));
}

static void explain_each_end(struct each_session *session)
{
    const struct each *each = &session->each;
    if (each->problem)
        say_of_each(session, each->problem);
    if (each->store_is_dead)
        say_of_each(session, "the store stopped after a disk error");
    else if (each->closed != STORE_DONE)
        say_of_each(session, keys_status_text(each->closed));
    else if (each->store_is_down)
        say_of_each(session,
                    "the store did not respond in time, its disk is full, or there is no memory; "
                    "run it again to go on");
}

/* ---- all of it ---- */

static int fill_each(struct each_session *session)
{
    struct each *each = &session->each;
    CHECK(session->options.store && session->options.job.engine);
    CHECK(session->n_jobs > 0 && session->apart_us >= 0 && !session->printer);
    each->kind = session->send ? &each_of_requests : &each_of_commands;
    session->how = session->send ? each_request_how : each_command_how;
    each->argument = session;
    each->store = session->options.store;
    each->engine = session->options.job.engine;
    each->rule = session->options.job.rule;
    each->form = session->nul     ? ITEMS_NUL
                 : session->csv   ? ITEMS_CSV
                 : session->jsonl ? ITEMS_JSONL
                                  : ITEMS_LINES;
    each->jobs = session->n_jobs;
    each->apart_us = session->apart_us;
    each->fails_fast = session->fails_fast;
    each->is_dry = session->is_dry;
    each->unknown = session->options.job.unknown;
    each->done = note_each_done;
    session->printer = printer_new();
    session->options.job.process.printer = session->json ? NULL : session->printer;
    session->options.job.process.by_lines = true;
    session->options.job.process.group = CHILD_GROUP_SESSION;
    return session->printer ? EXIT_DONE : jobs_say(EXIT_UNAVAILABLE, "out of memory");
}

static int connect_send(struct each_session *session)
{
    CHECK(!session->origins);
    BUF_AUTO struct buf problem = buf_make(PROBLEM_MAX);
    if (!session->send)
        return EXIT_DONE;
    session->origins = client_connect(&session->request.route, NULL, &problem);
    return session->origins ? EXIT_DONE
                            : command_misused(EACH_NAME, "%.*s", SLICE_ARG(buf_slice(&problem)));
}

static int prepare_each(struct each_session *session, struct operands at)
{
    int code = review_each(session, &at);
    session->options.ignores_payload = session->payload;
    if (code == EXIT_DONE)
        code = session->send ? each_prepare_send(session)
                             : each_compile(session, (const char *const *)at.at, (size_t)at.n);
    if (code == EXIT_DONE)
        code = check_descriptors(session);
    if (code == EXIT_DONE)
        code = each_open_files(session);
    if (code != EXIT_DONE)
        return code;
    signals_hold_back();
    code = connect_send(session);
    if (code == EXIT_DONE)
        code = jobs_open(&session->options);
    if (code == EXIT_DONE)
        code = fill_each(session);
    if (code == EXIT_DONE)
        code = open_input(session);
    if (code == EXIT_DONE && !session->csv) /* whose header is read first: each_check */
        each_begin_files(session);
    return code;
}

static int run_each(struct each_session *session)
{
    int code = run_each_loop(session), error = 0;
    if (code != EXIT_DONE)
        return code;
    explain_each_end(session);
    each_sum_up(session);
    code = (int)code_of_each(session);
    if (!each_close_files(session) && code == EXIT_DONE)
        code = EXIT_TRY_AGAIN;
    signals_let_go(); /* a reader may stand still for ever */
    printer_free(session->printer, &error);
    session->printer = NULL;
    if (error != 0)
        return jobs_say(code == EXIT_DONE ? EXIT_TRY_AGAIN : (enum exit_code)code,
                        "cannot write the output: %s", strerror(error));
    return code;
}

static void each_session_fini(struct each_session *session)
{
    each_fini(&session->each);
    feed_free(session->each.feed);
    printer_free(session->printer, NULL);
    http_origins_free(session->origins);
    (void)each_close_files(session);
    request_options_fini(&session->request);
    mem_free(session->texts);
    jobs_close(&session->options);
    loop_free(session->loop);
    mem_free(session);
}

static int run_each_command(const struct command *command, struct operands at)
{
    struct each_session *session = mem_zalloc(1, sizeof *session);
    if (!session)
        return jobs_say(EXIT_UNAVAILABLE, "out of memory");
    jobs_init(&session->options, EACH_NAME);
    session->request = (struct request_options)REQUEST_OPTIONS(EACH_NAME);
    session->options.job.ttl_us = TTL_US;
    session->n_jobs = 1;
    session->max_time_us = MAX_TIME_US;
    session->connect_us = CONNECT_US;
    int code = command_read(command, &at, session);
    if (code == EXIT_DONE)
        code = prepare_each(session, at);
    if (code == EXIT_DONE)
        code = run_each(session);
    if (!session->each.lingers)
        each_session_fini(session);
    return code;
}

/* ---- the row ---- */

#define OPTIONS struct each_session
const struct command command_each = {
    .name = "each",
    .summary = "run a command, or send a request, once for each item of an input",
    .synopsis = "--key TEMPLATE [-j N] [OPTIONS] [--] CMD [ARG]... < ITEMS\n"
                "--key TEMPLATE [-j N] [OPTIONS] --send 'METHOD URL' [-d TEMPLATE] < ITEMS",
    .about =
        "Runs CMD for each item that was not done yet, in any order, and remembers by key which "
        "were done. Repeat it after a crash, with the items in another order or with more of them: "
        "it runs only the rest. Several hosts share the work through a store on PostgreSQL.\n\n"
        "Items are lines, or what --null, --csv or --jsonl say. In the key, in CMD and its "
        "arguments, in --group and in the URL, headers and body of --send, {} is the item, {name} "
        "a column or member, {/pointer} a JSON pointer; {date:Area/City}, {date:/zone} (a zone "
        "from the item), {week:...}, {month:...}, {hour} and {env:NAME} are as in `pawl run`. "
        "Outside the key, a { that begins no placeholder is literal, and {{ is a {. A line that "
        "CMD does not name is its last argument. Values are encoded for the URL, and for a body "
        "that is JSON or a form; {name|json} is a value as JSON, such as a number of CSV, or an "
        "object.\n\n"
        "What CMD writes is printed in whole lines. It has no terminal, and its standard input is "
        "empty. After SIGINT or SIGTERM nothing more is started, and what runs goes on to its end; "
        "a second signal kills it. If several exit codes apply, it is the first in the list below.",
    .runs_other = true,
    .operand = "CMD",
    .operands = {0, 1 << 20},
    .needs_first = true,
    .flags = FLAGS(
        FLAG(options.key, "key", 0, "TEMPLATE", ANY,
             "the name of an item's job: text with {}, {name} or {/pointer}, and sources such as "
             "{date:Area/City}"),
        FLAG(n_jobs, "jobs", 'j', "N", INT(1, 1024), "run at most N items at a time (default 1)"),
        FLAG(input, "input", 'a', "FILE", ANY, "read items from FILE (default: standard input)"),
        SWITCH(nul, "null", '0', "items end with a NUL byte, as `find -print0` writes them"),
        SWITCH(csv, "csv", 0, "items are records of CSV; its first line names the columns"),
        SWITCH(jsonl, "jsonl", 0, "items are values of JSON, one a line"),
        FLAG(group, "group", 0, "TEMPLATE", ANY, "items of one group are run one after the other"),
        FLAG_BY(apart_us, take_rate, "rate", 0, "N", ANY,
                "start at most N a second; N/m: a minute; N/h: an hour"),
        FLAG(options.ttl_us, "ttl", 0, "D", SPAN(1, FOREVER),
             "remember an item for D after its end, or forever (default 7d; with {week} in the key "
             "8d, with {month} 32d)"),
        FLAG_RETRY(options),
        FLAG_BY(options, jobs_take_unknown, "unknown", 0, "POLICY", ANY,
                "what to do with an item that an earlier run may have done, because pawl or its "
                "machine died before it ended, or a request got no response, 500, 502 or 504: "
                "retry (default); hold, until somebody settles it; of a CMD probe:CMD, which exits "
                "with 0 if it was done, with 1 if it was not"),
        END_FLAGS(options),
        FLAG(payload, "payload", 0, "ignore", ANY,
             "compare no command line or request: an item that was done is skipped"),
        FLAG_KEEP_OUTPUT(options),
        SWITCH(keeps_going, "keep-going", 0, "after a failure, run the other items (the default)"),
        SWITCH(fails_fast, "fail-fast", 0, "after a failure, start nothing more"),
        SWITCH(is_dry, "dry-run", 'n', "print what would be run, and run nothing"),
        FLAG(failed_path, "failed-to", 0, "FILE", ANY,
             "write the items that failed to FILE, as they were read"),
        FLAG(joblog_path, "joblog", 0, "FILE", ANY,
             "write a line for each item that was run, as GNU parallel does"),
        SWITCH(json, "json", 0,
               "print a line of JSON for each item, instead of what CMD writes, and a last one "
               "with the totals"),
        SWITCH(silent, "silent", 's', "print no progress and no summary"),
        FLAG(send, "send", 0, "'METHOD URL'", ANY, "send a request for each item, in place of CMD"),
        FLAG(body, "data", 'd', "TEMPLATE|@FILE", ANY,
             "with --send: the body, a template or a file that holds one"),
        FLAG_BY(request, request_take_header, "header", 'H', "TEMPLATE", LIST(0),
                "with --send: a header, `Name: value`; `Name:` without a value removes the header "
                "that pawl would send; @FILE: such lines"),
        ANSWER_FLAGS(request),
        FLAG(max_time_us, "max-time", 'm', "SECONDS", SECONDS,
             "with --send: for one attempt (default 30)"),
        FLAG(request.route.ca, "cacert", 0, "FILE", ANY,
             "with --send: the CA certificates to trust, PEM (default: the system's)"),
        NAME_FLAGS(options), FLAG_STORE(options.store_path)),
    .exits = {{EXIT_FAIL_STOP, NULL},
              {EXIT_BAD_DATA, "an item was done as something else, or is malformed"},
              {EXIT_OUTCOME_UNKNOWN,
               "an item may have been done, and --unknown says not to repeat it"},
              {EXIT_FINAL_ERROR, "an item failed"},
              {EXIT_UNAVAILABLE, "the store or the time zones cannot be used"},
              {EXIT_TRY_AGAIN, "it was stopped, and items are left"},
              {EXIT_USAGE, NULL}},
    .run = run_each_command,
};
