/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the table of commands (command.h), which commands.c takes in: `store`. */
#ifndef PAWL_CLI_COMMANDS_STORE_H
#define PAWL_CLI_COMMANDS_STORE_H

#define COMMANDS_OF_STORE                                                                          \
    [COMMAND_store] = {.name = "store",                                                            \
                       .summary =                                                                  \
                           "freeze a store for a move or a repair; mark one that was restored",    \
                       .synopsis = "SUBCOMMAND [OPTIONS]",                                         \
                       .about = "Freezes and thaws a store, and marks one that was restored, or "  \
                                "that lost what it had acknowledged in a failover.",               \
                       .is_group = true},                                                          \
    [COMMAND_store_freeze] =                                                                       \
        {.name = "store freeze",                                                                   \
         .summary = "stop new operations in a store, until `pawl store thaw`",                     \
         .synopsis = "[--wait[=D]] [--reason TEXT] [--json] [--store PATH]",                       \
         .about =                                                                                  \
             "Freezes a store. From then on no process begins, claims or adds anything in it: "    \
             "gateways refuse new operations, events and webhooks with 503, under `store_down: "   \
             "pass`, too; commands exit with 75; what is in the queue and in the outbox waits. "   \
             "What began before ends and is stored, and stored responses are replayed.\n\n"        \
             "Exit code 0 means that the store is frozen and nothing is in flight; with 75 it is " \
             "frozen, and the command says what is not over yet. It may be run again. On "         \
             "PostgreSQL, transactions of applications that are open already are not counted: "    \
             "wait for them as well.",                                                             \
         .flags = {FLAG_FREEZE_WAIT, FLAG_ACT_REASON, FLAG_JSON, FLAG_STORE},                      \
         .exits = {{EXIT_USAGE, NULL},                                                             \
                   {EXIT_UNAVAILABLE, "the store cannot be used"},                                 \
                   {EXIT_TRY_AGAIN, "it is frozen, and something is still in flight"}}},           \
    [COMMAND_store_thaw] = {.name = "store thaw",                                                  \
                            .summary = "let operations begin again in a store",                    \
                            .synopsis = "[--reason TEXT] [--store PATH]",                          \
                            .about =                                                               \
                                "Ends what `pawl store freeze` began: gateways, commands and "     \
                                "the queue go on within a second.",                                \
                            .flags = {FLAG_ACT_REASON, FLAG_STORE},                                \
                            .exits = {{EXIT_USAGE, NULL},                                          \
                                      {EXIT_UNAVAILABLE, "the store cannot be used"}}},            \
    [COMMAND_store_restored] =                                                                     \
        {.name = "store restored",                                                                 \
         .summary = "say that a store lacks what it had acknowledged since some time",             \
         .synopsis = "--since T [--until U] [--above N] [--live] [--reason TEXT] [--store PATH]\n" \
                     "--clear [--reason TEXT] [--store PATH]",                                     \
         .about =                                                                                  \
             "Marks a store in whose place a backup was put, or that lost what it had "            \
             "acknowledged in a failover. Run it after the restore and before the first gateway "  \
             "starts. Where a gateway noticed itself that the store went back, nothing begins in " \
             "it until this command is run; the gateway's log has the whole line.\n\n"             \
             "The mark says since when operations may be missing, and opens the store again. "     \
             "With --above no token at or below N is given out again. --clear takes the mark "     \
             "back. Each of these is written into the audit of the store.",                        \
         .flags = {FLAG_RESTORED_SINCE, FLAG_RESTORED_UNTIL, FLAG_ABOVE, FLAG_LIVE, FLAG_CLEAR,    \
                   FLAG_ACT_REASON, FLAG_STORE},                                                   \
         .exits = {{EXIT_FINAL_ERROR, "--clear would open a store that went back"},                \
                   {EXIT_USAGE, NULL},                                                             \
                   {EXIT_UNAVAILABLE, "the store cannot be used"},                                 \
                   {EXIT_TRY_AGAIN, "processes of pawl have the store open (see --live)"}}},       \
    [COMMAND_store_show] =                                                                         \
        {.name = "store show",                                                                     \
         .summary = "say whether a store is frozen, and what is in flight",                        \
         .synopsis = "[--json] [--store PATH]",                                                    \
         .about = "Prints whether the store is frozen, since when, and how many operations and "   \
                  "deliveries are in flight: those that an owner runs or sends at this moment.",   \
         .flags = {FLAG_JSON, FLAG_STORE},                                                         \
         .exits = {{EXIT_USAGE, NULL}, {EXIT_UNAVAILABLE, "the store cannot be used"}}},           \
    [COMMAND_store_audit] = {                                                                      \
        .name = "store audit",                                                                     \
        .summary = "list who froze, thawed or marked a store",                                     \
        .synopsis = "[OPTIONS]",                                                                   \
        .about =                                                                                   \
            "Prints who froze, thawed or marked the store, oldest first; if there are more acts "  \
            "than --limit, the last ones. Acts are kept for 400 days. With --json each act "       \
            "is an object on a line of its own.",                                                  \
        .flags = {FLAG_LIMIT, FLAG_JSON, FLAG_STORE},                                              \
        .exits = {{EXIT_USAGE, NULL}, {EXIT_UNAVAILABLE, "the store cannot be used"}}}

#endif
