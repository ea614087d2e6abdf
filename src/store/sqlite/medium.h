/* SPDX-License-Identifier: Apache-2.0 */
/* What an SQLite file lies on, by its file system: whether locks and syncs can be trusted there,
 * and whether it outlives the machine. docs/decisions/0048-weaker-stores.md has the reasons. */
#ifndef PAWL_STORE_SQLITE_MEDIUM_H
#define PAWL_STORE_SQLITE_MEDIUM_H

#include "store/weakness.h"
#include <stdint.h>

/* By the number that statfs(2) has for its type. */
struct weakness sqlite_medium_judge(uint32_t type);

/* The same of the file at that path, or of its folder while it is not there. In builds with hooks
 * $PAWL_TEST_FILE_SYSTEM is the number (hexadecimal) or `real`; without it, that of a disk, so that
 * no test depends on where it runs. */
struct weakness sqlite_medium_look(const char *path);

#endif
