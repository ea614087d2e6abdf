/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/keys.h"
#include "base/timestamp.h"

#include "cli/command.h"
#include "cli/print.h"
#include <unistd.h>

#define LIMIT_DEFAULT 1000

/* ---- looking ---- */

static int list(const struct keys_options *options)
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
        if (!keys_print_json(&view, false))
            return EXIT_UNAVAILABLE;
    }
    if (more)
        fprintf(stderr, "pawl keys list: there are more than these %zu; see --limit\n",
                options->limit);
    return EXIT_DONE;
}

/* The kept body as it is; on a terminal without what would steer it. */
static int print_body(const struct keys_options *options, const struct outcome *outcome)
{
    if (!outcome) {
        fprintf(stderr, "pawl %s: no body is kept\n", options->command);
        return EXIT_FINAL_ERROR;
    }
    BUF_AUTO struct buf escaped = buf_make(SIZE_MAX);
    struct slice body = outcome->body;
    if (isatty(STDOUT_FILENO)) {
        print_escaped(&escaped, body);
        buf_add_char(&escaped, '\n');
        body = buf_slice(&escaped);
    }
    if (body.len > 0)
        fwrite(body.at, 1, body.len, stdout);
    return EXIT_DONE;
}

static int print_shown(const struct keys_options *options, const struct keys_view *view)
{
    if (options->print_body)
        return print_body(options, view->outcome);
    if (options->json)
        return keys_print_json(view, true) ? EXIT_DONE : EXIT_UNAVAILABLE;
    keys_print_record(view);
    return EXIT_DONE;
}

/* Only of an answer that is whole anything is told. */
static enum store_status unpack(struct keys_session *session, const struct keys_view *view)
{
    COMPRESS_AUTO struct compress compress = {0};
    if (!view->outcome)
        return STORE_DONE;
    enum outcome_unpacked unpacked = outcome_unpack(view->outcome, &compress);
    if (unpacked == OUTCOME_DAMAGED)
        store_condemn(session->store, view->row->id, &session->parker.parker);
    return unpacked == OUTCOME_UNPACKED ? STORE_DONE : STORE_NO_MEMORY;
}

static int show(const struct keys_options *options)
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
        status = unpack(&session, &view);
    code = keys_complain(&session, status);
    if (code == EXIT_DONE && view.record->status == RECORD_ABSENT) {
        fprintf(stderr, "pawl %s: the record has just expired or been deleted\n", options->command);
        code = EXIT_FINAL_ERROR;
    } else if (code == EXIT_DONE) {
        code = print_shown(options, &view);
    }
    outcome_unref(view.outcome);
    return code;
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

static int read_header(struct keys_options *options, const char *text)
{
    struct slice name;
    struct slice value = slice_cut(slice_of(text), ':', &name);
    if (!value.at || !header_is_valid(name, value))
        return command_misused(options->command, "--header wants `Name: value`");
    if (!headers_add(&options->headers, name, slice_trim(value)))
        return command_misused(options->command, "too many headers");
    return EXIT_DONE;
}

static int take(void *to, enum flag_id flag, const struct flag_value *value)
{
    struct keys_options *options = to;
    switch (flag) {
    case FLAG_STORE:
        options->store = value->text;
        break;
    case FLAG_TENANT:
        options->tenant = slice_of(value->text);
        break;
    case FLAG_RULE:
        options->rule = slice_of(value->text);
        break;
    case FLAG_KEY:
        options->key = slice_of(value->text);
        break;
    case FLAG_ONCE:
        options->once = slice_of(value->text);
        break;
    case FLAG_BODY:
        options->body = value->text;
        break;
    case FLAG_JSON:
        options->json = true;
        break;
    case FLAG_LAPSED:
        options->lapsed = true;
        break;
    case FLAG_PRINT_BODY:
        options->print_body = true;
        break;
    case FLAG_UNKNOWN:
        options->unknown = true;
        break;
    case FLAG_BEFORE:
        if (timestamp_parse(slice_of(value->text), &options->before))
            break;
        return command_misused(options->command, "--before wants a time: 2026-01-31T12:00:00Z");
    case FLAG_FORCE:
        options->force = true;
        break;
    case FLAG_PROBE:
        options->probe = true;
        break;
    case FLAG_CONFIG:
        options->config = value->text;
        break;
    case FLAG_RELEASED:
        options->released = true;
        break;
    case FLAG_STATUS:
        options->status = (enum keys_status)(KEYS_PENDING + value->choice);
        break;
    case FLAG_LIMIT:
        options->limit = (size_t)value->number;
        break;
    case FLAG_TOKEN:
        options->token = value->number;
        break;
    case FLAG_HTTP_STATUS:
        options->http_status = (int)value->number;
        break;
    case FLAG_HEADER:
        return read_header(options, value->text);
    default:
        break;
    }
    return EXIT_DONE;
}

static int run(enum command_id id, struct operands at, int (*act)(const struct keys_options *))
{
    struct keys_options options = {.command = command_at(id)->name, .limit = LIMIT_DEFAULT};
    int code = command_read(id, &at, take, &options);
    if (code != EXIT_DONE)
        return command_end(id, code);
    if (at.n > 0)
        options.key = slice_of(at.at[0]);
    return print_flush(options.command, act(&options));
}

int command_keys_list(int argc, char **argv)
{
    return run(COMMAND_keys_list, (struct operands){argc, argv}, list);
}

int command_keys_show(int argc, char **argv)
{
    return run(COMMAND_keys_show, (struct operands){argc, argv}, show);
}

int command_keys_resolve(int argc, char **argv)
{
    return run(COMMAND_keys_resolve, (struct operands){argc, argv}, keys_resolve);
}

int command_keys_release(int argc, char **argv)
{
    return run(COMMAND_keys_release, (struct operands){argc, argv}, keys_release);
}

int command_keys_forget(int argc, char **argv)
{
    return run(COMMAND_keys_forget, (struct operands){argc, argv}, keys_forget);
}

int command_keys_stats(int argc, char **argv)
{
    return run(COMMAND_keys_stats, (struct operands){argc, argv}, stats);
}

int command_keys_audit(int argc, char **argv)
{
    return run(COMMAND_keys_audit, (struct operands){argc, argv}, keys_audit);
}
