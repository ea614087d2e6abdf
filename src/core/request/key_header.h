/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Idempotency-Key header: an RFC 9651 Item that is a String ("k", parameters ignored), or under
 * lenient syntax a bare value (0x21-0x7E without '"' and comma). Both give one key. Pure.
 *
 * Which values are keys at all (`key_format:`) is in key_format.c.
 */
#ifndef PAWL_CORE_KEY_HEADER_H
#define PAWL_CORE_KEY_HEADER_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/headers.h"

#define KEY_TEXT_MAX 255 /* bytes of a key */

enum key_syntax {
    KEY_SYNTAX_LENIENT,
    KEY_SYNTAX_STRICT, /* String only */
};

enum key_header {
    KEY_HEADER_OK,
    KEY_HEADER_ABSENT,
    KEY_HEADER_REPEATED, /* more than one field line */
    KEY_HEADER_EMPTY,
    KEY_HEADER_TOO_LONG, /* over 255 bytes unquoted */
    KEY_HEADER_MALFORMED,
    KEY_HEADER_HOP_BY_HOP, /* named in Connection: the upstream would not see it */
    KEY_HEADER_NO_MEMORY,
};

/* Reads one value; `*ret_key` is unquoted and unescaped, in `arena` or in `value`. */
enum key_header key_value_read(struct slice value, enum key_syntax syntax, struct arena *arena,
                               struct slice *ret_key);

/* Reads the one field line `name` of a request. HOP_BY_HOP also when Connection names it and it is
 * absent: the sender meant it for nobody behind pawl. */
enum key_header key_header_read(const struct headers *headers, struct slice name,
                                enum key_syntax syntax, struct arena *arena, struct slice *ret_key);

/* Appends what makes a value malformed: ": byte 3 is ',' (a quoted string may hold it)". */
void key_value_explain(struct slice value, enum key_syntax syntax, struct buf *buf);

/* `forward_key:`: how keys are spelled to the upstream, which knows an operation by these bytes. */
enum key_forward {
    KEY_FORWARD_BY_SYNTAX, /* QUOTED under strict syntax; else bare where nobody reads it otherwise:
                              of A-Za-z0-9._~/@+:%- */
    KEY_FORWARD_BARE,      /* bare wherever that reads back as the same key */
    KEY_FORWARD_QUOTED,    /* always an RFC 9651 String */
};

/* Appends the one spelling of a key text (0x20-0x7E) as a field value. No two texts have the same,
 * and each reads back as its text. */
void key_value_write(struct slice text, enum key_forward forward, enum key_syntax syntax,
                     struct buf *buf);

/* Which of the two spellings that is: KEY_FORWARD_BARE or KEY_FORWARD_QUOTED. */
enum key_forward key_spelling(struct slice text, enum key_forward forward, enum key_syntax syntax);

/* Appends a text that was sent before in that spelling (KEY_FORWARD_BY_SYNTAX: not known) as it was
 * sent, whatever is configured by now. */
void key_value_write_as(struct slice text, enum key_forward sent, enum key_forward forward,
                        enum key_syntax syntax, struct buf *buf);

/* What is wrong, for a message: a sentence without its capital and its full stop. */
const char *key_header_text(enum key_header result);

/* `key_format:` (contract section 3). */
enum key_format_kind {
    KEY_FORMAT_ANY,
    KEY_FORMAT_UUID,
    KEY_FORMAT_UUID4,
    KEY_FORMAT_UUID7, /* says when it was made (RFC 9562 5.7) */
    KEY_FORMAT_REGEX, /* POSIX ERE without back-references and nested repeats */
};
struct key_format;

/* Compiles a format into `arena`; `pattern` counts with REGEX (core/request/pattern.h), and matches
 * whole keys. NULL: `*ret_problem` says why, in a sentence that lives for ever. */
const struct key_format *key_format_new(enum key_format_kind kind, struct slice pattern,
                                        struct arena *arena, struct slice *ret_problem);

/* Whether it puts keys into lower case. Accepts NULL. */
bool key_format_folds(const struct key_format *format);
/* The same of a kind. */
bool key_format_kind_folds(enum key_format_kind kind);

/* When a key of KEY_FORMAT_UUID7 says that it was made, in microseconds of the time of day. 0: it
 * is none. */
int64_t key_made_at(struct slice key);

/* Appends what the format asks for: "a UUID", "what the regex PATTERN matches". */
void key_format_describe(const struct key_format *format, struct buf *buf);

/* Whether `key` has the format. For UUIDs `*ret_key` is `key` in lower case (in `arena`). False
 * also when memory ran out (arena->failed). Thread-safe. */
bool key_format_match(const struct key_format *format, struct slice key, struct arena *arena,
                      struct slice *ret_key);

#endif
