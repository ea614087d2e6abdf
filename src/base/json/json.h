/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON (RFC 8259), read strictly and written plainly.
 *
 * The reader builds a tree over the caller's bytes. It keeps what hashing needs and no library in
 * Debian gives: number literals exactly as written, duplicate member names reported, lone
 * surrogates refused. Depth is bounded by JSON_DEPTH_MAX, numbers as base/text/number.h says (RFC
 * 8259 section 9 allows both). Reading does not recurse: depth costs no stack.
 *
 * Cost: one struct json (64 bytes) for each value in the arena, so a body of n bytes may need 32 n
 * (`[1,1,1...`); time grows as n log n, whatever the member names are.
 */
#ifndef PAWL_BASE_JSON_H
#define PAWL_BASE_JSON_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/headers.h"

#define JSON_DEPTH_MAX 200

enum json_type {
    JSON_NULL,
    JSON_FALSE,
    JSON_TRUE,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT,
};

struct json {
    enum json_type type;
    uint32_t at;        /* its first byte in the text, which is shorter than 4 GiB; else no use */
    struct slice text;  /* number: the literal. string: decoded UTF-8 (arena or source) */
    struct slice name;  /* member name, decoded, when inside an object */
    struct json *first; /* array, object: first child */
    struct json *next;  /* next sibling, in source order */
    size_t count;       /* array, object: children */
};

enum json_error {
    JSON_OK,
    /* Not JSON at all. These win over the refusals below, wherever they stand in the text. */
    JSON_SYNTAX,
    JSON_UTF8,     /* invalid UTF-8 in a string */
    JSON_TRAILING, /* something after the value */
    /* Nested deeper than JSON_DEPTH_MAX; what comes after was not looked at. */
    JSON_DEPTH,
    /* JSON by its grammar, but refused. */
    JSON_SURROGATE, /* a lone \uD800-\uDFFF */
    JSON_DUPLICATE, /* a member name twice in one object, however it was escaped */
    JSON_RANGE,     /* a number that is not bounded (base/text/number.h) */
    JSON_NO_MEMORY, /* the arena has failed */
};

/* Parses all of `bytes` as one JSON text. On success `*ret_root` lives in `arena` (strings without
 * escapes point into `bytes`). On failure `*ret_offset` is the byte where it was seen; it may be
 * NULL. A leading byte order mark is a syntax error. */
enum json_error json_parse(struct arena *arena, struct slice bytes, struct json **ret_root,
                           size_t *ret_offset);

/* Whether a text with this error still is JSON by RFC 8259's grammar, as far as it was read. */
static inline bool json_error_is_refusal(enum json_error error)
{
    return error == JSON_DEPTH || error == JSON_SURROGATE || error == JSON_DUPLICATE ||
           error == JSON_RANGE;
}

/* Whether this media type, without parameters, is application/json or ends with +json (RFC 6839
 * 3.1). */
bool json_is_type(struct slice media_type);
/* Whether these header lines say that their body is JSON, in no content coding. */
bool json_is_body_of(const struct headers *headers);

/* Whether `text` ends inside a JSON text: within a string, an array or an object. Of a number or a
 * word that is not seen; what is no JSON, or nothing at all, is not cut. */
bool json_is_cut(struct slice text);

/* One line for a message, such as "duplicate member name". */
const char *json_error_text(enum json_error error);

/* The value a JSON pointer names (RFC 6901), or NULL. "" is the root. */
const struct json *json_at(const struct json *root, struct slice pointer);

/* The same, or NULL where the value is of another type. */
const struct json *json_at_as(const struct json *root, struct slice pointer, enum json_type type);

/* A scalar as it stands in `bytes`, the text of its tree: a string with its quotes and escapes. */
struct slice json_written(struct slice bytes, const struct json *scalar);

/* Whether `pointer` is "" or well-formed (RFC 6901 section 3). */
bool json_pointer_valid(struct slice pointer);

/* Whether it is written as where there are wildcards: it starts with '$' or '.', or has a member
 * '*' or '-', which a JSON pointer takes for names. */
bool json_pointer_is_meant_wild(struct slice text);

/* Sorts `n` members by name in UTF-16 code units (RFC 8785 3.2.3). `scratch` has room for `n`.
 * Equal names keep their order. */
void json_sort_members(const struct json **members, size_t n, const struct json **scratch);

/* ---- writing ---- */

/* Appends `s` as a JSON string with quotes. Invalid UTF-8 bytes are written as \ufffd. Control
 * bytes, '"' and '\\' are escaped (\b \t \n \f \r or \u00xx, lower case), DEL as \u007f. */
void json_add_string(struct buf *buf, struct slice s);

/* The same without the quotes. */
void json_add_content(struct buf *buf, struct slice s);

/* Appends `s`, which is well-formed UTF-8, as RFC 8785 3.2.2.2 writes a string: nothing is escaped
 * but control characters below U+0020, '"' and '\\'. */
void json_add_canonical_string(struct buf *buf, struct slice s);

/* Appends a parsed value: numbers as they were written, members in their order. */
void json_add_value(struct buf *buf, const struct json *json);

/* Whether a reader of `s` sees what it is: UTF-8 without control characters and marks
 * that change the direction of writing. */
bool json_is_legible(struct slice s);

/* Appends `"name":`, the name as it is (it is ours), with a comma before it unless the last byte is
 * '{' or '['. */
void json_add_name(struct buf *buf, const char *name);

/* The same, and the '{', '[' or '"' that opens its value. */
void json_open(struct buf *buf, const char *name, char bracket);

/* Appends the comma before a list's next item, unless it is the first. */
void json_next_item(struct buf *buf);

/* Appends a whole member: name and value. */
void json_add_null(struct buf *buf, const char *name);
void json_add_text(struct buf *buf, const char *name, struct slice value);
void json_add_i64(struct buf *buf, const char *name, int64_t value);
void json_add_bool(struct buf *buf, const char *name, bool value);

/* Header lines, as an array of [name, value] in their order; a file of them is ["@", path]. */
void json_add_fields(struct buf *buf, const char *name, struct slice lines);

/* The same of what is null where it is not known: an empty text, 0; a moment that is 0 or that no
 * calendar has, as ISO 8601 (base/time/timestamp.h). */
void json_add_known_text(struct buf *buf, const char *name, struct slice value);
void json_add_known_i64(struct buf *buf, const char *name, int64_t value);
void json_add_time(struct buf *buf, const char *name, int64_t us);

#endif
