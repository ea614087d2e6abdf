/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error_text: an API's own bodies for pawl's errors (`errors:` of the config). A template is JSON
 * with {name}s in it: texts inside its strings, where they are escaped, and values outside. Pure:
 * it only writes.
 */
#ifndef PAWL_CORE_ERROR_TEXT_H
#define PAWL_CORE_ERROR_TEXT_H

#include "core/web/problem.h"

#define ERROR_TEXTS_MAX 64
#define ERROR_TEXT_MAX 4096 /* bytes of a template */

struct error_texts {
    struct slice media_type; /* JSON, without parameters */
    bool lacks_error;        /* one of a 409 has no member `error` */
    size_t n;
    struct error_text {
        struct slice name; /* of the error (error_text_name), or `default` */
        struct slice text;
    } at[ERROR_TEXTS_MAX];
};

/* What a template is filled with. */
struct error_facts {
    const struct problem *problem;
    uint64_t retry_after;  /* seconds; 0: not said, null */
    struct slice trace_id; /* may be empty */
};

/* The last word of its code: in_progress. */
struct slice error_text_name(enum error error);

/* The template of that error, or the default's; `.at` NULL: there is none. Accepts NULL. */
struct slice error_texts_find(const struct error_texts *texts, enum error error);

/* Appends the filled template. False: `*ret_wrong` is a {name} that there is not, or that stands
 * inside a string and is a value, or the other way round. */
bool error_text_fill(struct slice text, const struct error_facts *facts, struct buf *buf,
                     struct slice *ret_wrong);

#endif
