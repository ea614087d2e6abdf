/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header list that http and core share: field lines in their order of arrival, names as they
 * were written. Slices point into memory that outlives the list (a read buffer, an arena, a
 * record).
 */
#ifndef PAWL_BASE_HEADERS_H
#define PAWL_BASE_HEADERS_H

#include "base/buf.h"

#define HEADERS_MAX 100     /* field lines in one message; more is refused */
#define HEADERS_HOPS_MAX 32 /* members of its Connection lists; more is refused */

struct header {
    struct slice name;
    struct slice value; /* without white space at its ends */
};

struct headers {
    size_t n;
    size_t n_hops;
    struct slice hops[HEADERS_HOPS_MAX]; /* what Connection lists, read once */
    struct header at[HEADERS_MAX];
};

/* Empties the list. */
static inline void headers_clear(struct headers *headers)
{
    headers->n = headers->n_hops = 0;
}

/* Adds a line; false when the list is full (`n` is HEADERS_MAX), or Connection lists too much. */
bool headers_add(struct headers *headers, struct slice name, struct slice value);

/* The first line of that name (case ignored), or NULL. */
const struct header *headers_find(const struct headers *headers, struct slice name);

/* How many lines have that name. */
size_t headers_count(const struct headers *headers, struct slice name);

/* The next line of that name at or after index *at; moves *at behind it; NULL at the end. */
const struct header *headers_next(const struct headers *headers, struct slice name, size_t *at);

/* Whether the comma-separated lists under `name` hold `token` (case ignored; RFC 9110 5.6.1). */
bool headers_list_has(const struct headers *headers, struct slice name, struct slice token);

/* Whether Connection lists `token` (case ignored). */
bool headers_connection_has(const struct headers *headers, struct slice token);

/* Whether `name` is hop-by-hop: RFC 9110 7.6.1's fixed names, or listed in Connection. */
bool headers_is_hop_by_hop(const struct headers *headers, struct slice name);

/* Whether `name` is `wanted` (case ignored) where '_' counts as '-', as it does behind CGI, WSGI
 * and Rack. */
bool headers_is_dashed(struct slice name, struct slice wanted);

/* Whether it is so one of an array's names. */
bool headers_is_among(struct slice name, const struct slice *list, size_t n);
#define HEADERS_AMONG(name, list) headers_is_among(name, list, COUNT_OF(list))

/* Whether `s` is a token (RFC 9110 5.6.2), as names of fields are. */
bool header_is_token(struct slice s);

/* Whether a value may be `s`: it contains no control byte but HTAB (RFC 9110 5.5). */
bool header_is_text(struct slice s);

/* Whether a line of both may be written. */
bool header_is_valid(struct slice name, struct slice value);

/* ---- lines: `Name: value`, each with its CR LF, as they are stored and sent ---- */

/* Appends one. */
void fields_add(struct buf *buf, struct slice name, struct slice value);

/* Takes the next line off, without its line end: LF, or CR LF. False: there is none. */
bool fields_next_line(struct slice *rest, struct slice *ret_line);

/* The same in its parts, the value without white space at its ends, a CR before LF not counted in.
 * Without a colon all of it is the name, and the value's `at` is NULL. A line `@FILE`, which stands
 * for the lines of a file, has the name "@", as no field has. */
bool fields_next(struct slice *rest, struct slice *ret_name, struct slice *ret_value);

#endif
