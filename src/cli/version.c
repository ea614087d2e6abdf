/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command/command.h"
#include <stdio.h>

struct version_options {
    bool json;
};

#ifdef PAWL_HOOKS
#define HAS_HOOKS true
#else
#define HAS_HOOKS false
#endif

static int run_version(const struct command *command, struct operands at)
{
    struct version_options options = {.json = false};
    int code = command_read(command, &at, &options);
    if (code != EXIT_DONE)
        return code;
    if (options.json)
        printf("{\"version\":\"%s\",\"hooks\":%s}\n", PAWL_VERSION, HAS_HOOKS ? "true" : "false");
    else
        printf("pawl %s%s\n", PAWL_VERSION, HAS_HOOKS ? " +hooks" : "");
    return EXIT_DONE;
}

#define OPTIONS struct version_options
const struct command command_version = {
    .name = "version",
    .summary = "print the version",
    .synopsis = "[--json]",
    .about = "Prints the version.",
    .flags = FLAGS(FLAG_JSON(json)),
    .exits = {{EXIT_USAGE, NULL}},
    .run = run_version,
};
