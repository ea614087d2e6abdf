/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command.h"

#include "base/buf.h"
#include "core/errors.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_TEXT_MAX ((size_t)8192)

struct command {
    const char *name;
    const char *help;
    int (*run)(int argc, char **argv);
};

static const struct command commands[] = {
#define X(name, help) {#name, help, command_##name},
    COMMANDS(X)
#undef X
};

static int print_help(FILE *to)
{
    fputs("pawl makes operations happen once: retries, double clicks and replays get the first "
          "answer.\n\nusage: pawl COMMAND [OPTIONS]\n\n",
          to);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        fprintf(to, "  %-9s %s\n", commands[i].name, commands[i].help);
    fputs("\n`pawl COMMAND -h` tells more.\n", to);
    return to == stdout ? EXIT_DONE : EXIT_USAGE;
}

int command_misused(const char *command, const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "pawl %s: ", command);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "; see `pawl %s -h`\n", command);
    return EXIT_USAGE;
}

/* Makes the folders of an absolute path, as `mkdir -p` does, for this user alone. */
static void make_folders(char *path)
{
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        (void)mkdir(path, 0700);
        *at = '/';
    }
}

char *command_store_path(const char *option, int create)
{
    struct buf path = buf_make(PATH_TEXT_MAX);
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    if (!option)
        option = getenv("PAWL_STORE");
    if (option && *option) {
        bool prefixed = strncmp(option, "sqlite:", sizeof "sqlite:" - 1) == 0;
        buf_add_str(&path, prefixed ? option + sizeof "sqlite:" - 1 : option);
        return buf_take(&path);
    }
    if (state && *state == '/') {
        buf_add_str(&path, state);
    } else if (home && *home == '/') {
        buf_add_str(&path, home);
        buf_add_str(&path, "/.local/state");
    } else {
        return NULL;
    }
    buf_add_str(&path, "/pawl/pawl.db");
    char *text = buf_take(&path);
    if (text && create)
        make_folders(text);
    return text;
}

int command_version(int argc, char **argv)
{
    (void)argv;
    if (argc > 1)
        return command_misused("version", "takes no arguments");
#ifdef PAWL_HOOKS
    puts("pawl " PAWL_VERSION " +hooks");
#else
    puts("pawl " PAWL_VERSION);
#endif
    return EXIT_DONE;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return print_help(stderr);
    const char *name = argv[1];
    if (strcmp(name, "-h") == 0 || strcmp(name, "--help") == 0)
        return print_help(stdout);
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        return command_version(1, argv + 1);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(name, commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "pawl: there is no %s `%s`\n\n", *name == '-' ? "option" : "command", name);
    return print_help(stderr);
}
