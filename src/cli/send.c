/* SPDX-License-Identifier: Apache-2.0 */
/* `pawl send`: one request, sent until it is done, and once (src/client, src/runner). */
#include "base/arena.h"
#include "base/check.h"
#include "base/crypto/random.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/time/timestamp.h"
#include "cli/lib/again.h"
#include "cli/lib/opener.h"
#include "cli/lib/print.h"
#include "cli/lib/request.h"
#include "client/http.h"
#include "client/run.h"
#include "client/verdict.h"
#include "operator/keys.h"
#include <errno.h>
#include <stdio.h>

#define NAME "send"
#define REMEMBER_US (INT64_C(7) * 86400 * CLOCK_US_PER_S)
#define MAX_TIME_US (30 * CLOCK_US_PER_S)
#define CONNECT_US (5 * CLOCK_US_PER_S)
#define TEXT_MAX ((size_t)8 * 1024)
#define SAID_MAX ((size_t)16 * 1024)         /* of a body that is read for what it says */
#define SAID_ARENA_MAX ((size_t)1024 * 1024) /* of its tree */

struct send {
    struct request_options options;
    const char *store_path;
    const char *output;
    const char *attempts_path;
    int64_t remember_us;
    int64_t deadline_us;
    int64_t max_time_us;
    int64_t connect_us;
    enum retry_profile profile;
    bool include;
    bool silent;
    bool verbose;
    bool again;

    struct client_made made;
    struct client_http http;
    struct runner runner;
    struct store *store;
    FILE *attempts;
    enum runner_result result;
};

/* ---- flags ---- */

/* ---- progress ---- */

/* A line on stderr, unless silenced; what others sent cannot steer the terminal. */
static void say_of_send(const struct send *send, const struct buf *line)
{
    BUF_AUTO struct buf shown = buf_make(TEXT_MAX);
    print_escaped(&shown, buf_slice(line));
    if (!send->silent)
        fprintf(stderr, "pawl send: %.*s\n", SLICE_ARG(buf_slice(&shown)));
}

/* "502 Bad Gateway, DEPENDENCY.timeout", or why there is no response. */
static void add_end(const struct send *send, const struct runner_end *end, struct buf *line)
{
    if (end->note) {
        buf_add_str(line, end->note);
        return;
    }
    buf_printf(line, "%d", end->status);
    if (send->http.reason.len > 0)
        buf_printf(line, " %.*s", SLICE_ARG(send->http.reason));
    if (end->code.len > 0)
        buf_printf(line, ", %.*s", SLICE_QUOTED(end->code));
}

/* `2xx`, `timeout`, .. */
static void add_kind(const struct runner_end *end, struct buf *line)
{
    if (end->status > 0)
        buf_printf(line, "%dxx", end->status / 100);
    else if (!end->reached)
        buf_add_str(line, "unreached");
    else
        buf_add_str(line, end->cause == RECORD_CAUSE_TIMEOUT ? "timeout" : "broken");
}

static void write_attempt(const struct send *send, const struct runner_report *report)
{
    BUF_AUTO struct buf line = buf_make(TEXT_MAX), note = buf_make(TEXT_MAX);
    buf_printf(&line, "%d,%lld,", report->attempt->number,
               (long long)(report->attempt->delay_us / CLOCK_US_PER_MS));
    add_kind(report->end, &line);
    buf_add_char(&line, ',');
    if (report->end->status > 0)
        buf_add_i64(&line, report->end->status);
    buf_add_str(&line, ",\"");
    add_end(send, report->end, &note);
    for (size_t i = 0; i < note.len; i++) {
        buf_add_char(&line, note.at[i]);
        if (note.at[i] == '"')
            buf_add_char(&line, '"');
    }
    fprintf(send->attempts, "%.*s\"\n", SLICE_ARG(buf_slice(&line)));
    fflush(send->attempts);
}

static void show_lines(const char *mark, struct slice lines)
{
    for (struct slice line; fields_next_line(&lines, &line);) {
        BUF_AUTO struct buf shown = buf_make(TEXT_MAX);
        print_escaped(&shown, line);
        fprintf(stderr, "%s %.*s\n", mark, SLICE_ARG(buf_slice(&shown)));
    }
}

static void show_exchange(const struct send *send)
{
    const struct client_http *http = &send->http;
    show_lines(">", buf_slice(&http->request));
    if (http->status == 0)
        return;
    fprintf(stderr, "< HTTP/1.1 %d %.*s\n", http->status, SLICE_QUOTED(http->reason));
    show_lines("<", buf_slice(&http->fields));
    fputs("<\n", stderr);
}

