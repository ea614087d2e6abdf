/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of commands and options as files that are installed: manual pages, completion.
 *
 * manual.c, completion.c.
 */
#ifndef PAWL_CLI_PAGES_H
#define PAWL_CLI_PAGES_H

#include "base/buf.h"

/* pawl(1): every command. `date` is YYYY-MM-DD. */
void pages_commands(struct buf *to, const char *date);

/* pawl.yaml(5): every option of the config. */
void pages_config(struct buf *to, const char *date);

/* The tables that packaging/pawl.bash completes by: functions of bash, which need nothing else. */
void pages_completion(struct buf *to);

#endif
