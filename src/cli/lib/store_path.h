/* SPDX-License-Identifier: Apache-2.0 */
/* Where the store of a command is. Paths are malloc'd texts (mem_free). */
#ifndef PAWL_CLI_STORE_PATH_H
#define PAWL_CLI_STORE_PATH_H

#include <stdbool.h>

/* `option` (PATH, sqlite:PATH, a URL, or file:PATH of a file whose first line is sqlite:PATH or a
 * URL; may be NULL), else $PAWL_STORE, else the XDG default, whose folder is made when `create`.
 * NULL: no home directory, no memory, or a file that names no store, which standard error says. */
char *store_path_find(const char *option, bool create);

/* The same file by the shortest way from the root; links in the way are followed, the last name is
 * kept. As it was where its folder is not there, and where it is a URL. NULL: no memory. */
char *store_path_real(const char *path);

#endif
