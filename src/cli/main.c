/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "cli/command.h"
#include "cli/help.h"
#include "cli/print.h"
#include <stdio.h>

#define WORDS_MOST 2 /* of a command's name */

static int (*const runs[COMMAND_COUNT])(int argc, char **argv) = {
#define X(name) [COMMAND_##name] = command_##name,
#define GROUP(name)
    COMMANDS(X, GROUP)
#undef GROUP
#undef X
};

/* Of commands that take no flag but --help. */
static int take_nothing(void *to, enum flag_id flag, const struct flag_value *value)
{
    (void)to, (void)flag, (void)value;
    return EXIT_DONE;
}

int command_help(int argc, char **argv)
{
    struct operands at = {argc, argv};
    size_t words = 0;
    int code = command_read(COMMAND_help, &at, take_nothing, NULL);
    if (code != EXIT_DONE)
        return command_end(COMMAND_help, code);
    const struct command *command = command_find(at.at, (size_t)at.n, &words);
    if (words < (size_t)at.n && (!command || command->is_group))
        return help_no_such_command(command, at.at[words]);
    if (words < (size_t)at.n)
        return command_misused("help", "`%s` has no subcommands", command->name);
    if (command)
        help_of_command(stdout, command);
    else
        help_of_pawl(stdout);
    return print_flush("help", EXIT_DONE);
}

#ifdef PAWL_HOOKS
#define HAS_HOOKS true
#else
#define HAS_HOOKS false
#endif

static int take_json(void *to, enum flag_id flag, const struct flag_value *value)
{
    (void)flag, (void)value;
    *(bool *)to = true;
    return EXIT_DONE;
}

int command_version(int argc, char **argv)
{
    struct operands at = {argc, argv};
    bool json = false;
    int code = command_read(COMMAND_version, &at, take_json, &json);
    if (code != EXIT_DONE)
        return command_end(COMMAND_version, code);
    if (json)
        printf("{\"version\":\"%s\",\"hooks\":%s}\n", PAWL_VERSION, HAS_HOOKS ? "true" : "false");
    else
        printf("pawl %s%s\n", PAWL_VERSION, HAS_HOOKS ? " +hooks" : "");
    return print_flush("version", EXIT_DONE);
}

/* `pawl GROUP`, without a command of the group. */
static int run_group(const struct command *group, int argc, char **argv)
{
    if (argc < 2) {
        help_of_command(stderr, group);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "-h") != 0 && strcmp(argv[1], "--help") != 0)
        return help_no_such_command(group, argv[1]);
    help_of_command(stdout, group);
    return print_flush(group->name, EXIT_DONE);
}

/* The options that stand where a command does. */
static int run_alone(char *word)
{
    char *argv[] = {word, NULL};
    if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0)
        return command_help(1, argv);
    if (strcmp(word, "-V") == 0 || strcmp(word, "--version") == 0)
        return command_version(1, argv);
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
    argc -= (int)words;
    argv += words;
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (command == command_at((enum command_id)i) && runs[i])
            return runs[i](argc, argv);
    return run_group(command, argc, argv);
}
