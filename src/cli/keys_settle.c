/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator does to a record. core/record.h decides whether it may be done. */
#include "cli/command.h"
#include "cli/input.h"
#include "cli/keys.h"
#include "cli/print.h"
#include "core/errors.h"
#include <time.h>

#define PROBLEM_MAX ((size_t)1024)

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

static int explain(const struct keys_options *options, const struct keys_row *row,
                   const struct store_op *op)
{
    BUF_AUTO struct buf what = buf_make(SIZE_MAX);
    static const int codes[] = {
        [KEYS_DONE] = EXIT_DONE,        [KEYS_SAME] = EXIT_DONE,
        [KEYS_LATE] = EXIT_FINAL_ERROR, [KEYS_STALE] = EXIT_FINAL_ERROR,
        [KEYS_EARLY] = EXIT_TRY_AGAIN,  [KEYS_LIVE] = EXIT_TRY_AGAIN,
    };
    int code = codes[keys_describe(op, "use --force", &what)];
    buf_add_char(&what, '\0');
    return keys_say(options, row, code, buf_ok(&what) ? what.at : "done, but memory ran out");
}

int keys_act(struct keys_session *session, const struct keys_row *row, struct store_op *op)
{
    BUF_AUTO struct buf actor = buf_make(STORE_ACTOR_MAX);
    op->key_hash = row->store.key_hash;
    op->row_hint = row->store.id;
    keys_add_actor(&actor);
    op->actor = buf_ok(&actor) ? buf_slice(&actor) : SLICE("cli");
    int code = keys_run(session, op);
    return code == EXIT_DONE ? explain(session->options, row, op) : code;
}

/* Finds the record and does `op` to it. */
static int settle(const struct keys_options *options, struct store_op *op)
{
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

int keys_release(const struct keys_options *options)
{
    struct store_op op = {.kind = STORE_RELEASE_SETTLED};
    return settle(options, &op);
}

/* Whether what was asked for fits together: one way to settle it. */
static int review(const struct keys_options *options)
{
    bool has_answer = options->http_status || options->body;
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
