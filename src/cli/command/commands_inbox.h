/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the table of commands (command.h), which commands.c takes in: `inbox`. */
#ifndef PAWL_CLI_COMMANDS_INBOX_H
#define PAWL_CLI_COMMANDS_INBOX_H

#define COMMANDS_OF_INBOX                                                                          \
    [COMMAND_inbox] = {.name = "inbox",                                                            \
                       .summary =                                                                  \
                           "see the events that were received, and have them handled again",       \
                       .synopsis = "SUBCOMMAND [OPTIONS]",                                         \
                       .about =                                                                    \
                           "Shows the events that the sources of `inbox:` have sent, and what "    \
                           "became of their handling.",                                            \
                       .is_group = true},                                                          \
    [COMMAND_inbox_list] =                                                                         \
        {.name = "inbox list",                                                                     \
         .summary = "list received events, oldest first",                                          \
         .synopsis = "[OPTIONS]",                                                                  \
         .about = "Lists received events, oldest first, with the state of their handling. With "   \
                  "--json each one is an object on a line of its own.",                            \
         .flags = {FLAG_STATE, FLAG_DEAD, FLAG_SOURCE, FLAG_LIMIT, FLAG_JSON, FLAG_STORE},         \
         .exits = {{EXIT_USAGE, NULL}, {NO_STORE}}},                                               \
    [COMMAND_inbox_show] = {.name = "inbox show",                                                  \
                            .summary = "print one event with the attempts to handle it",           \
                            .synopsis = "ID [OPTIONS]",                                            \
                            .about =                                                               \
                                "Prints everything about one received event: its source, its "     \
                                "body, and how the attempts of its handler ended.",                \
                            .operand = "ID",                                                       \
                            .operands_least = 1,                                                   \
                            .operands_most = 1,                                                    \
                            .flags = {FLAG_JSON, FLAG_STORE},                                      \
                            .exits = {{EXIT_FINAL_ERROR, "no such event"},                         \
                                      {EXIT_USAGE, NULL},                                          \
                                      {NO_STORE}}},                                                \
    [COMMAND_inbox_replay] =                                                                       \
        {.name = "inbox replay",                                                                   \
         .summary = "have an event handled again, under the same key",                             \
         .synopsis = "ID... [--force]\n--dead [--since T] [--source NAME] [--rate N] [--force]",   \
         .about =                                                                                  \
             "Makes events wait for their handler again, under the same key; their attempts "      \
             "count from the start, and do not count for the breaker. With --dead it does so "     \
             "with all whose handling has failed finally, --rate of them a second.",               \
         .operand = "ID",                                                                          \
         .operands_most = 1000,                                                                    \
         .flags = {FLAG_REPLAY_DEAD, FLAG_SINCE, FLAG_SOURCE, FLAG_RATE, FLAG_REPLAY_LATE,         \
                   FLAG_ACT_REASON, FLAG_STORE},                                                   \
         .exits = {{NO_EVENT},                                                                     \
                   {EXIT_USAGE, NULL},                                                             \
                   {NO_STORE},                                                                     \
                   {EXIT_TRY_AGAIN, "it is being handled"}}},                                      \
    [COMMAND_inbox_drop] =                                                                         \
        {.name = "inbox drop",                                                                     \
         .summary = "give the handling of an event up",                                            \
         .synopsis = "ID [--reason TEXT]\n--dead | --parked [OPTIONS]",                            \
         .about = "Drops an event whose handling waits or is dead. It is kept in the list as "     \
                  "dropped, and its id is known; what waited behind it in its order goes "         \
                  "on.\n\n" ABOUT_MANY,                                                            \
         .operand = "ID",                                                                          \
         .operands_most = 1,                                                                       \
         .flags = {FLAG_ALL_DEAD, FLAG_ALL_PARKED, FLAG_ALL_SINCE, FLAG_ALL_UNTIL, FLAG_SOURCE,    \
                   FLAG_ALL_DRY_RUN, FLAG_ACT_REASON, FLAG_STORE},                                 \
         .exits = {{NO_EVENT}, {EXIT_USAGE, NULL}, {NO_STORE}, {SOME_LEFT}}},                      \
    [COMMAND_inbox_remove] =                                                                       \
        {.name = "inbox remove",                                                                   \
         .summary = "end what waits of a source that no config has any more",                      \
         .synopsis = "SOURCE",                                                                     \
         .about = "What waits of the source is dead once it is next due, without waiting for "     \
                  "`roster_gone`; `pawl inbox replay` has it handled after all once a running "    \
                  "`pawl serve` has the source again. SOURCE is what its events are stored "       \
                  "under: `source`, or else its name. One that a running `pawl serve` has in its " \
                  "config is not removed.",                                                        \
         .operand = "SOURCE",                                                                      \
         .operands_least = 1,                                                                      \
         .operands_most = 1,                                                                       \
         .flags = {FLAG_ACT_REASON, FLAG_STORE},                                                   \
         .exits = {{EXIT_FINAL_ERROR, "there is no such source"},                                  \
                   {EXIT_USAGE, NULL},                                                             \
                   {EXIT_BAD_DATA, "a running `pawl serve` has it in its config"},                 \
                   {NO_STORE}}},                                                                   \
    [COMMAND_inbox_audit] = {                                                                      \
        .name = "inbox audit",                                                                     \
        .summary = "list who acted on received events and sources by hand",                        \
        .synopsis = "[OPTIONS]",                                                                   \
        .about = "Prints who did what to received events and sources, oldest first; "              \
                 "if there are more acts than --limit, the last ones. Acts are kept "              \
                 "for 400 days. With --json each act is an object on a line of its own.",          \
        .flags = {FLAG_LIMIT, FLAG_JSON, FLAG_STORE},                                              \
        .exits = {{EXIT_USAGE, NULL}, {NO_STORE}}}

#endif
