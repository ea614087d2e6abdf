/* SPDX-License-Identifier: Apache-2.0 */
/* What the sources of core/template share: compiling, values of items, and where a text goes. */
#ifndef PAWL_CORE_TEMPLATE_PRIV_H
#define PAWL_CORE_TEMPLATE_PRIV_H

#include "base/crypto/digest.h"
#include "core/template/template.h"

/* ---- compiling ---- */

struct template_compiler {
    enum template_use use;
    struct arena *arena;
    struct template template;
    struct slice problem;
};

/* Says what is wrong; the result is always false. */
bool template_refuse(struct template_compiler *compiler, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Appends a part; false: there are too many. */
bool template_add_part(struct template_compiler *compiler, const struct template_part *part);

/* Reads what is between two braces. */
bool template_read_source(struct template_compiler *compiler, struct slice written,
                          struct template_part *ret_part);

/* Whether this between two braces, without a byte that ends the search, is a source of
 * TEMPLATE_FOR_TEXT; else it is text, and they too. */
bool template_is_placeholder(struct slice written);

/* Reads all parts of a text that is filled in. */
bool template_read_text(struct template_compiler *compiler, struct slice text);

/* ---- values ---- */

/* What the body, or the item, has at a JSON pointer; NULL: nothing. */
const struct json *template_json_at(const struct template_facts *facts, struct slice pointer);

/* The variable that a part names; `.at` NULL: it is not set. */
struct slice template_env_value(const struct template_facts *facts,
                                const struct template_part *part);

/* ---- texts ---- */

/* Where the text goes: into a buffer, or, too long for one, through a digest; else it is counted.
 */
struct template_sink {
    struct buf *buf;
    struct digest_stream *stream;
    struct digest_stream *timeless; /* gets all but the clocks */
    struct template_clocks *clocks; /* gets where they are */
    struct filled *filled;          /* judges what the buffer gets; NULL: nothing does */
    size_t len;
};

/* How values are spelled. */
enum template_spelling {
    TEMPLATE_SPELL_KEY,   /* A-Za-z0-9._~/@+- stay */
    TEMPLATE_SPELL_URL,   /* A-Za-z0-9._~- stay */
    TEMPLATE_SPELL_PATH,  /* of a URL already: escapes stay too */
    TEMPLATE_SPELL_QUERY, /* of a query already: escapes and '+' stay too */
};

/* Adds text as it is, a clock (which is spelled as it is), a value. */
void template_sink_add(struct template_sink *sink, struct slice text);
void template_sink_add_clock(struct template_sink *sink, struct slice text);
void template_sink_spell(struct template_sink *sink, enum template_spelling spelling,
                         struct slice value);

#endif
