/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fields: header lines as an operation keeps them, each with its CR LF. A line `@FILE` stands for
 * the lines of that file, read whenever they are needed: credentials that expire are renewed there.
 */
#ifndef PAWL_CLIENT_FIELDS_H
#define PAWL_CLIENT_FIELDS_H

#include "base/arena.h"
#include "base/headers.h"

#define CLIENT_FIELDS_FILE_MAX ((size_t)64 * 1024) /* bytes of one file */

/* Adds the lines of a regular file, each `Name: value`, in `arena`: it waits for nobody. False:
 * `*ret_problem` says what is wrong. */
bool client_fields_add_file(struct slice path, struct arena *arena, struct headers *headers,
                            struct slice *ret_problem);

/* The same of lines that were read from `path`, and are borrowed. */
bool client_fields_add_lines(struct slice path, struct slice lines, struct arena *arena,
                             struct headers *headers, struct slice *ret_problem);

/* The lines of `fields`, without reading files: `@FILE` is a line named "@". False: too many. */
bool client_fields_split(struct slice fields, struct headers *ret_headers);

#endif
