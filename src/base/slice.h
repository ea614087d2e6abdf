/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slice: bytes that somebody else owns. Never NUL-terminated by promise; `at` may be NULL only when
 * `len` is 0. Copied by value.
 */
#ifndef PAWL_BASE_SLICE_H
#define PAWL_BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Elements of an array. */
#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

struct slice {
    const char *at;
    size_t len;
};

/* A slice over a string literal, usable in initialisers. */
#define SLICE(literal) ((struct slice){"" literal, sizeof literal - 1})
/* Two printf arguments for "%.*s". */
#define SLICE_ARG(s) (int)(s).len, (s).at ? (s).at : ""
/* The same of its first 60 bytes, as a text from outside is quoted in a sentence. */
#define SLICE_QUOTED(s) SLICE_ARG(slice_first(s, 60))

static inline struct slice slice_make(const void *at, size_t len)
{
    return (struct slice){at, len};
}

/* A slice over a C string; NULL gives the empty slice. */
static inline struct slice slice_of(const char *string)
{
    return string ? slice_make(string, strlen(string)) : slice_make(NULL, 0);
}

static inline bool slice_eq(struct slice a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

/* Below, equal to or above 0: by bytes, a beginning before what goes on. */
static inline int slice_compare(struct slice a, struct slice b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len > 0 ? memcmp(a.at, b.at, len) : 0;
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

/* Whether they are the same, ASCII letters compared without case. */
bool bytes_eq_nocase(const char *a, const char *b, size_t n);

/* As slice_eq, ASCII letters compared without case. Inlined: a field is looked for among others,
 * nearly all of which differ in their length. */
static inline bool slice_eq_nocase(struct slice a, struct slice b)
{
    return a.len == b.len && bytes_eq_nocase(a.at, b.at, a.len);
}

/* Whether `s` is one of an array's slices, case ignored. */
bool slice_is_among(struct slice s, const struct slice *list, size_t n);
#define SLICE_AMONG(s, list) slice_is_among(s, list, COUNT_OF(list))

/* Whether `s` begins with `prefix`. */
bool slice_starts(struct slice s, struct slice prefix);

/* The slice without its first `n` bytes (n <= len). */
struct slice slice_skip(struct slice s, size_t n);

/* Its first `n` bytes, or all of it where it is shorter. */
struct slice slice_first(struct slice s, size_t n);

/* Without SP and HTAB at both ends (RFC 9110 5.6.3 OWS). */
struct slice slice_trim(struct slice s);

/* Where `c` first stands, or -1. */
ptrdiff_t slice_find(struct slice s, char c);

/* Cuts at the first `c`: `ret_head` gets what stands before it, the result what stands after it.
 * Without `c`, head is everything and the result is empty with `at` == NULL. */
struct slice slice_cut(struct slice s, char c, struct slice *ret_head);

/* Takes the next of the items that `c` divides off the front of `list`: false when there is none,
 * with `list->at` NULL. An empty list whose `at` is not NULL is one empty item. */
bool slice_next(struct slice *list, char c, struct slice *ret_item);

/* Which of these items, from 0, `item` is; -1: none of them. */
ptrdiff_t slice_item(struct slice list, char c, struct slice item);

/* The value of a hexadecimal digit of either case; -1: it is none. */
int hex_digit(char c);

/* Takes `c` off the front; false: it does not stand there. */
bool slice_take(struct slice *rest, char c);

/* How many digits stand at its start. */
size_t slice_digits(struct slice s);

/* How many bytes at its start are ASCII letters, digits or among `marks`. */
size_t slice_span(struct slice s, const char *marks);

/* Whether it is made of these alone, and not empty. */
bool slice_is_word(struct slice s, const char *marks);

/* The marks of a token (RFC 9110 5.6.2), and of what no URL escapes (RFC 3986 2.3). */
#define SLICE_TOKEN_MARKS "!#$%&'*+-.^_`|~"
#define SLICE_URL_MARKS "-._~"

/* Reads decimal digits only, all of `s` (1 to 19 of them), not above `max`. */
bool slice_to_u64(struct slice s, uint64_t max, uint64_t *ret_value);

#endif
