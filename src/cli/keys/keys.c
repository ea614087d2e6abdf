/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/keys/keys.h"

#include "cli/command/command.h"
#include "cli/lib/print.h"
#include "client/operation.h"
#include "client/succeeded.h"
#include "job/output.h"
#include <unistd.h>

#define LIMIT_DEFAULT 1000

/* ---- list, show, stats ---- */

static int print_keys_view(const struct keys_options *options, const struct keys_view *view,
                           bool whole)
{
    BUF_AUTO struct buf text = buf_make(SIZE_MAX);
    if (!options->json) {
        keys_print_record(&text, view);
        return print_buf(options->command, &text);
    }
    keys_add_json(&text, view, whole);
    buf_add_char(&text, '\n');
    return print_buf(options->command, &text);
}

static int list_keys(const struct keys_options *options)
{
    KEYS_SESSION_AUTO struct keys_session session = {0};
    KEYS_FOUND_AUTO struct keys_found found = {0};
    int code = keys_open(&session, options);
    if (code == EXIT_DONE)
        code = keys_collect(&session, options->limit + 1, &found);
    if (code != EXIT_DONE)
        return code;
    int64_t now = store_now(session.store);
    bool more = found.n > options->limit;
    keys_found_cut(&found, options->limit);
    if (!options->json)
        keys_print_table(stdout, &found, now);
    for (const struct keys_row *row = found.first; row && options->json; row = row->next) {
        struct keys_view view = {&row->store, &row->store.record,
                                 row->lease,  now,
                                 NULL,        store_digest_key(session.store)};
        code = print_keys_view(options, &view, false);
        if (code != EXIT_DONE)
            return code;
    }
    if (more)
        fprintf(stderr, "pawl keys list: only the first %zu are shown; see --limit\n",
                options->limit);
    return EXIT_DONE;
}

/* As it is; on a terminal without what would steer it. */
static void print_bytes(FILE *to, struct slice bytes)
{
    BUF_AUTO struct buf escaped = buf_make(SIZE_MAX);
    if (isatty(fileno(to))) {
        print_escaped(&escaped, bytes);
        buf_add_char(&escaped, '\n');
        bytes = buf_slice(&escaped);
    }
    if (bytes.len > 0)
        fwrite(bytes.at, 1, bytes.len, to);
}

/* The kept body; of a job what it wrote, each stream to its own. */
static int print_body(const struct keys_options *options, const struct outcome *outcome)
{
    if (!outcome)
        return command_failed(options->command, EXIT_FINAL_ERROR, "no body is kept");
    struct slice body = outcome->body, bytes;
    enum child_stream stream;
    if (output_exit_code(outcome) == OUTPUT_NO_CODE)
        print_bytes(stdout, body);
    else
        while (output_next(&body, &stream, &bytes))
            print_bytes(stream == CHILD_OUTPUT ? stdout : stderr, bytes);
    return EXIT_DONE;
}

/* Nothing is printed of a response that is damaged. */
static enum store_status unpack_view(const struct keys_options *options, struct keys_view *view)
{
    COMPRESS_AUTO struct compress compress = {0};
    if (!view->outcome)
        return STORE_DONE;
    enum outcome_unpacked unpacked = outcome_unpack(view->outcome, &compress);
    if (unpacked != OUTCOME_DAMAGED)
        return unpacked == OUTCOME_UNPACKED ? STORE_DONE : STORE_NO_MEMORY;
    fprintf(stderr, "%s: what was kept of the response is damaged\n", options->command);
    outcome_unref(view->outcome);
    view->outcome = NULL;
    return STORE_DONE;
}

static int show_record(const struct keys_options *options)
{
    KEYS_SESSION_AUTO struct keys_session session = {0};
    KEYS_FOUND_AUTO struct keys_found found = {0};
    struct keys_row *row = NULL;
    struct keys_view view = {0};
    int code = keys_open_one(&session, options, &found, &row);
    if (code != EXIT_DONE)
        return code;
    enum store_status status = keys_look(session.store, row, &session.parker.parker, &view);
    if (status == STORE_DONE)
        status = unpack_view(options, &view);
    code = keys_complain(&session, status);
    if (code == EXIT_DONE && view.record->status == RECORD_ABSENT)
        code = command_failed(options->command, EXIT_FINAL_ERROR,
                              "the record has just expired or been deleted");
    else if (code == EXIT_DONE)
        code = options->print_body ? print_body(options, view.outcome)
                                   : print_keys_view(options, &view, true);
    outcome_unref(view.outcome);
    return code;
}

