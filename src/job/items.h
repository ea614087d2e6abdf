/* SPDX-License-Identifier: Apache-2.0 */
/*
 * items: what `pawl each` runs its command for, read from bytes that are fed in pieces of any size.
 * Pure: no file descriptor, no clock, no thread.
 *
 *     items_init --> items_next --MORE--> items_feed, or items_end where no more comes --.
 *                      |   ^                                                             |
 *                      |   '-------------------------------------------------------------'
 *                      +--ONE, BAD: again    +--DONE, BROKEN: items_fini
 *
 * form         an item                     skipped           malformed (ITEMS_BAD)
 * ITEMS_LINES  a line                      empty lines       a NUL byte
 * ITEMS_NUL    what ends with a NUL byte   empty ones        nothing
 * ITEMS_CSV    a record behind the header  empty lines       see below
 * ITEMS_JSONL  a line: one JSON value      blank lines       what json_parse refuses
 *
 * A line ends with LF or CR LF; the end of the input ends one too, also after the CR of a CR LF
 * that was cut off. ITEMS_NUL keeps every byte but NUL. In the other forms a UTF-8 byte order mark
 * at the start of the input is dropped.
 *
 * CSV is RFC 4180 in UTF-8. The first record is the header: every column has a name of its own, or
 * the input is ITEMS_BROKEN. A field that begins with a quote ends with one, may span lines, and
 * has its quotes doubled. Malformed are a quote or a CR anywhere else, another number of fields
 * than the header has, a NUL byte and invalid UTF-8. Spaces belong to the field; each value is a
 * string. A malformed record ends where it would if the stray quote were a letter: a multi-line
 * field behind it is not mistaken for records of its own.
 *
 * An item of more than ITEMS_LONGEST bytes is malformed in every form.
 *
 * Cost: each byte is looked at once, to find the end of its item, and again when the item is taken,
 * however the input was cut (JSON: base/json/json.h). Of an unfinished item at most ITEMS_LONGEST
 * bytes are held, twice that with what was taken before it and not dropped yet; to it come the
 * header and what was fed but not taken: feed what read(2) gave, then take items until ITEMS_MORE.
 */
#ifndef PAWL_JOB_ITEMS_H
#define PAWL_JOB_ITEMS_H

#include "base/json/json.h"

/* Bytes of one item, without the end of its line. */
#define ITEMS_LONGEST ((size_t)1024 * 1024)
/* An arena of this size has room for any item: its text and its tree. */
#define ITEMS_ARENA_MAX (40 * ITEMS_LONGEST)

enum items_form {
    ITEMS_LINES,
    ITEMS_NUL,
    ITEMS_CSV,
    ITEMS_JSONL,
};

struct item {
    uint64_t number;    /* from 1, in the order of the input. Malformed items count, a CSV header
                           does not: numbers stay when an item is corrected */
    uint64_t line;      /* in which it begins, from 1 */
    struct slice text;  /* all of it: the line without its end, the CSV record or the JSON line as
                           written; followed by a NUL that does not count */
    struct json *value; /* CSV: an object, each column a string member, in the header's order.
                           JSONL: the value. Else NULL */
};

/* Where in a CSV record the reading is. */
enum items_place {
    ITEMS_AT_FIELD, /* before the first byte of a field */
    ITEMS_IN_PLAIN, /* in a field without quotes */
    ITEMS_IN_QUOTED,
    ITEMS_AT_QUOTE, /* behind a quote in a quoted field: its end, or the first of two */
    ITEMS_AT_CR,    /* behind a CR: LF must follow */
};

/* The caller's memory. Its fields are items.c's alone. */
struct items {
    enum items_form form;
    bool ended; /* no more input comes */
    bool begun; /* it was seen whether there is a byte order mark */

    struct buf input;
    size_t start;   /* in `input`: the current item; what is before it was taken */
    size_t scanned; /* in `input`: up to here the current item's end was looked for */
    uint64_t number;
    uint64_t line;       /* physical line at `scanned`, from 1 */
    uint64_t start_line; /* where the current item begins */
    bool too_long;       /* the current item's bytes are dropped */

    /* Of the current CSV record: */
    enum items_place place;
    size_t n_fields;     /* so far */
    uint64_t quote_line; /* where its last quoted field begins */
    const char *problem; /* the first thing that is malformed, or NULL; */
    uint64_t problem_line;

    /* The CSV header, once it was read; it lives in `kept`. */
    struct arena kept;
    struct json *columns; /* an array; NULL: not read yet */
    size_t n_columns;
    struct slice names; /* all of them, one after the other; columns[i].name points in here */
};

enum items_result {
    ITEMS_ONE,
    ITEMS_MORE,      /* needs more input, or items_end */
    ITEMS_DONE,      /* the input has ended */
    ITEMS_BAD,       /* this item is malformed; reading goes on behind it */
    ITEMS_NO_MEMORY, /* nothing was taken: the same item is next */
    ITEMS_BROKEN, /* nothing more can be read: the CSV header is missing or malformed, or a quoted
                     field is not closed. Calling again gives the same */
};

/* Allocates nothing. */
void items_init(struct items *items, enum items_form form);
void items_fini(struct items *items);

/* Appends a copy of `bytes`; not after items_end. False: no memory; the reader is of no more use
 * then, since it has lost input. */
bool items_feed(struct items *items, struct slice bytes);

/* No more input comes: what is left is the last item, even without its line end. */
void items_end(struct items *items);

/* Takes the next item. What `*ret_item` points to lives in `arena`, the caller's, which is one
 * item's: nothing in it points into `items`. On any result but ITEMS_ONE `*ret_item` is untouched,
 * and the arena may hold rests.
 * On ITEMS_BAD and ITEMS_BROKEN `problem` is emptied and gets one sentence without a full stop. It
 * names a physical line, from 1, or with ITEMS_NUL the item's number:
 *     line 48213: the record has 3 fields, the header has 4
 *     line 7: not JSON at byte 12                               (from 0, of its line)
 *     item 3: longer than 1048576 bytes
 * Else `problem` is untouched. It may run out of memory (buf_ok), which changes no result. */
enum items_result items_next(struct items *items, struct arena *arena, struct item *ret_item,
                             struct buf *problem);

/* Whether the header of CSV was read: items_next reads it, before the first item. Never of another
 * form. */
bool items_header_known(const struct items *items);

/* Of CSV, once its header was read: whether there is a column to which this JSON pointer leads,
 * with nothing behind it; else false. */
bool items_has_column(const struct items *items, struct slice pointer);

/* The columns, for a message: how many (0: the header was not read), and the name of one, from 0.
 * Borrowed until items_fini. */
size_t items_column_count(const struct items *items);
struct slice items_column_at(const struct items *items, size_t i);

#endif