static void report_send(void *argument, const struct runner_report *report)
{
    const struct send *send = argument;
    bool again = report->end->class >= RETRY_LATER && report->next.end == RETRY_GOES_ON;
    if (send->attempts)
        write_attempt(send, report);
    if (send->verbose)
        show_exchange(send);
    if (!again)
        return;
    BUF_AUTO struct buf line = buf_make(TEXT_MAX);
    buf_printf(&line, "attempt %d: ", report->attempt->number);
    add_end(send, report->end, &line);
    int64_t wait = report->next.at - report->now;
    if (wait > 0)
        buf_printf(&line, "; trying again in %.2f s", (double)wait / (double)CLOCK_US_PER_S);
    else
        buf_add_str(&line, "; trying again at once");
    say_of_send(send, &line);
}

/* ---- what came of it ---- */

/* A sentence about it. */
static void complain_of_send(const struct send *send, const char *text)
{
    BUF_AUTO struct buf line = buf_make(TEXT_MAX);
    buf_add_str(&line, text);
    say_of_send(send, &line);
}

static void add_send_doubt(const struct send *send, struct buf *line)
{
    bool is_final = send->result == RUNNER_FINAL && retry_course_sent(&send->runner.course) > 1;
    if (send->runner.in_doubt)
        buf_printf(line, "; %sit may have been done: repeat it under the same key",
                   is_final ? "an earlier attempt may be why, and " : "");
}

/* What a response of pawl's own form says beside its code. */
struct problem_facts {
    struct slice instance; /* empty: it names none; lives in the arena of `read_problem_facts` */
    bool safe_new_key;     /* false also where it does not say */
};

static struct problem_facts read_problem_facts(const struct client_http *http, struct arena *arena)
{
    struct json *root;
    struct problem_facts facts = {0};
    if (http->body.len > SAID_MAX || json_parse(arena, buf_slice(&http->body), &root, NULL))
        return facts;
    const struct json *instance = json_at_as(root, SLICE("/instance"), JSON_STRING);
    if (instance)
        facts.instance = instance->text;
    facts.safe_new_key = json_at_as(root, SLICE("/safe_new_key"), JSON_TRUE);
    return facts;
}

/* One order, and never a new key where none is known to be safe. */
static void add_advice(const struct send *send, const struct problem_facts *facts, struct buf *line)
{
    const struct error_row *row = client_row_of(&send->runner);
    bool held = row == error_row(ERROR_OUTCOME_UNKNOWN);
    bool other = row == error_row(ERROR_PAYLOAD_MISMATCH);
    if (send->runner.in_doubt && !held)
        add_send_doubt(send, line);
    else if (other && !facts->safe_new_key)
        buf_add_str(line, ": the key was used for another request. Repeat that one exactly, and "
                          "send nothing in its place before its outcome is known.");
    else if (row)
        buf_printf(line, ": %s", row->hint);
}

/* What is to be renewed: the header lines that were sent, and the file that they came from. */
static void add_credentials(const struct send *send, struct buf *line)
{
    const struct headers *sent = &send->made.sent;
    const struct request_options *options = &send->options;
    bool is_basic = headers_find(sent, SLICE("Authorization"));
    if (send->runner.end.class != RETRY_CREDENTIALS)
        return;
    buf_printf(line, "; it refuses who sends: renew %s",
               options->headers_file ? options->headers_file
               : is_basic            ? "the header Authorization"
                                     : "the credentials, none of which are in a header "
                                       "Authorization");
}

static void explain_final(const struct send *send)
{
    BUF_AUTO struct buf line = buf_make(TEXT_MAX);
    ARENA_AUTO struct arena arena = arena_make(SAID_ARENA_MAX);
    struct problem_facts facts = read_problem_facts(&send->http, &arena);
    add_end(send, &send->runner.end, &line);
    add_credentials(send, &line);
    add_advice(send, &facts, &line);
    if (facts.instance.len > 0)
        buf_printf(&line, " (instance %.*s)", SLICE_QUOTED(facts.instance));
    say_of_send(send, &line);
}

static const char *const endings[] = {
    [RETRY_ENDS_ATTEMPTS] = "; that was the last attempt",
    [RETRY_ENDS_DEADLINE] = "; no time is left for another attempt",
    [RETRY_ENDS_HINT] = "; it asks to wait beyond the deadline (Retry-After)",
    [RETRY_ENDS_BUDGET] = "; the budget for retries is used up",
};

