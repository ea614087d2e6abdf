/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/keys.h"

#include "base/nearest.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/print.h"
#include "core/errors.h"
#include <unistd.h>

#define LIMIT_DEFAULT 1000
#define LIMIT_MOST 1000000

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
        struct keys_view view = {&row->store, &row->store.record, row->lease, now, NULL};
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

static int show(const struct keys_options *options)
{
    KEYS_SESSION_AUTO struct keys_session session = {0};
    KEYS_FOUND_AUTO struct keys_found found = {0};
    struct keys_row *row = NULL;
    int code = keys_open(&session, options);
    if (code == EXIT_DONE)
        code = keys_find(&session, &found, &row);
    if (code != EXIT_DONE)
        return code;
    struct store_op op = {
        .kind = STORE_LOOK, .key_hash = row->store.key_hash, .row_hint = row->store.id};
    code = keys_run(&session, &op);
    if (code == EXIT_DONE && op.record.status == RECORD_ABSENT) {
        fprintf(stderr, "pawl %s: the record has just gone\n", options->command);
        code = EXIT_FINAL_ERROR;
    } else if (code == EXIT_DONE) {
        struct keys_view view = {&row->store, &op.record, op.lease, op.store_now, op.found};
        code = print_shown(options, &view);
    }
    outcome_unref(op.found);
    return code;
}

static int stats(const struct keys_options *options)
{
    KEYS_SESSION_AUTO struct keys_session session = {0};
    int code = keys_open(&session, options);
    if (code != EXIT_DONE)
        return code;
    struct store_counts counts = store_counts(session.store);
    printf(options->json ? "{\"pending\":%lld,\"complete\":%lld,\"failed\":%lld,\"unknown\":%lld}\n"
                         : "pending   %lld\ncomplete  %lld\nfailed    %lld\nunknown   %lld\n",
           (long long)counts.pending, (long long)counts.complete, (long long)counts.failed,
           (long long)counts.unknown);
    return EXIT_DONE;
}

/* ---- the command line ---- */

#define STORE_HELP                                                                                 \
    "      --store PATH     the store (default: $PAWL_STORE, $XDG_STATE_HOME/pawl/pawl.db)\n"      \
    "  -h, --help           this text\n"
#define WHICH_HELP                                                                                 \
    "      --tenant T       of this tenant (\"\": of none) and\n"                                  \
    "      --rule R         this rule, where several records have the key\n"
#define ACT_HELP                                                                                   \
    "      --token N        the token that `pawl keys show` printed; another one changes "         \
    "nothing\n"
#define FORCE_HELP "      --force          even while the lease is live: its owner is surely dead\n"
#define ACT_EXITS                                                                                  \
    "\nexit codes: 0 done, 1 no such record, stale token or too late, 2 usage or an ambiguous\n"   \
    "key, 69 no store, 75 not yet\n"

static const char list_help[] = "usage: pawl keys list [OPTIONS]\n\n"
                                "Lists the records of a store, oldest first.\n\n"
                                "      --status S       pending, complete, failed or unknown\n"
                                "      --lapsed         pending, but the owner's lease is over\n"
                                "      --tenant T       of this tenant (\"\": of none)\n"
                                "      --rule R         of this rule\n"
                                "      --key K          with this key\n"
                                "      --limit N        at most so many (default 1000)\n"
                                "      --json           one JSON object a line\n" STORE_HELP;
static const char show_help[] =
    "usage: pawl keys show KEY [OPTIONS]\n\n"
    "Prints all that is known of one record.\n\n" WHICH_HELP
    "      --body           print the kept body, and nothing else\n"
    "      --json           as one JSON object\n" STORE_HELP
    "\nexit codes: 0 done, 1 no such record, 2 usage or an ambiguous key, 69 no store\n";
static const char resolve_help[] =
    "usage: pawl keys resolve KEY --token N --status CODE [--header H]... [--body @FILE|TEXT]\n"
    "       pawl keys resolve KEY --token N --released\n\n"
    "Settles a record whose outcome is unknown: with the answer that duplicates shall get, or\n"
    "with \"it did not happen\", so that the next attempt does it.\n\n" ACT_HELP
    "      --status CODE    it happened: the HTTP status (200 to 599)\n"
    "      --header H       a header line, `Name: value`; a JSON body has its Content-Type\n"
    "      --body TEXT      the body; @FILE reads it from a file, @- from standard input\n"
    "      --released       it did not happen\n" FORCE_HELP WHICH_HELP STORE_HELP ACT_EXITS;
static const char release_help[] =
    "usage: pawl keys release KEY --token N [OPTIONS]\n\n"
    "Says that it did not happen, as `pawl keys resolve --released` does: the next attempt does\n"
    "it.\n\n" ACT_HELP FORCE_HELP WHICH_HELP STORE_HELP ACT_EXITS;
