/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the options mean, and what a config makes of them. Each text comes from the table of options
 * and from the nodes that set a value, so that an option says itself how it is explained.
 */
#ifndef PAWL_CONFIG_EXPLAIN_H
#define PAWL_CONFIG_EXPLAIN_H

#include "base/buf.h"
#include "config/contents.h"
#include "config/options.h"

struct explain {
    const struct option *option; /* NULL: all of them */
    struct config_sections sections;
    bool json;
    struct buf *to;
};

/* The option or section of that name; NULL: there is none, and `*ret_nearest` is the one probably
 * meant, or its `.at` NULL. */
const struct option *explain_find(const struct config_sections *sections, struct slice name,
                                  struct slice *ret_nearest);

/* Appends what there is to know of the option, or of all: default, range, place, values, help. */
void explain_reference(const struct explain *explain);

/* Appends what the file says: every option with the value that counts, at the top and for each
 * rule, and where it comes from. As YAML it is a config that means the same: variables of the
 * environment stay as they are written, relative paths are made absolute. NULL complaints, or
 * warnings, or why it was refused: as config_read. False: refused. */
bool explain_config(const struct explain *explain, const char *path, char **ret_complaints);

/* The same from memory, as config_parse. */
bool explain_text(const struct explain *explain, const char *path, struct slice text,
                  char **ret_complaints);

/* Of a config that was read without errors, while its nodes are there. */
struct reader;
void explain_read(const struct explain *explain, const struct reader *reader);

#endif
