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
             "Runs CMD, unless it was done under this key: then pawl prints what CMD wrote, and "  \
             "exits with its exit code. Exit code 0 means that it is done. After any other it "    \
             "can be run again, unless --final says that this is useless.\n\n"                     \
             "If the key is in use elsewhere, pawl exits with 75, or waits (--wait). If pawl or "  \
             "its machine died half-way, the next run repeats the job, 15 seconds later at the "   \
             "latest; --unknown says otherwise.\n\n"                                               \
             "CMD finds PAWL_KEY, PAWL_TOKEN, PAWL_ATTEMPT and IDEMPOTENCY_KEY in its "            \
             "environment. Its standard input is empty, except at a terminal and with --payload "  \
             "-. Lines on standard error that begin with `pawl` are pawl's own; they show "        \
             "whether an exit code is pawl's or CMD's. 126 and 127 mean that CMD could not be "    \
             "run or found, 128 and more that a signal ended it.",                                 \
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
                   {EXIT_DEADLINE, "CMD timed out (--timeout)"}}},                                 \
    [COMMAND_each] = {                                                                             \
        .name = "each",                                                                            \
        .summary = "run a command, or send a request, once for each item of an input",             \
        .synopsis = "--key TEMPLATE [-j N] [OPTIONS] [--] CMD [ARG]... < ITEMS\n"                  \
                    "--key TEMPLATE [-j N] [OPTIONS] --send 'METHOD URL' [-d TEMPLATE] < ITEMS",   \
        .about =                                                                                   \
            "Runs CMD for each item that was not done yet, in any order, and remembers by key "    \
            "which were done. Repeat it after a crash, with the items in another order or with "   \
            "more of them: it runs only the rest. Several hosts share the work through a store "   \
            "on PostgreSQL.\n\n"                                                                   \
            "Items are lines, or what --null, --csv or --jsonl say. In the key, in CMD and its "   \
            "arguments, in --group and in the URL, headers and body of --send, {} is the item, "   \
            "{name} a column or member, {/pointer} a JSON pointer; {date:Area/City}, "             \
            "{date:/zone} (a zone from the item), {week:...}, {month:...}, {hour} and {env:NAME} " \
            "are as in `pawl run`. Outside the key, a { that begins no placeholder is literal, "   \
            "and {{ is a {. A line that CMD does not name is its last argument. Values are "       \
            "encoded for the URL, and for a body that is JSON or a form; {name|json} is a value "  \
            "as JSON, such as a number of CSV, or an object.\n\n"                                  \
            "What CMD writes is printed in whole lines. It has no terminal, and its standard "     \
            "input is empty. After SIGINT or SIGTERM nothing more is started, and what runs goes " \
            "on to its end; a second signal kills it. If several exit codes apply, it is the "     \
            "first in the list below.",                                                            \
        .runs_other = true,                                                                        \
        .operand = "CMD",                                                                          \
        .operands_most = 1 << 20,                                                                  \
        .needs = FLAG_ITEM_KEY,                                                                    \
        .flags = {FLAG_ITEM_KEY,      FLAG_EACH_JOBS,    FLAG_EACH_INPUT,   FLAG_EACH_NUL,         \
                  FLAG_EACH_CSV,      FLAG_EACH_JSONL,   FLAG_EACH_GROUP,   FLAG_EACH_RATE,        \
                  FLAG_ITEM_TTL,      FLAG_RETRY,        FLAG_ITEM_UNKNOWN, FLAG_FINAL,            \
                  FLAG_TIMEOUT,       FLAG_EACH_PAYLOAD, FLAG_KEEP_OUTPUT,  FLAG_KEEP_GOING,       \
                  FLAG_FAIL_FAST,     FLAG_DRY_RUN,      FLAG_FAILED_TO,    FLAG_JOBLOG,           \
                  FLAG_EACH_JSON,     FLAG_EACH_SILENT,  FLAG_SEND,         FLAG_EACH_DATA,        \
                  FLAG_EACH_HEADER,   FLAG_DONE,         FLAG_LATER,        FLAG_NOT_DONE,         \
                  FLAG_EACH_MAX_TIME, FLAG_EACH_CACERT,  FLAG_JOB_NAME,     FLAG_AT,               \
                  FLAG_STORE},                                                                     \
        .exits = {{EXIT_FAIL_STOP, NULL},                                                          \
                  {EXIT_BAD_DATA, "an item was done as something else, or is malformed"},          \
                  {EXIT_OUTCOME_UNKNOWN,                                                           \
                   "an item may have been done, and --unknown says not to repeat it"},             \
                  {EXIT_FINAL_ERROR, "an item failed"},                                            \
                  {EXIT_UNAVAILABLE, "the store or the time zones cannot be used"},                \
                  {EXIT_TRY_AGAIN, "it was stopped, and items are left"},                          \
                  {EXIT_USAGE, NULL}}}

#endif
