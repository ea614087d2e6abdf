/* SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "base/slice.h"
#include "cli/command.h"
#include "operator/keys.h"

#define WHICH FLAG_TENANT, FLAG_RULE, FLAG_ONCE
#define NO_RECORD EXIT_FINAL_ERROR, "there is no such record"
#define NOT_SETTLED EXIT_FINAL_ERROR, "no such record, a stale token, or it ended otherwise"
#define WHICH_RECORD EXIT_USAGE, "usage, or a key that several records have"
#define NO_STORE EXIT_UNAVAILABLE, "the store cannot be used"
#define NOT_YET EXIT_TRY_AGAIN, "too early, or the record is in use"

static const struct command rows[COMMAND_COUNT] = {
    [COMMAND_serve] =
        {.name = "serve",
         .summary = "the gateway: a reverse proxy that makes retried requests happen once",
         .synopsis = "-c FILE [-t] [--store PATH] [--demo]",
         .about =
             "Runs the gateway. SIGTERM and SIGINT stop accepting, let running requests end, and "
             "exit 0; a second signal ends it at once. SIGHUP reads the config again; a bad "
             "config is refused, and the old one stays in force.",
         .needs = FLAG_CONFIG,
         .flags = {FLAG_CONFIG, FLAG_TEST, FLAG_SERVE_STORE, FLAG_DEMO},
         .exits = {{EXIT_USAGE, NULL},
                   {EXIT_UNAVAILABLE, "store or address not available"},
                   {EXIT_FAIL_STOP, NULL}}},
    [COMMAND_keys] =
        {.name = "keys",
         .summary = "look into a store, and settle records whose outcome is unknown",
         .synopsis = "SUBCOMMAND [OPTIONS]",
         .about = "Looks into a store, also while a gateway runs on it, and settles records.",
         .is_group = true},
    [COMMAND_keys_list] = {.name = "keys list",
                           .summary = "records, by status, tenant, rule or key",
                           .synopsis = "[OPTIONS]",
                           .about =
                               "Lists the records of a store, oldest first. As JSON each record is "
                               "an object on a line of its own.",
                           .flags = {FLAG_STATUS, FLAG_LAPSED, WHICH, FLAG_KEY, FLAG_LIMIT,
                                     FLAG_JSON, FLAG_STORE},
                           .exits = {{EXIT_USAGE, NULL}, {NO_STORE}}},
    [COMMAND_keys_show] =
        {.name = "keys show",
         .summary = "all of one record, its token too",
         .synopsis = "KEY [OPTIONS]\n--once VALUE [OPTIONS]",
         .about = "Prints all that is known of one record: the one that the key leads to, or that "
                  "has the once value. Where several have it, --tenant and --rule say which.",
         .operand = "KEY",
         .operands_most = 1,
         .flags = {WHICH, FLAG_PRINT_BODY, FLAG_JSON, FLAG_STORE},
         .exits = {{NO_RECORD}, {WHICH_RECORD}, {NO_STORE}}},
    [COMMAND_keys_resolve] =
        {.name = "keys resolve",
         .summary = "say how an unknown operation ended",
         .synopsis = "KEY --token N --status CODE [--header H]... [--body @FILE|TEXT]\n"
                     "KEY --token N --released\n"
                     "KEY --token N --probe -c FILE [-H 'Authorization: ...']\n"
                     "--rule R --unknown --before T --status CODE | --released",
         .about =
             "Settles a record whose outcome is unknown: with the response that "
             "duplicates get, or with \"it did not happen\", so that the next attempt does it.\n\n"
             "--probe asks the service as a gateway would: 2xx is the response, 404 says that it "
             "did not happen, anything else leaves it unknown.",
         .operand = "KEY",
         .operands_most = 1,
         .flags = {FLAG_TOKEN, FLAG_UNKNOWN, FLAG_BEFORE, FLAG_HTTP_STATUS, FLAG_HEADER, FLAG_BODY,
                   FLAG_RELEASED, FLAG_PROBE, FLAG_CONFIG, FLAG_FORCE, WHICH, FLAG_JSON,
                   FLAG_STORE},
         .exits = {{NOT_SETTLED},
                   {WHICH_RECORD},
                   {NO_STORE},
                   {NOT_YET},
                   {EXIT_OUTCOME_UNKNOWN, "the probe was inconclusive"}}},
    [COMMAND_keys_release] =
        {.name = "keys release",
         .summary = "say that it did not happen",
         .synopsis = "KEY --token N [OPTIONS]\n--rule R --unknown --before T [OPTIONS]",
         .about =
             "Says that it did not happen, as `pawl keys resolve --released` does: the next "
             "attempt does it. No record is released before its `quiet at`. With --unknown: "
             "all records of a rule that are in doubt, each by its own token; prints how many.",
         .operand = "KEY",
         .operands_most = 1,
         .flags = {FLAG_TOKEN, FLAG_UNKNOWN, FLAG_BEFORE, FLAG_FORCE, WHICH, FLAG_JSON, FLAG_STORE},
         .exits = {{NOT_SETTLED}, {WHICH_RECORD}, {NO_STORE}, {NOT_YET}}},
    [COMMAND_keys_forget] =
        {.name = "keys forget",
         .summary = "delete a record",
         .synopsis = "KEY [OPTIONS]",
         .about =
             "Deletes a record: the next request under its key is a new operation. A record "
             "whose outcome is open (pending or unknown) needs its --token, and is not deleted "
             "before its `quiet at`. --force deletes it all the same; its operation may then "
             "happen twice.",
         .operand = "KEY",
         .operands_most = 1,
         .flags = {FLAG_TOKEN, FLAG_FORCE, WHICH, FLAG_JSON, FLAG_STORE},
         .exits = {{NOT_SETTLED}, {WHICH_RECORD}, {NO_STORE}, {NOT_YET}}},
    [COMMAND_keys_stats] = {.name = "keys stats",
                            .summary = "how many records there are",
                            .synopsis = "[OPTIONS]",
                            .about = "Prints how many records there are, by status.",
                            .flags = {FLAG_JSON, FLAG_STORE},
                            .exits = {{EXIT_USAGE, NULL}, {NO_STORE}}},
    [COMMAND_keys_audit] =
        {.name = "keys audit",
         .summary = "who settled or deleted records by hand",
         .synopsis = "[OPTIONS]",
         .about =
             "Prints who resolved, released or forgot which record, oldest first; of more acts "
             "than --limit, the last ones. Each act is kept for 400 days. As JSON each act is an "
             "object on a line of its own.",
         .flags = {FLAG_LIMIT, FLAG_JSON, FLAG_STORE},
         .exits = {{EXIT_USAGE, NULL}, {NO_STORE}}},
    [COMMAND_hash] =
        {.name = "hash",
         .summary = "print the payload hash of a body, or the key in a header value",
         .synopsis = "[--canonical] [--content-type TYPE] [--json] [FILE]\n"
                     "--key VALUE [--strict] [--json]",
         .about = "Prints the payload hash of a body: SHA-256 of its canonical form, 64 hex "
                  "digits. Reads standard input without FILE, or where it is `-`; at most 64 MiB.",
         .operand = "FILE",
         .operands_most = 1,
         .flags = {FLAG_CANONICAL, FLAG_CONTENT_TYPE, FLAG_HEADER_KEY, FLAG_STRICT, FLAG_JSON},
         .exits = {{EXIT_FINAL_ERROR, "cannot write"},
                   {EXIT_USAGE, "usage, or FILE cannot be read"},
                   {EXIT_BAD_DATA, "not JSON, no key, or too large"}}},
    [COMMAND_config] =
        {.name = "config",
         .summary = "describe options, or print the effective configuration",
         .synopsis = "SUBCOMMAND [OPTIONS]",
         .about = "Describes the options of the config, or prints the effective configuration.",
         .is_group = true},
    [COMMAND_config_explain] =
        {.name = "config explain",
         .summary = "every option with its default, or the effective configuration",
         .synopsis = "[-c FILE] [--json] [OPTION]",
         .about = "Without FILE: every option with its default and what it is for, as YAML; or all "
                  "that there is to know of one OPTION.\n\n"
                  "With FILE: every option with the value that counts, for each rule, and the line "
                  "that says so, as YAML that means the same as FILE. What the environment puts in "
                  "is shown as it is written, ${NAME}.",
         .operand = "OPTION",
         .operands_most = 1,
         .flags = {FLAG_CONFIG, FLAG_JSON},
         .exits = {{EXIT_USAGE, NULL}}},
    [COMMAND_errors] =
        {.name = "errors",
         .summary = "the errors that pawl responds with, and what to do about them",
         .synopsis = "[--json] [CODE]",
         .about = "Prints every `error_code`: its HTTP status, whether the same request under the "
                  "same key can end differently, whether a new key is safe, the exit code of "
                  "commands, and what the caller does about it. A code that ends in `.*` stands "
                  "for all of its family that have no row of their own. As JSON each error is an "
                  "object on a line of its own.",
         .operand = "CODE",
         .operands_most = 1,
         .flags = {FLAG_JSON},
         .exits = {{EXIT_FINAL_ERROR, "there is no such error"}, {EXIT_USAGE, NULL}}},
    [COMMAND_demo] =
        {.name = "demo",
         .summary = "a small refund service to try the gateway with",
         .synopsis = "[--listen ADDRESS] [--ledger FILE] [--faults LIST]",
         .about = "A small refund and payment service on loopback, to try the gateway with. It "
                  "does not dedupe: its ledger counts how often something really happened.",
         .flags = {FLAG_LISTEN, FLAG_LEDGER, FLAG_FAULTS},
         .exits = {{EXIT_FINAL_ERROR, "no ledger or address"}, {EXIT_USAGE, NULL}}},
    [COMMAND_help] = {.name = "help",
                      .summary = "what a command does and takes",
                      .synopsis = "[COMMAND [SUBCOMMAND]]",
                      .about = "Prints the help of a command, as its --help does; without one, the "
                               "list of commands.",
                      .operand = "COMMAND",
                      .operands_most = 2,
                      .exits = {{EXIT_USAGE, NULL}}},
    [COMMAND_version] = {.name = "version",
                         .summary = "print the version",
                         .synopsis = "[--json]",
                         .about = "Prints the version.",
                         .flags = {FLAG_JSON},
                         .exits = {{EXIT_USAGE, NULL}}},
};

static const struct flag flags[FLAG_COUNT] = {
#define X(id, name, letter, argument, values, least, most, help)                                   \
    [FLAG_##id] = {name, letter, argument, values, least, most, help},
    FLAGS(X)
#undef X
};

const struct command *command_at(enum command_id id)
{
    CHECK(id < COMMAND_COUNT);
    return &rows[id];
}

const struct flag *flag_at(enum flag_id id)
{
    CHECK(id > FLAG_NONE && id < FLAG_COUNT);
    return &flags[id];
}

void flag_add_values(const struct flag *flag, struct buf *buf)
{
    struct slice rest = slice_of(flag->values), one;
    for (bool first = true; slice_next(&rest, '|', &one); first = false) {
        buf_add_str(buf, first ? "" : rest.at ? ", " : " or ");
        buf_add_slice(buf, one);
    }
}

void flag_add_help(const struct flag *flag, struct buf *buf)
{
    buf_add_str(buf, flag->help);
    buf_add_str(buf, flag->values ? ": " : "");
    flag_add_values(flag, buf);
}

const char *command_word(const struct command *command)
{
    const char *space = strchr(command->name, ' ');
    return space ? space + 1 : command->name;
}

bool command_is_in(const struct command *command, const struct command *group)
{
    size_t before = (size_t)(command_word(command) - command->name);
    if (!group || before == 0)
        return !group && before == 0;
    return strlen(group->name) + 1 == before &&
           strncmp(command->name, group->name, before - 1) == 0;
}

static const struct command *find_in(const struct command *group, const char *word)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (command_is_in(&rows[i], group) && strcmp(command_word(&rows[i]), word) == 0)
            return &rows[i];
    return NULL;
}

const struct command *command_find(char *const *words, size_t n, size_t *ret_words)
{
    const struct command *found = n > 0 ? find_in(NULL, words[0]) : NULL;
    const struct command *inner =
        found && found->is_group && n > 1 ? find_in(found, words[1]) : NULL;
    *ret_words = inner ? 2 : found ? 1 : 0;
    return inner ? inner : found;
}
