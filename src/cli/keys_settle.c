/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator does to a record. core/record.h decides whether it may be done. */
#include "base/json.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/keys.h"
#include "cli/print.h"
#include "core/errors.h"
#include <time.h>

#define FIELDS_MAX ((size_t)64 * 1024)
#define ARENA_MAX (INPUT_MAX * 40)
#define CACHES_NS 100000000L /* how long a gateway may answer from its cache unasked */

/* ---- what came of it ---- */

/* One line, `RULE "KEY": WHAT`, on stdout when it was done and on stderr when not. */
static int say(const struct keys_options *options, const struct keys_row *row, int code,
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

static void describe_done(const struct store_op *op, struct buf *what)
{
    if (op->kind == STORE_FORGET)
        buf_add_str(what, "forgotten; under this key the next request is a new operation");
    else if (op->kind == STORE_RELEASE_SETTLED)
        buf_add_str(what, "released; the next attempt will do the operation");
    else
        buf_printf(what, "resolved as %s with HTTP status %d; duplicates get this answer",
                   record_status_name(op->record.status), op->http_status);
}

/* The same act again is done; another one came too late. */
static int describe_already(const struct store_op *op, struct buf *what)
{
    const struct record *record = &op->record;
    bool released = record->status == RECORD_PENDING;
    if (released) {
        buf_add_str(what, "is released already; nothing was changed");
        return EXIT_DONE;
    }
    buf_printf(what, "is %s already, with HTTP status %d; nothing was changed",
               record_status_name(record->status), record->http_status);
    bool same = op->kind == STORE_RESOLVE && record->http_status == op->http_status;
    return same ? EXIT_DONE : EXIT_FINAL_ERROR;
}

static void describe_stale(const struct store_op *op, struct buf *what)
{
    if (record_is_gone(&op->record, op->store_now))
        buf_add_str(what, "the record is gone; nothing was changed");
    else
        buf_printf(what,
                   "token %lld is stale, the current one is %lld; somebody acquired it since: look "
                   "at it again; nothing was changed",
                   (long long)op->token, (long long)op->record.token);
}

static void describe_early(const struct store_op *op, struct buf *what)
{
    int64_t left = keys_seconds_left(op->store_now, op->record.quiet_at);
    buf_printf(what,
               "too early: a request may still be on its way, so that \"it did not happen\" cannot "
               "be known; try again in %lld s",
               (long long)(left > 0 ? left : 1));
}

static void describe_live(const struct store_op *op, struct buf *what)
{
    buf_printf(what,
               "its lease is live (%lld s left): somebody is at it; wait, or use --force if its "
               "owner is surely dead",
               (long long)keys_seconds_left(0, op->lease_left_us));
}

static int explain(const struct keys_options *options, const struct keys_row *row,
                   const struct store_op *op)
{
    BUF_AUTO struct buf what = buf_make(SIZE_MAX);
    int code = EXIT_DONE;
    switch (op->write) {
    case RECORD_WRITTEN:
        describe_done(op, &what);
        break;
    case RECORD_ALREADY:
        code = describe_already(op, &what);
        break;
    case RECORD_STALE:
        describe_stale(op, &what);
        code = EXIT_FINAL_ERROR;
        break;
    case RECORD_EARLY:
        describe_early(op, &what);
        code = EXIT_TRY_AGAIN;
        break;
    case RECORD_LIVE:
        describe_live(op, &what);
        code = EXIT_TRY_AGAIN;
        break;
    }
    buf_add_char(&what, '\0');
    return say(options, row, code, buf_ok(&what) ? what.at : "done, but memory ran out");
}

/* Finds the record and does `op` to it. */
static int settle(const struct keys_options *options, struct store_op *op)
{
    KEYS_SESSION_AUTO struct keys_session session = {0};
    KEYS_FOUND_AUTO struct keys_found found = {0};
    struct keys_row *row = NULL;
    int code = keys_open(&session, options);
    if (code == EXIT_DONE)
        code = keys_find(&session, &found, &row);
    if (code != EXIT_DONE)
        return code;
    op->key_hash = row->store.key_hash;
    op->row_hint = row->store.id;
    op->token = options->token;
    op->force = options->force;
    BUF_AUTO struct buf actor = buf_make(STORE_ACTOR_MAX);
    keys_add_actor(&actor);
    op->actor = buf_ok(&actor) ? buf_slice(&actor) : SLICE("cli");
    code = keys_run(&session, op);
    return code == EXIT_DONE ? explain(options, row, op) : code;
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

static bool is_json(struct slice body)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct json *root;
    return json_parse(&arena, body, &root, NULL) == JSON_OK;
}

/* A JSON body needs no --header to be replayed as what it is. */
static int make_fields(const struct keys_options *options, struct slice body, struct buf *fields)
{
    struct headers headers = options->headers;
    for (size_t i = 0; i < headers.n; i++) {
        struct headers one = {.n = 1, .at = {headers.at[i]}};
        size_t before = fields->len;
        outcome_keep_fields(&one, true, fields);
        if (buf_ok(fields) && fields->len == before)
            return command_misused(options->command, "%.*s is not kept with an answer",
                                   SLICE_ARG(headers.at[i].name));
    }
    if (body.len > 0 && !headers_find(&headers, SLICE("Content-Type")) && is_json(body))
        buf_add_str(fields, "Content-Type: application/json\r\n");
    if (buf_ok(fields))
        return EXIT_DONE;
    return command_misused(options->command, "the headers are too large");
}

static int make_outcome(const struct keys_options *options, struct outcome **ret_outcome)
{
    BUF_AUTO struct buf body = buf_make(0);
    BUF_AUTO struct buf fields = buf_make(FIELDS_MAX);
    int code = read_body(options, &body);
    if (code == EXIT_DONE)
        code = make_fields(options, buf_slice(&body), &fields);
    if (code != EXIT_DONE)
        return code;
    int status = options->http_status;
    if (body.len > 0 && (status == 204 || status == 304))
        return command_misused(options->command, "an answer with status %d has no body", status);
    struct outcome *outcome =
        outcome_new(status, status >= 400 && status < 500, buf_slice(&fields), buf_slice(&body));
    if (!outcome) {
        fprintf(stderr, "pawl %s: out of memory\n", options->command);
        return EXIT_UNAVAILABLE;
    }
    *ret_outcome = outcome;
    return EXIT_DONE;
}

/* ---- the acts ---- */

int keys_release(const struct keys_options *options)
{
    struct store_op op = {.kind = STORE_RELEASE_SETTLED};
    return settle(options, &op);
}

int keys_resolve(const struct keys_options *options)
{
    if (options->released && (options->http_status || options->body || options->headers.n > 0))
        return command_misused(options->command, "--released has no status, header or body");
    if (options->released)
        return keys_release(options);
    if (options->http_status == 0)
        return command_misused(options->command, "how did it end? give --status N or --released");
    struct outcome *outcome = NULL;
    int code = make_outcome(options, &outcome);
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
    struct timespec left = {.tv_nsec = CACHES_NS};
    while (code == EXIT_DONE && nanosleep(&left, &left) != 0)
        continue;
    return code;
}