static void explain_end(const struct send *send)
{
    const struct runner *runner = &send->runner;
    BUF_AUTO struct buf line = buf_make(TEXT_MAX);
    buf_printf(&line, "attempt %d: ", retry_course_sent(&runner->course));
    add_end(send, &runner->end, &line);
    buf_add_str(&line, endings[runner->ended_by]);
    add_send_doubt(send, &line);
    say_of_send(send, &line);
}

static void explain_send_replay(const struct send *send)
{
    const struct record *record = &send->runner.attempt.result.record;
    BUF_AUTO struct buf line = buf_make(TEXT_MAX);
    buf_add_str(&line, client_is_refusal(record) ? "ended before, on " : "done before, on ");
    timestamp_print(&line, record->completed_at);
    if (client_is_refusal(record))
        buf_printf(&line, ", with HTTP status %d", record->http_status);
    buf_add_str(&line, send->runner.outcome ? "; this is the kept response, nothing was sent"
                                            : "; its response was not kept, nothing was sent");
    say_of_send(send, &line);
}

static void explain_send_mismatch(const struct send *send)
{
    const struct record *record = &send->runner.attempt.result.record;
    bool is_free = record_is_final(record->status) || record_is_released(record);
    bool in_doubt = send->runner.in_doubt || record->doubt || !is_free;
    complain_of_send(send, in_doubt
                               ? "the key was used for another request, which may have been done: "
                                 "repeat that one exactly, and send nothing in its place before"
                               : "the key was used for another request; take a new key for a new "
                                 "one");
}

static void explain_send_in_progress(const struct send *send)
{
    const struct store_result *found = &send->runner.attempt.result;
    BUF_AUTO struct buf line = buf_make(TEXT_MAX);
    buf_printf(&line,
               "in progress elsewhere, or its process died; if so, it can be sent again in %lld s",
               (long long)(found->lease_left_us / CLOCK_US_PER_S + 1));
    add_send_doubt(send, &line);
    say_of_send(send, &line);
}

static void explain_store_down(const struct send *send)
{
    BUF_AUTO struct buf line = buf_make(TEXT_MAX);
    enum store_status closed = store_closed_by(&send->runner.attempt.result);
    buf_add_str(&line, closed != STORE_DONE
                           ? keys_status_text(closed)
                           : "the store did not respond in time; nothing more was sent");
    add_send_doubt(send, &line);
    say_of_send(send, &line);
}

static void explain_send(const struct send *send)
{
    switch (send->result) {
    case RUNNER_DONE:
        if (send->http.truncated)
            complain_of_send(send,
                             "done, but the response is larger than 64 MiB: only its beginning is "
                             "printed, none is kept");
        return;
    case RUNNER_REPLAYED:
        explain_send_replay(send);
        return;
    case RUNNER_FINAL:
        explain_final(send);
        return;
    case RUNNER_ENDED:
        explain_end(send);
        return;
    case RUNNER_HELD:
        complain_of_send(send,
                         "it may have been done, and is not sent before that is settled: see `pawl "
                         "keys resolve`");
        return;
    case RUNNER_MISMATCH:
        explain_send_mismatch(send);
        return;
    case RUNNER_IN_PROGRESS:
        explain_send_in_progress(send);
        return;
    case RUNNER_STORE_DOWN:
        explain_store_down(send);
        return;
    case RUNNER_NOT_STORED:
        complain_of_send(send,
                         "the outcome could not be written to the store; repeat it under the same "
                         "key");
        return;
    case RUNNER_LOST:
        complain_of_send(send,
                         "the store stopped after a disk error; repeat it under the same key");
        return;
    case RUNNER_FOUND: /* nothing is probed, */
    case RUNNER_UNPROVED:
    case RUNNER_STOPPED: /*   and there is no gate */
        break;
    }
    UNREACHABLE();
}

static int code_of_send(const struct send *send)
{
    bool cut = send->result == RUNNER_DONE && send->http.truncated;
    return cut ? EXIT_BAD_DATA : (int)client_exit_code(send->result, &send->runner);
}

/* ---- output ---- */

/* The response that the result is about; false: there is none. */
static bool find_response(struct send *send, struct outcome *ret_response)
{
    const struct client_http *http = &send->http;
    struct outcome *kept = send->runner.outcome;
    COMPRESS_AUTO struct compress compress = {0};
    if (send->result == RUNNER_REPLAYED && kept) {
        if (outcome_unpack(kept, &compress) != OUTCOME_UNPACKED)
            return false;
        ret_response->status = kept->status;
        ret_response->fields = kept->fields;
        ret_response->body = kept->body;
        return true;
    }
    ret_response->status = http->status;
    ret_response->fields = buf_slice(&http->fields);
    ret_response->body = buf_slice(&http->body);
    return http->status > 0 && send->result <= RUNNER_ENDED && send->result != RUNNER_REPLAYED;
}

