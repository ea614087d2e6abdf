/* SPDX-License-Identifier: Apache-2.0 */
/* How values are spelled in evaluated templates: for core/template*.c alone. */
#ifndef PAWL_CORE_TEMPLATE_TEXT_H
#define PAWL_CORE_TEMPLATE_TEXT_H

#include "base/percent.h"

enum template_spelling {
    TEMPLATE_SPELL_KEY,   /* A-Za-z0-9._~/@+- stay */
    TEMPLATE_SPELL_URL,   /* A-Za-z0-9._~- stay */
    TEMPLATE_SPELL_PATH,  /* of a URL already: escapes stay too */
    TEMPLATE_SPELL_QUERY, /* of a query already: escapes and '+' stay too */
};

/* Whether a literal holds what no spelled value holds. */
bool template_text_separates(struct slice literal, bool url);

/* Spells from the front of `*value` into `ret_text` until that is full or the value used up; takes
 * off what was spelled, returns how much was written. `room` >= PERCENT_SIZE. */
size_t template_text_spell(enum template_spelling spelling, struct slice *value, char *ret_text,
                           size_t room);

#endif
