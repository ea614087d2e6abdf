/* SPDX-License-Identifier: Apache-2.0 */
#include "config/reader.h"

#include <stdarg.h>
#include <stdio.h>

#define TEXT_MAX 768

static const char *const names[] = {
#define X(name, text) text,
    CONFIG_WARNINGS(X)
#undef X
};

static const char choices[] =
#define X(name, text) "|" text
    CONFIG_WARNINGS(X);
#undef X

_Static_assert(WARNING_COUNT <= 32, "a bit for each class");

const char *warning_name(enum warning warning)
{
    return names[warning];
}

/* What the top allows is allowed in each rule. */
OPTION_READER(allow)
{
    if (node->kind != NODE_LIST) {
        reader_complain(reader, node, "not a list (expected classes of warnings such as [%s])",
                        names[0]);
        return;
    }
    for (const struct node *item = node->first; item; item = item->next) {
        size_t index;
        if (reader_choice(reader, item, choices + 1, &index))
            *(unsigned *)field |= 1U << index;
    }
}

static void add(struct complaints *to, enum warning warning, const struct node *node,
                const char *text)
{
    complaints_add(to, node->place, node->key, "%s [%s]", text, names[warning]);
}

void reader_warn(struct reader *reader, enum warning warning, const struct node *node,
                 const char *format, ...)
{
    char text[TEXT_MAX];
    va_list arguments;
    if (!node || warning_is_allowed(reader->draft->allowed, warning))
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    add(warning == WARNING_HELD_500 ? reader->notes : reader->warnings, warning, node, text);
}
