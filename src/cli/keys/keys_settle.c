/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator does to a record. core/record.h decides whether it may be done. */
#include "base/check.h"
#include "cli/command/command.h"
#include "cli/keys/keys.h"
#include "cli/lib/actor.h"
#include "cli/lib/input.h"
#include "cli/lib/print.h"
#include "core/errors.h"
#include "job/output.h"
#include <assert.h>

#define PROBLEM_MAX ((size_t)1024)

/* ---- what came of it ---- */

static const int codes[] = {
    [KEYS_DONE] = EXIT_DONE,
    [KEYS_SAME] = EXIT_DONE,
    [KEYS_LATE] = EXIT_FINAL_ERROR,
    [KEYS_STALE] = EXIT_FINAL_ERROR,
    [KEYS_EARLY] = EXIT_TRY_AGAIN,
    [KEYS_LIVE] = EXIT_TRY_AGAIN,
    [KEYS_OPEN] = EXIT_OUTCOME_UNKNOWN,
    [KEYS_OTHER] = EXIT_USAGE,
};
static_assert(sizeof codes / sizeof *codes == KEYS_OTHER + 1, "an exit code for each end");

static int report_act_json(struct keys_session *session, const struct keys_act *act)
{
    BUF_AUTO struct buf line = buf_make(SIZE_MAX);
    keys_add_act_json(&line, act, store_digest_key(session->store));
    buf_add_char(&line, '\n');
    if (!buf_ok(&line))
        return command_failed(session->options->command, EXIT_UNAVAILABLE,
                              "done; the result cannot be printed: out of memory");
    fwrite(line.at, 1, line.len, stdout);
    return codes[act->end];
}

static int report_act(struct keys_session *session, const struct keys_act *act)
{
    BUF_AUTO struct buf line = buf_make(SIZE_MAX);
    int code = codes[act->end];
    if (session->options->json)
        return report_act_json(session, act);
    if (code != EXIT_DONE)
        buf_printf(&line, "pawl %s: ", session->options->command);
    keys_add_name(&line, &act->row->store);
    fprintf(code == EXIT_DONE ? stdout : stderr, "%.*s: %.*s\n", SLICE_ARG(buf_slice(&line)),
            SLICE_ARG(buf_slice(&act->what)));
    return code;
}

int keys_say(struct keys_session *session, const struct keys_row *row, enum keys_end end,
             const char *what)
{
    KEYS_ACT_AUTO struct keys_act act = {.row = row, .end = end, .what = buf_make(SIZE_MAX)};
    struct keys_row present = *row;
    struct keys_view view = {0};
    enum store_status status =
        session->options->json ? keys_look(session->store, &present, &session->parker.parker, &view)
                               : STORE_DONE;
    outcome_unref(view.outcome);
    if (status != STORE_DONE)
        return keys_complain(session, status);
    act.record = present.store.record;
    act.lease = present.lease;
    act.now = view.now;
    buf_add_str(&act.what, what);
    return report_act(session, &act);
}

static void sign_keys_act(const struct keys_session *session, struct keys_act *act,
                          struct buf *actor)
{
    const struct store_actor by = actor_of(session->options->reason, actor);
    act->actor = by.name;
    act->insist = "use --force";
    act->reason = by.reason;
}

int keys_settle(struct keys_session *session, const struct keys_row *row, struct keys_act act)
{
    CHECK(session->store && row && !act.row);
    BUF_AUTO struct buf actor = buf_make(STORE_ACTOR_MAX);
    sign_keys_act(session, &act, &actor);
    act.row = row;
    int code = keys_complain(session, keys_act(session->store, &act, &session->parker.parker));
    if (code == EXIT_DONE)
        code = report_act(session, &act);
    keys_act_fini(&act);
    return code;
}

/* ---- many at once ---- */

static bool report_keys_act(void *argument, const struct keys_act *act)
{
    struct keys_session *session = argument;
    return !session->options->json || report_act_json(session, act) != EXIT_UNAVAILABLE;
}

static void add_tally(struct keys_tally *sum, const struct keys_tally *tally)
{
    sum->settled += tally->settled;
    sum->too_early += tally->too_early;
    sum->changed += tally->changed;
    sum->in_use += tally->in_use;
    sum->other += tally->other;
    sum->seconds = tally->seconds > sum->seconds ? tally->seconds : sum->seconds;
    sum->next = tally->next;
}

static bool has_exit_code(const struct keys_settle_options *options)
{
    return options->exit_code >= 0;
}

