/* SPDX-License-Identifier: Apache-2.0 */
/* A file or standard input, read whole and bounded. */
#ifndef PAWL_CLI_INPUT_H
#define PAWL_CLI_INPUT_H

#include "base/buf.h"

#define INPUT_MAX ((size_t)64 * 1024 * 1024)

/* Reads all of `path` (NULL or "-": standard input) into a new `*ret_bytes` (buf_fini). Returns an
 * exit code; anything but 0 was explained on stderr in the name of `command`. */
int input_read(const char *command, const char *path, struct buf *ret_bytes);

#endif