static bool write_response(const struct send *send, const struct outcome *response, FILE *to)
{
    if (send->include)
        fprintf(to, "HTTP/1.1 %d %s\r\n%.*s\r\n", response->status, http_reason(response->status),
                SLICE_ARG(response->fields));
    if (response->body.len > 0)
        fwrite(response->body.at, 1, response->body.len, to);
    return fflush(to) == 0 && !ferror(to);
}

/* What is done and cannot be printed is kept: repeated, it is printed. */
static int print_response(struct send *send, int code)
{
    struct outcome response = {0};
    if (!find_response(send, &response))
        return code;
    FILE *to = send->output ? fopen(send->output, "we") : stdout;
    bool written = to && write_response(send, &response, to);
    int error = errno;
    if (to && to != stdout)
        written = fclose(to) == 0 && written;
    if (written)
        return code;
    return command_failed(NAME, code == EXIT_DONE ? EXIT_TRY_AGAIN : code, "cannot write %s: %s",
                          send->output ? send->output : "standard output", strerror(error));
}

/* ---- running ---- */

static int fail_send(void)
{
    return command_failed(NAME, EXIT_UNAVAILABLE, "out of memory");
}

static int run_send(struct send *send)
{
    struct runner *runner = &send->runner;
    runner->engine = engine_new(send->store, 0);
    runner->executor = &send->http.executor;
    runner->schedule = retry_profile_schedule(send->profile);
    runner->profile = send->profile;
    runner->seed = random_u64();
    runner->total_us = send->deadline_us;
    runner->timeout_us = send->max_time_us;
    runner->wait_us = CLOCK_NEVER;
    runner->attempt.begin.unknown = RECORD_UNKNOWN_RETRY;
    runner->report = report_send;
    runner->argument = send;
    runner->attempt.begin.ttl_us = send->remember_us;
    if (!runner->engine || !client_run(runner, &send->result))
        return fail_send();
    explain_send(send);
    int code = print_response(send, code_of_send(send));
    outcome_unref(runner->outcome);
    runner->outcome = NULL;
    if (send->result != RUNNER_NOT_STORED)
        engine_free(runner->engine);
    return code;
}

/* ---- --again ---- */

static int go_past_success(struct send *send)
{
    BUF_AUTO struct buf line = buf_make(TEXT_MAX);
    struct again again = {.command = NAME,
                          .store = send->store,
                          .rule = send->runner.attempt.rule,
                          .key = send->made.operation.key,
                          .same = &send->runner.attempt.begin};
    int code = again_forget(&again);
    if (again.forgotten_at == 0)
        return code;
    buf_add_str(&line, "done before, on ");
    timestamp_print(&line, again.forgotten_at);
    buf_add_str(&line, "; sending it again under the same key (--again)");
    say_of_send(send, &line);
    return code;
}

/* ---- all of it ---- */

static int open_attempts(struct send *send)
{
    if (!send->attempts_path)
        return EXIT_DONE;
    send->attempts = fopen(send->attempts_path, "we");
    if (!send->attempts)
        return command_failed(NAME, EXIT_USAGE, "cannot write %s: %s", send->attempts_path,
                              strerror(errno));
    fputs("attempt,delay_ms,status,code,notes\n", send->attempts);
    return EXIT_DONE;
}

/* Whoever repeats it after a crash needs the key. */
static void show_key(const struct send *send)
{
    BUF_AUTO struct buf line = buf_make(TEXT_MAX);
    buf_printf(&line, "key %s", send->made.minted);
    if (send->made.minted[0])
        say_of_send(send, &line);
}

static int prepare_send(struct send *send)
{
    BUF_AUTO struct buf problem = buf_make(TEXT_MAX);
    struct client_operation *operation = &send->made.operation;
    struct store_config config = store_config_default();
    config.path = send->store_path;
    if (client_make(&send->options.request, &send->made, &problem))
        send->http.origins = client_connect(&send->options.route, &operation->url, &problem);
    if (!send->http.origins)
        return command_misused(NAME, "%.*s", SLICE_ARG(buf_slice(&problem)));
    if (!client_name_record(operation, &send->made.arena, &send->runner.attempt))
        return command_failed(NAME, EXIT_UNAVAILABLE, "the body takes too much memory to hash");
    int code = open_attempts(send);
    return code == EXIT_DONE ? opener_open_store(NAME, config, &send->store) : code;
}