static int sum_up(const struct keys_settle_options *options, const struct keys_tally *tally)
{
    FILE *to = options->keys.json ? stderr : stdout;
    fprintf(to, "%zu settled, %zu too early, %zu changed meanwhile", tally->settled,
            tally->too_early, tally->changed);
    if (tally->in_use > 0)
        fprintf(to, ", %zu in use", tally->in_use);
    if (tally->other > 0)
        fprintf(to, ", %zu %s left alone", tally->other,
                has_exit_code(options) ? "requests" : "commands (--exit-code)");
    fputc('\n', to);
    if (tally->too_early > 0)
        fprintf(stderr, "try again in %lld s\n",
                (long long)(tally->seconds > 0 ? tally->seconds : 1));
    return tally->too_early + tally->in_use > 0 ? EXIT_TRY_AGAIN
           : tally->changed > 0                 ? EXIT_FINAL_ERROR
                                                : EXIT_DONE;
}

/* A rule that no record is of is a mistyped one. */
static int know_rule(struct keys_session *session)
{
    BUF_AUTO struct buf problem = buf_make(PROBLEM_MAX);
    const struct keys_options *options = session->options;
    int code = keys_complain(session, keys_know_rule(session->store, options->rule, 0,
                                                     &session->parker.parker, &problem));
    if (code != EXIT_DONE || problem.len == 0)
        return code;
    return command_failed(options->command, EXIT_FINAL_ERROR, "%.*s",
                          SLICE_ARG(buf_slice(&problem)));
}

static int settle_all(struct keys_session *session, const struct keys_settle_options *options,
                      struct keys_act act)
{
    CHECK(options->unknown && options->before > 0 && options->token == 0);
    BUF_AUTO struct buf actor = buf_make(STORE_ACTOR_MAX);
    sign_keys_act(session, &act, &actor);
    act.force = options->force;
    struct keys_tally sum = {.next = 0}, tally;
    struct keys_many many = {.rule = options->keys.rule,
                             .tenant = options->keys.tenant,
                             .before = options->before,
                             .limit = KEYS_MANY_MOST,
                             .act = act,
                             .each = report_keys_act,
                             .argument = session};
    do {
        many.after = sum.next;
        enum store_status status =
            keys_act_on_many(session->store, &many, &session->parker.parker, &tally);
        add_tally(&sum, &tally);
        int code = keys_complain(session, status);
        if (code != EXIT_DONE) {
            (void)sum_up(options, &sum);
            return code;
        }
    } while (sum.next != 0 && !ferror(stdout));
    return sum_up(options, &sum);
}

static int settle_many(const struct keys_settle_options *options, struct keys_act act)
{
    if (options->keys.key.at || options->keys.once.at || options->token || !options->keys.rule.at ||
        options->before <= 0)
        return command_misused(options->keys.command,
                               "--unknown needs --rule and --before, and takes no KEY or --token");
    KEYS_SESSION_AUTO struct keys_session session = {0};
    int code = keys_open(&session, &options->keys);
    if (code == EXIT_DONE)
        code = know_rule(&session);
    return code == EXIT_DONE ? settle_all(&session, options, act) : code;
}

/* ---- one ---- */

/* Finds the record and acts on it. */
static int settle_keys(const struct keys_settle_options *options, struct keys_act act)
{
    if (options->unknown)
        return settle_many(options, act);
    KEYS_SESSION_AUTO struct keys_session session = {0};
    KEYS_FOUND_AUTO struct keys_found found = {0};
    struct keys_row *row = NULL;
    int code = keys_open_one(&session, &options->keys, &found, &row);
    if (code != EXIT_DONE)
        return code;
    act.token = options->token;
    act.force = options->force;
    return keys_settle(&session, row, act);
}

/* ---- the outcome an operator writes ---- */

static int read_settle_body(const struct keys_settle_options *options, struct buf *ret_body)
{
    if (options->body && options->body[0] == '@')
        return input_read(options->keys.command, options->body + 1, ret_body);
    *ret_body = buf_make(INPUT_MAX);
    if (options->body)
        buf_add_str(ret_body, options->body);
    if (buf_ok(ret_body))
        return EXIT_DONE;
    return command_misused(options->keys.command, "the body is too large");
}

