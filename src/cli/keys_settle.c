/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator does to a record. core/record.h decides whether it may be done. */
#include "cli/command.h"
#include "cli/input.h"
#include "cli/keys.h"
#include "cli/print.h"
#include "core/errors.h"
#include <time.h>

#define PROBLEM_MAX ((size_t)1024)
#define MANY_MOST ((size_t)100000) /* of one status at once */

/* ---- what came of it ---- */

int keys_say(const struct keys_options *options, const struct keys_row *row, int code,
             const char *what)
{
    BUF_AUTO struct buf line = buf_make(SIZE_MAX);
    FILE *to = code == EXIT_DONE ? stdout : stderr;
    if (code != EXIT_DONE)
        buf_printf(&line, "pawl %s: ", options->command);
    keys_add_name(&line, &row->store);
    fprintf(to, "%.*s: %s\n", SLICE_ARG(buf_slice(&line)), what);
    return code;
}

static const int codes[] = {
    [KEYS_DONE] = EXIT_DONE,         [KEYS_SAME] = EXIT_DONE,       [KEYS_LATE] = EXIT_FINAL_ERROR,
    [KEYS_STALE] = EXIT_FINAL_ERROR, [KEYS_EARLY] = EXIT_TRY_AGAIN, [KEYS_LIVE] = EXIT_TRY_AGAIN,
};

static int explain(const struct keys_options *options, const struct keys_row *row,
                   const struct store_op *op)
{
    BUF_AUTO struct buf what = buf_make(SIZE_MAX);
    int code = codes[keys_describe(op, "use --force", &what)];
    buf_add_char(&what, '\0');
    return keys_say(options, row, code, buf_ok(&what) ? what.at : "done, but memory ran out");
}

static int run_act(struct keys_session *session, const struct keys_row *row, struct store_op *op)
{
    BUF_AUTO struct buf actor = buf_make(STORE_ACTOR_MAX);
    op->key_hash = row->store.key_hash;
    op->row_hint = row->store.id;
    keys_add_actor(&actor);
    op->actor = buf_ok(&actor) ? buf_slice(&actor) : SLICE("cli");
    int code = keys_run(session, op);
    op->actor = slice_of(NULL);
    return code;
}

int keys_act(struct keys_session *session, const struct keys_row *row, struct store_op *op)
{
    int code = run_act(session, row, op);
    return code == EXIT_DONE ? explain(session->options, row, op) : code;
}

/* ---- many at once ---- */

/* What came of each, by enum keys_end. */
struct tally {
    size_t ends[KEYS_LIVE + 1];
    int64_t seconds; /* the longest that one is too early by */
};

static int settle_row(struct keys_session *session, const struct keys_row *row,
                      const struct store_op *act, struct tally *tally)
{
    BUF_AUTO struct buf what = buf_make(SIZE_MAX);
    bool meant = record_in_doubt(&row->store.record, row->lease) &&
                 row->lease != RECORD_LEASE_LIVE &&
                 row->store.record.started_at < session->options->before;
    if (!meant)
        return EXIT_DONE;
    struct store_op op = *act;
    op.token = row->store.record.token;
    op.force = session->options->force;
    int code = run_act(session, row, &op);
    if (code != EXIT_DONE)
        return code;
    enum keys_end end = keys_describe(&op, "", &what);
    tally->ends[end]++;
    int64_t left = keys_seconds_left(op.store_now, op.record.quiet_at);
    if (end == KEYS_EARLY && left > tally->seconds)
        tally->seconds = left;
    return EXIT_DONE;
}

/* Those of one status; each is settled by the token that the list showed. */
static int settle_status(struct keys_session *session, const struct store_op *act,
                         struct tally *tally)
{
    KEYS_FOUND_AUTO struct keys_found found = {0};
    int code = keys_collect(session, MANY_MOST, &found);
    for (const struct keys_row *row = found.first; row && code == EXIT_DONE; row = row->next)
        code = settle_row(session, row, act, tally);
    return code;
}

static int sum_up(const struct tally *tally)
{
    size_t later = tally->ends[KEYS_EARLY] + tally->ends[KEYS_LIVE];
    size_t changed = tally->ends[KEYS_STALE] + tally->ends[KEYS_LATE];
    printf("%zu settled, %zu too early, %zu changed meanwhile\n",
           tally->ends[KEYS_DONE] + tally->ends[KEYS_SAME], later, changed);
    if (later > 0)
        fprintf(stderr, "try again in %lld s\n", (long long)(tally->seconds ? tally->seconds : 1));
    return later > 0 ? EXIT_TRY_AGAIN : changed > 0 ? EXIT_FINAL_ERROR : EXIT_DONE;
}