static int send_operation(struct send *send)
{
    CHECK(send->max_time_us > 0 && send->connect_us > 0 && send->deadline_us > 0);
    CHECK(send->remember_us > 0 && send->profile < RETRY_PROFILE_COUNT);
    send->http.operation = &send->made.operation;
    send->http.connect_us = send->connect_us;
    send->http.max_body = CLIENT_BODY_MAX;
    send->http.choices = &send->options.choices;
    client_http_init(&send->http);
    int code = prepare_send(send);
    if (code == EXIT_DONE && send->again)
        code = go_past_success(send);
    if (code != EXIT_DONE)
        return code;
    show_key(send);
    return run_send(send);
}

/* While the store may still write, what it writes from is kept until the process ends. */
static void close_send(struct send *send)
{
    if (send->attempts)
        fclose(send->attempts);
    http_origins_free(send->http.origins);
    if (send->result == RUNNER_NOT_STORED)
        return;
    if (send->store)
        store_close(send->store);
    client_http_fini(&send->http);
    client_made_fini(&send->made);
    request_options_fini(&send->options);
    mem_free(send);
}

static int run_send_command(const struct command *command, struct operands at)
{
    struct send *send = mem_zalloc(1, sizeof *send);
    if (!send)
        return fail_send();
    send->remember_us = REMEMBER_US;
    send->deadline_us = CLOCK_NEVER;
    send->max_time_us = MAX_TIME_US;
    send->connect_us = CONNECT_US;
    send->profile = RETRY_PROFILE_user_facing;
    send->options = (struct request_options)REQUEST_OPTIONS(NAME);
    int code = command_read(command, &at, send);
    if (code == EXIT_DONE) {
        request_options_end(&send->options, at.at[0]);
        code = send_operation(send);
    }
    close_send(send);
    return code;
}

/* ---- the row ---- */

#define OPTIONS struct send
const struct command command_send = {
    .name = "send",
    .summary = "send one request, retried under one key until it is done, and done once",
    .synopsis = "[-X METHOD] [-d DATA] [-H H]... [--key K] [OPTIONS] URL",
    .about = "Sends a request with an Idempotency-Key, and sends it again by a retry profile as "
             "long as the failure may pass by itself, always under the same key. The response goes "
             "to standard output, all else to standard error. Flags are curl's where they overlap; "
             "redirects are not followed.\n\n"
             "The key is stored before the first byte leaves. A success is remembered: the same "
             "key sends nothing again, and prints the kept response. Another request is refused.",
    .operand = "URL",
    .operands = {1, 1},
    .flags = FLAGS(REQUEST_FLAGS(options), ACCOUNT_FLAGS(options),
                   FLAG(profile, "profile", 0, "P", PROFILE,
                        "the retry profile (default user_facing; see `pawl backoff`)"),
                   FLAG(deadline_us, "deadline", 0, "D", SECONDS,
                        "no attempt goes on after D (30s, 5m), nor after the profile's total time"),
                   FLAG_MAX_TIME(max_time_us),
                   FLAG(connect_us, "connect-timeout", 0, "SECONDS", SECONDS,
                        "for one connection (default 5)"),
                   FLAG_REMEMBER(remember_us),
                   SWITCH(again, "again", 0, "send it again even if a success is remembered"),
                   FLAG(attempts_path, "attempts", 0, "FILE", ANY,
                        "write a line for each attempt: attempt,delay_ms,status,code,notes"),
                   FLAG(output, "output", 'o', "FILE", ANY, "write the response to FILE"),
                   SWITCH(include, "include", 'i', "print the response's headers, too"),
                   SWITCH(silent, "silent", 's', "print no progress and no reason of a failure"),
                   SWITCH(verbose, "verbose", 'v', "print each request's and response's headers"),
                   ROUTE_FLAGS(options.route), ANSWER_FLAGS(options), FLAG_KEY_VERSION(options),
                   FLAG_STORE(store_path)),
    .exits = {{EXIT_FINAL_ERROR, "the service refused it, or redirects it"},
              {EXIT_USAGE, NULL},
              {EXIT_BAD_DATA, "the key was used for another request"},
              {EXIT_UNAVAILABLE, "no attempt reached the service, or the store is down"},
              {EXIT_FAIL_STOP, NULL},
              {EXIT_TRY_AGAIN, "no attempt is left, or in progress elsewhere"},
              {EXIT_OUTCOME_UNKNOWN, "an attempt may have taken effect: repeat it under its key"},
              {EXIT_DEADLINE, NULL}},
    .run = run_send_command,
};