/* Of a command that has written `body`. */
static int make_exit(const struct keys_settle_options *options, const struct buf *body,
                     struct outcome **ret_outcome)
{
    COMPRESS_AUTO struct compress compress = {0};
    struct output output;
    output_init(&output, INPUT_MAX);
    output_add(&output, CHILD_OUTPUT, buf_slice(body));
    *ret_outcome = output_keep(&output, options->exit_code, SLICE(""), &compress);
    output_fini(&output);
    return *ret_outcome ? EXIT_DONE
                        : command_failed(options->keys.command, EXIT_UNAVAILABLE, "out of memory");
}

static int make_settled_outcome(const struct keys_settle_options *options,
                                struct outcome **ret_outcome)
{
    CHECK(has_exit_code(options) == (options->http_status == 0));
    BUF_AUTO struct buf body = buf_make(0);
    BUF_AUTO struct buf problem = buf_make(PROBLEM_MAX);
    int code = read_settle_body(options, &body);
    if (code != EXIT_DONE)
        return code;
    if (has_exit_code(options))
        return make_exit(options, &body, ret_outcome);
    struct keys_response response = {
        .status = options->http_status, .headers = options->headers, .body = buf_slice(&body)};
    if (keys_make_outcome(&response, &problem, ret_outcome))
        return EXIT_DONE;
    return command_misused(options->keys.command, "%.*s", SLICE_ARG(buf_slice(&problem)));
}

/* ---- the acts ---- */

/* What is settled is named by its token. */
static int ask_for_token(const struct keys_settle_options *options)
{
    if (options->token > 0 || options->unknown)
        return EXIT_DONE;
    return command_misused(options->keys.command, "needs --token N; `pawl keys show` prints it");
}

static int release_key(void *given)
{
    const struct keys_settle_options *options = given;
    int code = ask_for_token(options);
    if (code != EXIT_DONE)
        return code;
    return settle_keys(options, (struct keys_act){.kind = KEYS_RELEASE});
}

/* Whether the options fit together: one way to settle it. */
static int review_settle_options(const struct keys_settle_options *options)
{
    bool has_response = options->http_status || options->body || has_exit_code(options);
    int code = ask_for_token(options);
    if (code != EXIT_DONE)
        return code;
    if (options->probe && options->unknown)
        return command_misused(options->keys.command, "--probe needs the KEY of one record");
    if (options->released && (has_response || options->headers.n > 0))
        return command_misused(options->keys.command,
                               "--released takes no --status, --exit-code, --header, "
                               "--body");
    if (options->probe && (has_response || options->released || options->force))
        return command_misused(options->keys.command,
                               "--probe takes no --status, --body, --released, "
                               "--force");
    if (!options->probe != !options->config)
        return command_misused(options->keys.command, "--probe and --config FILE go together");
    if (has_exit_code(options) && (options->http_status || options->headers.n > 0))
        return command_misused(options->keys.command, "--exit-code takes no --status, --header");
    if (!options->released && !options->probe && !has_exit_code(options) &&
        options->http_status == 0)
        return command_misused(options->keys.command,
                               "needs --status CODE, --exit-code N, --released "
                               "or --probe: how did it end?");
    return EXIT_DONE;
}

static int resolve_key(void *given)
{
    const struct keys_settle_options *options = given;
    int code = review_settle_options(options);
    if (code == EXIT_DONE && options->released)
        return release_key(given);
    if (code == EXIT_DONE && options->probe)
        return keys_probe(options);
    if (code != EXIT_DONE)
        return code;
    struct outcome *outcome = NULL;
    code = make_settled_outcome(options, &outcome);
    if (code != EXIT_DONE)
        return code;
    struct keys_act act = {.kind = KEYS_RESOLVE,
                           .http_status = options->http_status,
                           .is_exit = has_exit_code(options),
                           .exit_code = options->exit_code,
                           .outcome = outcome};
    code = settle_keys(options, act);
    outcome_unref(outcome);
    return code;
}

static int forget_key(void *options)
{
    return settle_keys(options, (struct keys_act){.kind = KEYS_FORGET});
}

/* ---- the rows ---- */

#define FLAG_TOKEN(member)                                                                         \
    FLAG(member, "token", 0, "N", INT(1, KEYS_TOKEN_MOST),                                         \
         "the record's token, from `pawl keys show`; a stale one changes nothing")
#define DOUBT_FLAGS                                                                                \
    FLAG_TOKEN(token),                                                                             \
        SWITCH(unknown, "unknown", 0,                                                              \
               "all records of --rule in doubt: unknown, lapsed, or released in doubt"),           \
        FLAG(before, "before", 0, "T", TIME,                                                       \
             "with --unknown: last tried or probed before T (2026-01-31T12:00:00Z)")
