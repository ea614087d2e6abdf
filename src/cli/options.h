/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands share in reading their command lines with getopt_long. */
#ifndef PAWL_CLI_OPTIONS_H
#define PAWL_CLI_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

/* Complains of what getopt_long refused (it returned `code`, '?' or ':', with opterr 0 and short
 * options that start with ':'), and names the option that was probably meant. Returns exit code 2.
 */
int options_refused(const char *command, const struct option *options, int code, char **argv);

/* Reads `text` as a decimal number from `least` to `most`. */
bool options_number(const char *text, int64_t least, int64_t most, int64_t *ret_value);

#endif
