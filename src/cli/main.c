/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command/command.h"
#include "cli/command/help.h"
#include <errno.h>
#include <stdio.h>

static command_run *const runs[COMMAND_COUNT] = {
#define X(name, run_command) [COMMAND_##name] = run_command,
#define GROUP(name)
    COMMANDS(X, GROUP)
#undef GROUP
#undef X
};

int command_help(enum command_id id, struct operands at)
{
    size_t words = 0;
    int code = command_read(id, &at, NULL, NULL);
    if (code != EXIT_DONE)
        return code;
    const struct command *command = command_find(at.at, (size_t)at.n, &words);
    if (words < (size_t)at.n && (!command || command->is_group))
        return help_no_such_command(command, at.at[words]);
    if (words < (size_t)at.n)
        return command_misused("help", "`%s` has no subcommands", command->name);
    if (command)
        help_of_command(stdout, command);
    else
        help_of_pawl(stdout);
    return EXIT_DONE;
}

#ifdef PAWL_HOOKS
#define HAS_HOOKS true
#else
#define HAS_HOOKS false
#endif

int command_version(enum command_id id, struct operands at)
{
    static const struct flag_place places[FLAG_COUNT] = {[FLAG_JSON] = {FLAG_IS_SET}};
    bool json = false;
    int code = command_read(id, &at, places, &json);
    if (code != EXIT_DONE)
        return code;
    if (json)
        printf("{\"version\":\"%s\",\"hooks\":%s}\n", PAWL_VERSION, HAS_HOOKS ? "true" : "false");
    else
        printf("pawl %s%s\n", PAWL_VERSION, HAS_HOOKS ? " +hooks" : "");
    return EXIT_DONE;
}

/* `pawl GROUP`, without a command of the group. */
static int run_group(const struct command *group, struct operands at)
{
    if (at.n < 2) {
        help_of_command(stderr, group);
        return EXIT_USAGE;
    }
    if (strcmp(at.at[1], "-h") != 0 && strcmp(at.at[1], "--help") != 0)
        return help_no_such_command(group, at.at[1]);
    help_of_command(stdout, group);
    return EXIT_DONE;
}

/* Runs it and sends standard output off, which may fail as late as now. */
static int run_command(enum command_id id, struct operands at)
{
    int code = runs[id] ? runs[id](id, at) : run_group(command_at(id), at);
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code == COMMAND_ENDED ? EXIT_DONE : code;
    fprintf(stderr, "pawl %s: cannot write: %s\n", command_at(id)->name, strerror(errno));
    return EXIT_FINAL_ERROR;
}

/* The options that stand where a command does. */
static int run_alone(char *word)
{
    struct operands at = {1, &word};
    if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0)
        return run_command(COMMAND_help, at);
    if (strcmp(word, "-V") == 0 || strcmp(word, "--version") == 0)
        return run_command(COMMAND_version, at);
    return help_no_such_command(NULL, word);
}

int main(int argc, char **argv)
{
    size_t words = 0;
    if (argc < 2) {
        help_of_pawl(stderr);
        return EXIT_USAGE;
    }
    const struct command *command = command_find(argv + 1, (size_t)argc - 1, &words);
    if (!command)
        return run_alone(argv[1]);
    struct operands at = {argc - (int)words, argv + words};
    return run_command((enum command_id)(command - command_at(0)), at);
}