static int tell_success(const struct keys_options *options, enum exit_code code)
{
    if (code == EXIT_DONE)
        return code;
    return command_failed(options->command, code, "%s",
                          code == EXIT_TRY_AGAIN ? "it is being sent, or waits in the queue"
                          : code == EXIT_OUTCOME_UNKNOWN
                              ? "it is in doubt whether it was done"
                              : "no success of it is remembered: it may have been done, "
                                "and forgotten");
}

/* Of a gateway's rule. */
static int succeeded_by_rule(struct keys_session *session)
{
    const struct keys_options *options = session->options;
    KEYS_FOUND_AUTO struct keys_found found = {0};
    int code = keys_collect(session, 2, &found);
    if (code != EXIT_DONE)
        return code;
    if (found.n > 1)
        return command_misused(options->command,
                               "several tenants have this key; select one with --tenant");
    const struct keys_row *row = found.first;
    return tell_success(
        options, row ? client_success_of(&row->store.record, row->lease, store_now(session->store))
                     : EXIT_FINAL_ERROR);
}

static int succeeded(const struct keys_options *options)
{
    KEYS_SESSION_AUTO struct keys_session session = {0};
    enum exit_code told = EXIT_FINAL_ERROR;
    int code = keys_open(&session, options);
    if (code != EXIT_DONE)
        return code;
    if (options->tenant.at || !slice_eq(options->rule, SLICE(CLIENT_RULE)))
        return succeeded_by_rule(&session);
    code = keys_complain(
        &session, client_succeeded(session.store, options->key, &session.parker.parker, &told));
    return code == EXIT_DONE ? tell_success(options, told) : code;
}

static int stats(const struct keys_options *options)
{
    KEYS_SESSION_AUTO struct keys_session session = {0};
    int code = keys_open(&session, options);
    if (code != EXIT_DONE)
        return code;
    struct store_counts counts = store_counts(session.store);
    printf(options->json ? "{\"pending\":%lld,\"released\":%lld,\"complete\":%lld,\"failed\":%lld,"
                           "\"unknown\":%lld}\n"
                         : "pending   %lld\nreleased  %lld\ncomplete  %lld\nfailed    %lld\n"
                           "unknown   %lld\n",
           (long long)counts.pending, (long long)counts.released, (long long)counts.complete,
           (long long)counts.failed, (long long)counts.unknown);
    return EXIT_DONE;
}

/* ---- the command line ---- */

#define PLACE(member) FLAG_PLACE(struct keys_options, member)
static const struct flag_place places[FLAG_COUNT] = {
    [FLAG_STORE] = PLACE(store),         [FLAG_TENANT] = PLACE(tenant),
    [FLAG_RULE] = PLACE(rule),           [FLAG_KEY] = PLACE(key),
    [FLAG_ONCE] = PLACE(once),           [FLAG_JSON] = PLACE(json),
    [FLAG_STATUS] = PLACE(status),       [FLAG_LAPSED] = PLACE(lapsed),
    [FLAG_LIMIT] = PLACE(limit),         [FLAG_PRINT_BODY] = PLACE(print_body),
    [FLAG_TOKEN] = PLACE(token),         [FLAG_UNKNOWN] = PLACE(unknown),
    [FLAG_BEFORE] = PLACE(before),       [FLAG_FORCE] = PLACE(force),
    [FLAG_FORGET_FORCE] = PLACE(force),  [FLAG_REASON] = PLACE(reason),
    [FLAG_RELEASED] = PLACE(released),   [FLAG_PROBE] = PLACE(probe),
    [FLAG_CONFIG] = PLACE(config),       [FLAG_HTTP_STATUS] = PLACE(http_status),
    [FLAG_EXIT_CODE] = PLACE(exit_code), [FLAG_BODY] = PLACE(body),
    [FLAG_HEADER] = PLACE(headers),
};

static int (*const acts[COMMAND_COUNT])(const struct keys_options *options) = {
    [COMMAND_keys_list] = list_keys,       [COMMAND_keys_show] = show_record,
    [COMMAND_keys_resolve] = keys_resolve, [COMMAND_keys_release] = keys_release,
    [COMMAND_keys_forget] = keys_forget,   [COMMAND_keys_succeeded] = succeeded,
    [COMMAND_keys_stats] = stats,          [COMMAND_keys_audit] = keys_audit,
};

int command_keys(enum command_id id, struct operands at)
{
    struct keys_options options = {
        .command = command_at(id)->name, .limit = LIMIT_DEFAULT, .exit_code = -1};
    int code = command_read(id, &at, places, &options);
    if (code != EXIT_DONE)
        return code;
    if (at.n > 0)
        options.key = slice_of(at.at[0]);
    if (id == COMMAND_keys_succeeded && !options.rule.at)
        options.rule = SLICE(CLIENT_RULE);
    return acts[id](&options);
}