static const char forget_help[] =
    "usage: pawl keys forget KEY [OPTIONS]\n\n"
    "Deletes a record. Under its key the next request is a new operation.\n\n" ACT_HELP FORCE_HELP
        WHICH_HELP STORE_HELP ACT_EXITS;
static const char stats_help[] = "usage: pawl keys stats [OPTIONS]\n\n"
                                 "Prints how many records there are, by status.\n\n"
                                 "      --json           as one JSON object\n" STORE_HELP;
static const char audit_help[] =
    "usage: pawl keys audit [OPTIONS]\n\n"
    "Prints who resolved, released or forgot which record, oldest first; each act is kept for\n"
    "400 days.\n\n"
    "      --limit N        the last N (default 1000)\n"
    "      --json           one JSON object a line\n" STORE_HELP;

enum option_value {
    OPTION_STORE = 256,
    OPTION_TENANT,
    OPTION_RULE,
    OPTION_KEY,
    OPTION_JSON,
    OPTION_STATUS,
    OPTION_LAPSED,
    OPTION_LIMIT,
    OPTION_PRINT_BODY,
    OPTION_TOKEN,
    OPTION_FORCE,
    OPTION_RELEASED,
    OPTION_HTTP_STATUS,
    OPTION_HEADER,
    OPTION_BODY,
};

/* clang-format off */
#define EVERYWHERE {"store", required_argument, NULL, OPTION_STORE}, \
                   {"help", no_argument, NULL, 'h'}
#define WHICH {"tenant", required_argument, NULL, OPTION_TENANT}, \
              {"rule", required_argument, NULL, OPTION_RULE}
#define JSON {"json", no_argument, NULL, OPTION_JSON}
#define ACT WHICH, {"token", required_argument, NULL, OPTION_TOKEN}, \
            {"force", no_argument, NULL, OPTION_FORCE}
#define END {NULL, 0, NULL, 0}
/* clang-format on */

static const struct option list_options[] = {EVERYWHERE,
                                             WHICH,
                                             JSON,
                                             {"key", required_argument, NULL, OPTION_KEY},
                                             {"status", required_argument, NULL, OPTION_STATUS},
                                             {"lapsed", no_argument, NULL, OPTION_LAPSED},
                                             {"limit", required_argument, NULL, OPTION_LIMIT},
                                             END};
static const struct option show_options[] = {
    EVERYWHERE, WHICH, JSON, {"body", no_argument, NULL, OPTION_PRINT_BODY}, END};
static const struct option resolve_options[] = {
    EVERYWHERE,
    ACT,
    {"status", required_argument, NULL, OPTION_HTTP_STATUS},
    {"header", required_argument, NULL, OPTION_HEADER},
    {"body", required_argument, NULL, OPTION_BODY},
    {"released", no_argument, NULL, OPTION_RELEASED},
    END};
static const struct option act_options[] = {EVERYWHERE, ACT, END};
static const struct option stats_options[] = {EVERYWHERE, JSON, END};
static const struct option audit_options[] = {
    EVERYWHERE, JSON, {"limit", required_argument, NULL, OPTION_LIMIT}, END};

enum needs {
    NEEDS_NOTHING,
    NEEDS_KEY,
    NEEDS_KEY_AND_TOKEN,
};

static const struct subcommand {
    const char *name;
    const char *command;
    const char *about;
    const char *help;
    const struct option *options;
    enum needs needs;
    int (*run)(const struct keys_options *options);
} subcommands[] = {
    {"list", "keys list", "records, by status, tenant, rule or key", list_help, list_options,
     NEEDS_NOTHING, list},
    {"show", "keys show", "all of one record, its token too", show_help, show_options, NEEDS_KEY,
     show},
    {"resolve", "keys resolve", "say how an unknown operation ended", resolve_help, resolve_options,
     NEEDS_KEY_AND_TOKEN, keys_resolve},
    {"release", "keys release", "say that it did not happen", release_help, act_options,
     NEEDS_KEY_AND_TOKEN, keys_release},
    {"forget", "keys forget", "delete a record", forget_help, act_options, NEEDS_KEY, keys_forget},
    {"stats", "keys stats", "how many records there are", stats_help, stats_options, NEEDS_NOTHING,
     stats},
    {"audit", "keys audit", "who settled or deleted records by hand", audit_help, audit_options,
     NEEDS_NOTHING, keys_audit},
};
#define SUBCOMMANDS (sizeof subcommands / sizeof *subcommands)

static int read_status(struct keys_options *options, const char *text)
{
    for (enum record_status status = RECORD_PENDING; status <= RECORD_UNKNOWN; status++) {
        if (strcmp(text, record_status_name(status)) != 0)
            continue;
        options->status = status;
        return EXIT_DONE;
    }
    return command_misused(options->command,
                           "--status is pending, complete, failed or unknown, not `%s`", text);
}

