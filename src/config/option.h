/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the table (options.h), one by one and all of a map; how values look: values.c. */
#ifndef PAWL_CONFIG_OPTION_H
#define PAWL_CONFIG_OPTION_H

#include "base/buf.h"
#include "config/options.h"

struct config;
struct config_sections;

const struct option *option_at(enum option_id id);

/* Whether a default of the table is a value, and not words about it. */
bool option_is_value(const char *fallback);

/* The members of an option that is a map, in a row; `*ret_n` 0: it is none. */
const struct option *option_parts(const struct option *option, size_t *ret_n);

/* Fills what the members of `option` are of, from their defaults and then from the map `node`.
 * False: it is no map, which was complained about. */
bool options_read_members(struct reader *reader, const struct option *option,
                          const struct node *node, const char *expected, void *into);

/* Whether a process that was started with `old` must be started again for what `new` says; of an
 * option of the config's. */
bool option_needs_restart(const struct option *option, const struct config *old,
                          const struct config *new);

/* Appends where it may stand, as "at the top or in a rule". False: nowhere, as a part. */
bool option_add_where(const struct option *option, struct buf *buf);

/* What its values are, in a word: "duration", "template", .. */
const char *option_type(const struct option *option);

/* Whether its field is of the type that its reader fills in. */
bool option_fits_reader(const struct option *option);

/* Appends the bounds of its value, as "1ms to 1h". False: it has none. */
bool option_add_range(const struct option *option, struct buf *buf);

/* Reads what a map holds of the options that may stand there. */
void options_read_map(struct reader *reader, const struct node *map, unsigned where);

/* Reads the table's own defaults. */
void options_read_fallbacks(struct reader *reader);

/* Appends every option with its default and one line of help, as YAML: a config that begins with it
 * and adds what is required means the same as one without it. */
void config_options_print(const struct config_sections *sections, struct buf *buf);

#endif
