/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command/command.h"
#include "cli/command/help.h"
#include <errno.h>
#include <stdio.h>

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
static int run_command(const struct command *command, struct operands at)
{
    int code = command->run ? command->run(command, at) : run_group(command, at);
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code == COMMAND_ENDED ? EXIT_DONE : code;
    fprintf(stderr, "pawl %s: cannot write: %s\n", command->name, strerror(errno));
    return EXIT_FINAL_ERROR;
}

/* The options that stand where a command does. */
static int run_alone(char *word)
{
    struct operands at = {1, &word};
    if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0)
        return run_command(&command_help, at);
    if (strcmp(word, "-V") == 0 || strcmp(word, "--version") == 0)
        return run_command(&command_version, at);
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
    return run_command(command, at);
}
