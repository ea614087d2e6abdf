/* SPDX-License-Identifier: Apache-2.0 */
/* A file or standard input, read whole and bounded. */
#ifndef PAWL_CLI_INPUT_H
#define PAWL_CLI_INPUT_H

#include "base/arena.h"
#include "base/buf.h"

#define INPUT_MAX ((size_t)64 * 1024 * 1024)

/* Reads all of `path` (NULL or "-": standard input) into a new `*ret_bytes` (buf_fini). Returns an
 * exit code; anything but 0 was explained on stderr in the name of `command`. */
int input_read(const char *command, const char *path, struct buf *ret_bytes);

/* A secret on the command line: the text, or of `file:PATH` that file's, without spaces around it;
 * in the arena. An exit code, as above. */
int input_read_secret(const char *command, const char *text, struct arena *arena,
                      struct slice *ret_secret);

#endif