static int settle_many(const struct keys_options *options, const struct store_op *act)
{
    if (options->key.at || options->once.at || options->token || !options->rule.at ||
        options->before == 0)
        return command_misused(options->command,
                               "--unknown goes with --rule R and --before T, and no KEY or token");
    KEYS_SESSION_AUTO struct keys_session session = {0};
    struct keys_options wanted = *options;
    struct tally tally = {.seconds = 0};
    int code = keys_open(&session, &wanted);
    static const enum keys_status open[] = {KEYS_UNKNOWN, KEYS_PENDING, KEYS_RELEASED};
    for (size_t i = 0; i < 3 && code == EXIT_DONE; i++) {
        wanted.status = open[i];
        code = settle_status(&session, act, &tally);
    }
    return code == EXIT_DONE ? sum_up(&tally) : code;
}

/* ---- one ---- */

/* Finds the record and does `op` to it. */
static int settle(const struct keys_options *options, struct store_op *op)
{
    if (options->unknown)
        return settle_many(options, op);
    KEYS_SESSION_AUTO struct keys_session session = {0};
    KEYS_FOUND_AUTO struct keys_found found = {0};
    struct keys_row *row = NULL;
    int code = keys_open_one(&session, options, &found, &row);
    if (code != EXIT_DONE)
        return code;
    op->token = options->token;
    op->force = options->force;
    return keys_act(&session, row, op);
}

/* ---- the outcome an operator writes ---- */

static int read_body(const struct keys_options *options, struct buf *ret_body)
{
    if (options->body && options->body[0] == '@')
        return input_read(options->command, options->body + 1, ret_body);
    *ret_body = buf_make(INPUT_MAX);
    if (options->body)
        buf_add_str(ret_body, options->body);
    if (buf_ok(ret_body))
        return EXIT_DONE;
    return command_misused(options->command, "the body is too large");
}

static int make_outcome(const struct keys_options *options, struct outcome **ret_outcome)
{
    BUF_AUTO struct buf body = buf_make(0);
    BUF_AUTO struct buf problem = buf_make(PROBLEM_MAX);
    int code = read_body(options, &body);
    if (code != EXIT_DONE)
        return code;
    struct keys_answer answer = {
        .status = options->http_status, .headers = options->headers, .body = buf_slice(&body)};
    if (keys_make_outcome(&answer, &problem, ret_outcome))
        return EXIT_DONE;
    return command_misused(options->command, "%.*s", SLICE_ARG(buf_slice(&problem)));
}

/* ---- the acts ---- */

/* What is settled is named by its token. */
static int ask_for_token(const struct keys_options *options)
{
    if (options->token > 0 || options->unknown)
        return EXIT_DONE;
    return command_misused(options->command,
                           "needs --token N, the one that `pawl keys show` prints");
}

int keys_release(const struct keys_options *options)
{
    int code = ask_for_token(options);
    if (code != EXIT_DONE)
        return code;
    struct store_op op = {.kind = STORE_RELEASE_SETTLED};
    return settle(options, &op);
}

/* Whether what was asked for fits together: one way to settle it. */
static int review(const struct keys_options *options)
{
    bool has_answer = options->http_status || options->body;
    int code = ask_for_token(options);
    if (code != EXIT_DONE)
        return code;
    if (options->probe && options->unknown)
        return command_misused(options->command, "--probe settles one record, named by its KEY");
    if (options->released && (has_answer || options->headers.n > 0))
        return command_misused(options->command, "--released has no status, header or body");
    if (options->probe && (has_answer || options->released || options->force))
        return command_misused(options->command, "--probe finds out by itself: no --status, "
                                                 "--body, --released or --force");
    if (options->probe != (options->config != NULL))
        return command_misused(options->command, "--probe and --config FILE go together");
    if (!options->released && !options->probe && options->http_status == 0)
        return command_misused(options->command,
                               "how did it end? give --status N or --released, or --probe");
    return EXIT_DONE;
}

int keys_resolve(const struct keys_options *options)
{
    int code = review(options);
    if (code == EXIT_DONE && options->released)
        return keys_release(options);
    if (code == EXIT_DONE && options->probe)
        return keys_probe(options);
    if (code != EXIT_DONE)
        return code;
    struct outcome *outcome = NULL;
    code = make_outcome(options, &outcome);
    if (code != EXIT_DONE)
        return code;
    struct store_op op = {
        .kind = STORE_RESOLVE, .http_status = options->http_status, .outcome = outcome};
    code = settle(options, &op);
    outcome_unref(outcome);
    return code;
}

int keys_forget(const struct keys_options *options)
{
    struct store_op op = {.kind = STORE_FORGET};
    int code = settle(options, &op);
    /* Who is told "forgotten" gets no replay any more, from whichever process. */
    struct timespec left = {.tv_nsec = KEYS_CACHES_US * 1000};
    while (code == EXIT_DONE && nanosleep(&left, &left) != 0)
        continue;
    return code;
}
