/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the table of commands (command.h), which commands.c takes in: `run` and `each`. */
#ifndef PAWL_CLI_COMMANDS_JOBS_H
#define PAWL_CLI_COMMANDS_JOBS_H

#define COMMANDS_OF_JOBS                                                                           \
    [COMMAND_run] =                                                                                \
        {.name = "run",                                                                            \
         .summary = "run a command once per key",                                                  \
         .synopsis = "--key TEMPLATE [OPTIONS] [--] CMD [ARG]...",                                 \
         .about =                                                                                  \
             "Runs CMD, unless it was done under this key: then it prints what CMD wrote and "     \
             "exits "                                                                              \
             "as CMD did. With exit code 0 it is done; after any other it can be run again, "      \
             "unless "                                                                             \
             "--final keeps it. What CMD writes is printed as it comes.\n\n"                       \
             "If the key is in use elsewhere, it exits with 75, or waits (--wait). If pawl or "    \
             "its "                                                                                \
             "machine died half-way, the next run repeats the job after 15 seconds; --unknown "    \
             "says "                                                                               \
             "otherwise. CMD finds PAWL_KEY, PAWL_TOKEN, PAWL_ATTEMPT and IDEMPOTENCY_KEY in its " \
             "environment. It reads nothing from standard input but by --payload -, or from a "    \
             "terminal. Lines on standard error that begin with `pawl` are pawl's own, and then "  \
             "so "                                                                                 \
             "is an exit code of those below; 126 and 127 mean that CMD could not be run or "      \
             "found, "                                                                             \
             "128 and more that a signal ended it.",                                               \
         .runs_other = true,                                                                       \
         .operand = "CMD",                                                                         \
         .operands_least = 1,                                                                      \
         .operands_most = 1 << 20,                                                                 \
         .needs = FLAG_JOB_KEY,                                                                    \
         .flags = {FLAG_JOB_KEY, FLAG_TTL, FLAG_RETRY, FLAG_WAIT, FLAG_JOB_UNKNOWN, FLAG_FINAL,    \
                   FLAG_TIMEOUT, FLAG_PAYLOAD, FLAG_KEEP_OUTPUT, FLAG_JOB_NAME, FLAG_AT,           \
                   FLAG_RUN_AGAIN, FLAG_REASON, FLAG_RUN_VERBOSE, FLAG_STORE},                     \
         .exits = {{EXIT_USAGE, NULL},                                                             \
                   {EXIT_BAD_DATA, "the key was used for another command line"},                   \
                   {EXIT_UNAVAILABLE, "the store or the time zones cannot be used"},               \
                   {EXIT_FAIL_STOP, NULL},                                                         \
                   {EXIT_TRY_AGAIN, NULL},                                                         \
                   {EXIT_OUTCOME_UNKNOWN,                                                          \
                    "it may have been done, and --unknown says not to repeat it"},                 \
                   {EXIT_DEADLINE, "the time of an attempt was over (--timeout)"}}},               \
    [COMMAND_each] = {                                                                             \
        .name = "each",                                                                            \
        .summary = "run a command, or send a request, once for each item of an input",             \
        .synopsis = "--key TEMPLATE [-j N] [OPTIONS] [--] CMD [ARG]... < ITEMS\n"                  \
                    "--key TEMPLATE [-j N] [OPTIONS] --send 'METHOD URL' [-d TEMPLATE] < ITEMS",   \
        .about =                                                                                   \
            "Runs CMD for each item that was not done yet, in any order, and remembers by key "    \
            "which were: repeat it after a crash, with the items in another order or with more "   \
            "of "                                                                                  \
            "them, and only the rest is run. Several hosts share the work through a store on "     \
            "PostgreSQL.\n\n"                                                                      \
            "Items are lines, or as --null, --csv or --jsonl say. In CMD, in the key, the group "  \
            "and "                                                                                 \
            "the URL {} is the item, {name} a column or member, {/pointer} a JSON pointer, and "   \
            "{date:Area/City}, {date:/zone}, {week:..}, {hour} and {env:NAME} as in `pawl run`; "  \
            "write {{ for a {. Where CMD names no part of a line, the line is its last argument. " \
            "With --send values are encoded for the URL, and for a body that is JSON or a "        \
            "form.\n\n"                                                                            \
            "What CMD writes is printed in whole lines. It has no terminal, and nothing on "       \
            "standard "                                                                            \
            "input. SIGINT and SIGTERM start nothing more and let run what runs; a second one "    \
            "kills "                                                                               \
            "it. Of several exit codes the first below counts.",                                   \
        .runs_other = true,                                                                        \
        .operand = "CMD",                                                                          \
        .operands_most = 1 << 20,                                                                  \
        .needs = FLAG_JOB_KEY,                                                                     \
        .flags = {FLAG_JOB_KEY,        FLAG_EACH_JOBS,    FLAG_EACH_INPUT,                         \
                  FLAG_EACH_NUL,       FLAG_EACH_CSV,     FLAG_EACH_JSONL,                         \
                  FLAG_EACH_GROUP,     FLAG_EACH_RATE,    FLAG_TTL,                                \
                  FLAG_RETRY,          FLAG_JOB_UNKNOWN,  FLAG_FINAL,                              \
                  FLAG_TIMEOUT,        FLAG_EACH_PAYLOAD, FLAG_KEEP_OUTPUT,                        \
                  FLAG_KEEP_GOING,     FLAG_FAIL_FAST,    FLAG_DRY_RUN,                            \
                  FLAG_FAILED_TO,      FLAG_JOBLOG,       FLAG_JSON,                               \
                  FLAG_EACH_SILENT,    FLAG_SEND,         FLAG_EACH_DATA,                          \
                  FLAG_REQUEST_HEADER, FLAG_MAX_TIME,     FLAG_CACERT,                             \
                  FLAG_JOB_NAME,       FLAG_AT,           FLAG_STORE},                             \
        .exits = {{EXIT_FAIL_STOP, NULL},                                                          \
                  {EXIT_BAD_DATA, "an item was done as something else, or is malformed"},          \
                  {EXIT_OUTCOME_UNKNOWN,                                                           \
                   "an item may have been done, and --unknown says not to repeat it"},             \
                  {EXIT_FINAL_ERROR, "an item failed"},                                            \
                  {EXIT_UNAVAILABLE, "the store or the time zones cannot be used"},                \
                  {EXIT_TRY_AGAIN, "it was stopped, and items are left"},                          \
                  {EXIT_USAGE, NULL}}}

#endif
