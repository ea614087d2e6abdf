/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The config file: YAML, read into one immutable struct (contract section 11). One table of options
 * (config/options.h) gives parser, defaults and documentation. What a module is to know it declares
 * itself, in a header of values that is embedded here, so that a setting is written once
 * (docs/decisions/0016).
 *
 * Every complaint names file, line, column, key, what was expected, and the nearest valid name.
 */
#ifndef PAWL_CONFIG_CONFIG_H
#define PAWL_CONFIG_CONFIG_H

#include "config/contents.h"

/* Reads `path`. NULL: `*ret_complaints` (NUL-terminated, mem_free) holds one or more lines
 * `FILE:LINE:COLUMN: key: what is wrong (what was expected)` in the file's order, or one of the
 * file itself, `FILE: cannot be read: why`, or is NULL where memory ran out for them. On success it
 * holds the warnings (perhaps "": each a line of the same form). */
struct config *config_read(const char *path, const struct config_sections *sections,
                           char **ret_complaints);

/* The same from memory, without sections; `path` is for messages and for relative paths. */
struct config *config_parse(const char *path, struct slice text, char **ret_complaints);

/* The values of one of its sections. */
const void *config_section(const struct config *config, const struct option *section);

/* Accepts NULL. */
void config_free(struct config *config);

#endif
