/* SPDX-License-Identifier: Apache-2.0 */
/* The table of commands as help on a terminal. */
#ifndef PAWL_CLI_HELP_H
#define PAWL_CLI_HELP_H

#include "cli/command/command.h"
#include <stdio.h>

/* Prints usage, options and exit codes; of a group, its commands. */
void help_of_command(FILE *to, const struct command *command);

/* Prints what pawl is, and its commands. */
void help_of_pawl(FILE *to);

/* Complains on stderr that `group` (NULL: pawl) has no command `word`, with the nearest one.
 * Returns exit code 2. */
int help_no_such_command(const struct command *group, const char *word);

#endif
