/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filled: a URL, or the target of a request, into which values are put that somebody else chose: an
 * item of `pawl each --send`, the response of a step, the request that is probed for. What comes
 * out must name what its author meant, whatever the value: with an empty one or `..` the DELETE of
 * one hold would be that of all. So the result is judged, piece by piece as it is written:
 *
 *      https://api.example.com/holds/{id}/cancel?why={why}
 *      '--- origin ----------' '----' '--' '----' '--- query
 *
 * A segment of the path that holds a value must name something and hold no control byte; dots are
 * found behind escapes too (core/request/path.h). Values are escaped but for unreserved bytes, so
 * that none ends its segment. Literals are their author's, and are not judged. Pure.
 */
#ifndef PAWL_CORE_FILLED_H
#define PAWL_CORE_FILLED_H

#include "base/buf.h"

enum filled_fault {
    FILLED_GOOD,
    FILLED_NAMELESS,  /* a segment is empty, or "/" and no more when it is decoded */
    FILLED_DOTS,      /* it is, or has behind escaped slashes, "." or ".." */
    FILLED_CONTROL,   /* it holds a control byte */
    FILLED_EMPTY,     /* a value of the query is empty */
    FILLED_ORIGIN,    /* a value would be scheme, host or port */
    FILLED_AMBIGUOUS, /* for core/template/template.h: path_is_ambiguous */
};

enum filled_flag {
    FILLED_WANTS_VALUES = 1, /* an empty value in the query is a fault */
    FILLED_KEEPS_ORIGIN = 2, /* so is one before the path */
};

struct filled {
    struct buf *buf; /* gets the text */
    unsigned flags;
    size_t piece;     /* where the segment begins that is being written */
    unsigned slashes; /* written; behind the third the path begins */
    bool holds;       /* a value is in the piece */
    bool in_query;
    enum filled_fault fault; /* the first */
};

/* Of a URL; one of a target, which begins with its path, has no origin to keep. */
struct filled filled_make(struct buf *buf, unsigned flags);

/* Appends a literal; a value, escaped. */
void filled_add_text(struct filled *filled, struct slice literal);
void filled_add_value(struct filled *filled, struct slice value);

/* The caller appends this value next, spelled for a URL. */
void filled_expect(struct filled *filled, struct slice value);

/* The text is whole: what is wrong with it. */
enum filled_fault filled_end(struct filled *filled);

/* As in "the value of {id} ..."; of a fault. */
const char *filled_fault_text(enum filled_fault fault);

#endif