static int read_number(struct keys_options *options, enum option_value which, const char *text)
{
    int64_t value = 0;
    switch (which) {
    case OPTION_LIMIT:
        if (!options_number(text, 1, LIMIT_MOST, &value))
            return command_misused(options->command, "--limit is 1 to %d, not `%s`", LIMIT_MOST,
                                   text);
        options->limit = (size_t)value;
        return EXIT_DONE;
    case OPTION_TOKEN:
        if (!options_number(text, 1, KEYS_TOKEN_MOST, &options->token))
            return command_misused(options->command, "`%s` is not a token", text);
        return EXIT_DONE;
    default:
        if (!options_number(text, 200, 599, &value))
            return command_misused(options->command, "--status is 200 to 599, not `%s`", text);
        options->http_status = (int)value;
        return EXIT_DONE;
    }
}

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

static int read_option(struct keys_options *options, enum option_value which, const char *text)
{
    switch (which) {
    case OPTION_STORE:
        options->store = text;
        return EXIT_DONE;
    case OPTION_TENANT:
        options->tenant = slice_of(text);
        return EXIT_DONE;
    case OPTION_RULE:
        options->rule = slice_of(text);
        return EXIT_DONE;
    case OPTION_KEY:
        options->key = slice_of(text);
        return EXIT_DONE;
    case OPTION_BODY:
        options->body = text;
        return EXIT_DONE;
    case OPTION_JSON:
        options->json = true;
        return EXIT_DONE;
    case OPTION_LAPSED:
        options->lapsed = true;
        return EXIT_DONE;
    case OPTION_PRINT_BODY:
        options->print_body = true;
        return EXIT_DONE;
    case OPTION_FORCE:
        options->force = true;
        return EXIT_DONE;
    case OPTION_RELEASED:
        options->released = true;
        return EXIT_DONE;
    case OPTION_STATUS:
        return read_status(options, text);
    case OPTION_HEADER:
        return read_header(options, text);
    case OPTION_LIMIT:
    case OPTION_TOKEN:
    case OPTION_HTTP_STATUS:
        return read_number(options, which, text);
    }
    return EXIT_USAGE;
}

static int take_key(struct keys_options *options, enum needs needs, int argc, char **argv)
{
    int wanted = needs == NEEDS_NOTHING ? 0 : 1;
    if (argc < wanted)
        return command_misused(options->command, "which record? give its KEY");
    if (argc > wanted)
        return command_misused(options->command, "does not take the argument `%s`", argv[wanted]);
    if (wanted)
        options->key = slice_of(argv[0]);
    if (needs == NEEDS_KEY_AND_TOKEN && options->token == 0)
        return command_misused(options->command,
                               "needs --token N, which `pawl keys show KEY` prints");
    return EXIT_DONE;
}

/* An exit code, or -1: help was printed. */
static int parse(const struct subcommand *subcommand, int argc, char **argv,
                 struct keys_options *options)
{
    int c;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":h", subcommand->options, NULL)) != -1) {
        if (c == 'h') {
            fputs(subcommand->help, stdout);
            return -1;
        }
        if (c == '?' || c == ':')
            return options_refused(subcommand->command, subcommand->options, c, argv);
        int code = read_option(options, (enum option_value)c, optarg);
        if (code != EXIT_DONE)
            return code;
    }
    return take_key(options, subcommand->needs, argc - optind, argv + optind);
}

static int run(const struct subcommand *subcommand, int argc, char **argv)
{
    struct keys_options options = {.command = subcommand->command, .limit = LIMIT_DEFAULT};
    int code = parse(subcommand, argc, argv, &options);
    if (code == EXIT_DONE)
        code = subcommand->run(&options);
    return print_flush(subcommand->command, code < 0 ? EXIT_DONE : code);
}

static int print_help(FILE *to)
{
    fputs("usage: pawl keys SUBCOMMAND [OPTIONS]\n\n"
          "Looks into a store, also while a gateway runs on it, and settles records.\n\n",
          to);
    for (size_t i = 0; i < SUBCOMMANDS; i++)
        fprintf(to, "  %-8s %s\n", subcommands[i].name, subcommands[i].about);
    fputs("\n`pawl keys SUBCOMMAND -h` tells more.\n", to);
    return to == stdout ? EXIT_DONE : EXIT_USAGE;
}

static int no_such_subcommand(const char *name)
{
    for (size_t i = 0; i < SUBCOMMANDS; i++) {
        size_t distance = nearest_distance(slice_of(name), slice_of(subcommands[i].name));
        if (nearest_is_near(slice_of(name), distance))
            return command_misused("keys", "there is no `%s`; did you mean `%s`?", name,
                                   subcommands[i].name);
    }
    return command_misused("keys", "there is no `%s`", name);
}

int command_keys(int argc, char **argv)
{
    if (argc < 2)
        return print_help(stderr);
    if (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0)
        return print_flush("keys", print_help(stdout));
    for (size_t i = 0; i < SUBCOMMANDS; i++)
        if (strcmp(argv[1], subcommands[i].name) == 0)
            return run(&subcommands[i], argc - 1, argv + 1);
    return no_such_subcommand(argv[1]);
}
