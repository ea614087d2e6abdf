/* SPDX-License-Identifier: Apache-2.0 */
/* syntax: what is wrong with a text that is not YAML, and what to do, in place of what libyaml
 * says. */
#ifndef PAWL_CONFIG_SYNTAX_H
#define PAWL_CONFIG_SYNTAX_H

#include "config/complaints.h"

/* What libyaml says. */
struct syntax_error {
    const char *problem;
    const char *context; /* during what; NULL: it says nothing */
    struct place place;
    struct place start; /* of the context */
};

/* Complains of the error in `text`. */
void syntax_complain(struct complaints *complaints, const struct syntax_error *error,
                     struct slice text);

/* The place of a byte. */
struct place syntax_place(struct slice text, size_t offset);

#endif