#define FLAG_FORCE(member)                                                                         \
    SWITCH(member, "force", 0,                                                                     \
           "even if the record is in use; only if you are certain that its owner is dead")
#define NOT_SETTLED                                                                                \
    EXIT_FINAL_ERROR, "no such record, a stale token, or settled differently in the meantime"
#define NOT_YET EXIT_TRY_AGAIN, "too early, or the record is in use"

#define OPTIONS struct keys_settle_options
const struct command command_keys_resolve = {
    .name = "keys resolve",
    .summary = "settle a record, with the response or as not done",
    .synopsis = "KEY --token N --status CODE [--header H]... [--body @FILE|TEXT]\n"
                "KEY --token N --exit-code N [--body @FILE|TEXT]\n"
                "KEY --token N --released\n"
                "KEY --token N --probe -c FILE [-H 'Authorization: ...']\n"
                "--rule R --unknown --before T (--status CODE | --exit-code N | --released)",
    .about = "Settles a record whose outcome is unknown: either with the response that duplicates "
             "will get (of a job: its exit code and output), or as not done, so that the next "
             "attempt runs the operation." WHICH_ONE "\n\n"
             "--probe queries the service as the gateway would: a 2xx becomes the response, a 404 "
             "means that it did not happen, anything else leaves the record unknown.",
    .operand = "KEY",
    .operands = {0, 1},
    .flags = FLAGS(
        DOUBT_FLAGS,
        FLAG(http_status, "status", 0, "CODE", INT(200, 599), "it happened, with this HTTP status"),
        FLAG(exit_code, "exit-code", 0, "N", INT(0, 255),
             "of a job: it was run, and ended with exit code N; --body is what it wrote"),
        FLAG(headers, "header", 'H', "H", LIST(0),
             "a header, `Name: value`, of the response, or with --probe of the request"),
        FLAG(body, "body", 0, "@FILE|TEXT", ANY,
             "the response body; @FILE reads it from a file, @- from standard input"),
        SWITCH(released, "released", 0, "it did not happen"),
        SWITCH(probe, "probe", 0,
               "query the service by the probe of the record's rule in --config"),
        FLAG_CONFIG(config), FLAG_FORCE(force), FLAG_REASON(keys.reason), WHICH_FLAGS,
        FLAG_JSON(keys.json), FLAG_STORE(keys.store)),
    .exits = {{NOT_SETTLED},
              {WHICH_RECORD},
              {NO_STORE},
              {NOT_YET},
              {EXIT_OUTCOME_UNKNOWN, "the probe was inconclusive"}},
    ACTS(keys_run, resolve_key, .exit_code = -1),
};

const struct command command_keys_release = {
    .name = "keys release",
    .summary = "settle a record as not done",
    .synopsis = "KEY --token N [OPTIONS]\n"
                "--rule R --unknown --before T [OPTIONS]",
    .about =
        "Settles a record as not done, as `pawl keys resolve --released` does: the next attempt "
        "runs the operation. No record is released before its `quiet at`. With --unknown it "
        "releases all records of a rule that are in doubt, and prints how many." WHICH_ONE,
    .operand = "KEY",
    .operands = {0, 1},
    .flags = FLAGS(DOUBT_FLAGS, FLAG_FORCE(force), FLAG_REASON(keys.reason), WHICH_FLAGS,
                   FLAG_JSON(keys.json), FLAG_STORE(keys.store)),
    .exits = {{NOT_SETTLED}, {WHICH_RECORD}, {NO_STORE}, {NOT_YET}},
    ACTS(keys_run, release_key, .exit_code = -1),
};

const struct command command_keys_forget = {
    .name = "keys forget",
    .summary = "delete a record",
    .synopsis = "KEY [OPTIONS]",
    .about =
        "Deletes a record: the next request under its key is a new operation. A record whose "
        "outcome is not settled (pending or unknown) needs its --token, and is not deleted before "
        "its `quiet at`. --force deletes it anyway; its operation may then happen twice." WHICH_ONE,
    .operand = "KEY",
    .operands = {0, 1},
    .flags = FLAGS(
        FLAG_TOKEN(token),
        SWITCH(force, "force", 0,
               "delete it even without --token, before its `quiet at`, or while it is in use"),
        FLAG_REASON(keys.reason), WHICH_FLAGS, FLAG_JSON(keys.json), FLAG_STORE(keys.store)),
    .exits = {{NOT_SETTLED}, {WHICH_RECORD}, {NO_STORE}, {NOT_YET}},
    ACTS(keys_run, forget_key, .exit_code = -1),
};
