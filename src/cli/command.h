/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The subcommands: one file each, cli/NAME.c. A command gets what stands behind its name (argv[0]
 * is the name) and returns an exit code of core/errors.h. Help goes to stdout, complaints to
 * stderr.
 */
#ifndef PAWL_CLI_COMMAND_H
#define PAWL_CLI_COMMAND_H

/* X(name, one line of help) */
#define COMMANDS(X)                                                                                \
    X(serve, "the gateway: a reverse proxy that makes retried requests happen once")               \
    X(keys, "look into a store, and settle records whose outcome is unknown")                      \
    X(hash, "print the payload hash of a body, or the key in a header value")                      \
    X(demo, "a small refund service to try the gateway with")                                      \
    X(version, "print the version")

#define X(name, help) int command_##name(int argc, char **argv);
COMMANDS(X)
#undef X

/* Prints `pawl COMMAND: what` and a hint at -h to stderr; returns exit code 2. */
int command_misused(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The store of a command: `option` (PATH or sqlite:PATH; may be NULL), else $PAWL_STORE, else the
 * XDG default, whose folder is made when `create`. Malloc'd text (mem_free); NULL: no home
 * directory, or no memory. */
char *command_store_path(const char *option, int create);

#endif
