/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/keys/keys.h"

#include "base/check.h"
#include "base/mem.h"
#include "cli/command/command.h"
#include "cli/lib/print.h"
#include "client/operation.h"
#include "client/succeeded.h"
#include "job/output.h"
#include <unistd.h>

struct list_keys_options {
    struct keys_options keys;
    enum keys_status status;
    bool lapsed;
    size_t limit;
};

/* Of those that take no more, too. */
struct show_key_options {
    struct keys_options keys;
    bool print_body;
};

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

static int list_keys(void *given)
{
    const struct list_keys_options *options = given;
    const struct keys_wanted wanted = {
        .status = options->status, .lapsed = options->lapsed, .limit = options->limit + 1};
    CHECK(options->limit > 0);
    KEYS_SESSION_AUTO struct keys_session session = {0};
    KEYS_FOUND_AUTO struct keys_found found = {0};
    int code = keys_open(&session, &options->keys);
    if (code == EXIT_DONE)
        code = keys_collect(&session, wanted, &found);
    if (code != EXIT_DONE)
        return code;
    int64_t now = store_now(session.store);
    bool more = found.n > options->limit;
    keys_found_cut(&found, options->limit);
    if (!options->keys.json)
        keys_print_table(stdout, &found, now);
    for (const struct keys_row *row = found.first; row && options->keys.json; row = row->next) {
        struct keys_view view = {&row->store, &row->store.record,
                                 row->lease,  now,
                                 NULL,        store_digest_key(session.store)};
        code = print_keys_view(&options->keys, &view, false);
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

static int show_record(void *given)
{
    const struct show_key_options *show = given;
    const struct keys_options *options = &show->keys;
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
        code = show->print_body ? print_body(options, view.outcome)
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
    int code = keys_collect(session, (struct keys_wanted){.limit = 2}, &found);
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

static int tell_if_succeeded(void *given)
{
    struct keys_options *options = given;
    CHECK(options->key.at);
    KEYS_SESSION_AUTO struct keys_session session = {0};
    enum exit_code told = EXIT_FINAL_ERROR;
    if (!options->rule.at)
        options->rule = SLICE(CLIENT_RULE);
    int code = keys_open(&session, options);
    if (code != EXIT_DONE)
        return code;
    if (options->tenant.at || !slice_eq(options->rule, SLICE(CLIENT_RULE)))
        return succeeded_by_rule(&session);
    code = keys_complain(
        &session, client_succeeded(session.store, options->key, &session.parker.parker, &told));
    return code == EXIT_DONE ? tell_success(options, told) : code;
}

static int show_key_counts(void *given)
{
    const struct keys_options *options = given;
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

int keys_run(const struct command *command, struct operands at)
{
    CHECK(command->act && command->size >= sizeof(struct keys_options));
    struct keys_options *options = mem_zalloc(1, command->size);
    if (!options)
        return command_failed(command->name, EXIT_UNAVAILABLE, "out of memory");
    memcpy(options, command->options, command->size);
    options->command = command->name;
    int code = command_read(command, &at, options);
    if (code == EXIT_DONE && at.n > 0)
        options->key = slice_of(at.at[0]);
    if (code == EXIT_DONE)
        code = command->act(options);
    mem_free(options);
    return code;
}

/* ---- the rows ---- */

#define NO_RECORD EXIT_FINAL_ERROR, "no such record"

const struct command command_keys = {
    .name = "keys",
    .summary = "inspect a store, and settle records whose outcome is unknown",
    .synopsis = "SUBCOMMAND [OPTIONS]",
    .about = "Inspects a store, even while a gateway runs on it, and settles records.",
    .is_group = true,
};

#define OPTIONS struct list_keys_options
const struct command command_keys_list = {
    .name = "keys list",
    .summary = "list records, by status, tenant, rule or key",
    .synopsis = "[OPTIONS]",
    .about = "Lists the records of a store, oldest first. With --json each record is an object on "
             "a line of its own.",
    .flags = FLAGS(
        FLAG(status, "status", 0, "S", WORDS(KEYS_STATUS_NAMES), "only records of this status"),
        SWITCH(lapsed, "lapsed", 0,
               "only pending records whose lease has expired: the owner stopped renewing it"),
        WHICH_FLAGS, FLAG(keys.key, "key", 0, "K", ANY, "only records with this key"),
        FLAG_LIMIT(limit), FLAG_JSON(keys.json), FLAG_STORE(keys.store)),
    .exits = {{EXIT_USAGE, NULL}, {NO_STORE}},
    ACTS(keys_run, list_keys, .limit = KEYS_LIMIT_DEFAULT),
};

#undef OPTIONS
#define OPTIONS struct show_key_options
const struct command command_keys_show = {
    .name = "keys show",
    .summary = "print one record with its token",
    .synopsis = "KEY [OPTIONS]\n"
                "--once VALUE [OPTIONS]",
    .about = "Prints everything about one record, which is found by its key or its once "
             "value." WHICH_ONE,
    .operand = "KEY",
    .operands = {0, 1},
    .flags =
        FLAGS(WHICH_FLAGS, SWITCH(print_body, "body", 0, "print only the stored response body"),
              FLAG_JSON(keys.json), FLAG_STORE(keys.store)),
    .exits = {{NO_RECORD}, {WHICH_RECORD}, {NO_STORE}},
    ACTS(keys_run, show_record),
};

const struct command command_keys_succeeded = {
    .name = "keys succeeded",
    .summary = "tell by the exit code whether an operation is remembered as done",
    .synopsis = "KEY [--rule RULE] [OPTIONS]",
    .about = "Looks whether the success of an operation is remembered: of `pawl send`, `pawl "
             "queue` and the library, unless --rule names a rule of a gateway. What is not "
             "remembered may have been done, and forgotten since." WHICH_ONE,
    .operand = "KEY",
    .operands = {1, 1},
    .flags = FLAGS(FLAG_RULE(keys.rule), FLAG_TENANT(keys.tenant), FLAG_STORE(keys.store)),
    .exits = {{EXIT_FINAL_ERROR, "no success is remembered"},
              {WHICH_RECORD},
              {NO_STORE},
              {EXIT_TRY_AGAIN, "it is being sent, or waits in the queue"},
              {EXIT_OUTCOME_UNKNOWN, "it is in doubt whether it was done"}},
    ACTS(keys_run, tell_if_succeeded),
};

const struct command command_keys_stats = {
    .name = "keys stats",
    .summary = "count records by status",
    .synopsis = "[OPTIONS]",
    .about = "Prints the number of records, by status.",
    .flags = FLAGS(FLAG_JSON(keys.json), FLAG_STORE(keys.store)),
    .exits = {{EXIT_USAGE, NULL}, {NO_STORE}},
    ACTS(keys_run, show_key_counts),
};
