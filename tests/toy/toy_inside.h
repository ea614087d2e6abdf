/* SPDX-License-Identifier: Apache-2.0 */
/* What toy.c and toy_pairs.c know of a toy. */
#ifndef PAWL_TESTS_TOY_INSIDE_H
#define PAWL_TESTS_TOY_INSIDE_H

#include "toy_rows.h"

#include "base/thread.h"
#include "store/backend.h"

#define TOKENS 4096 /* of one load */

/* A record, or a key that was bound to one (bound.id), as a row of a table. */
struct kept {
    struct table_row row;
    struct digest names[2]; /* that lead to it, and to no other: key, once value; else NO_NAME */
    struct store_row store;
    struct backend_owner owner; /* of its lease, as it said last */
    struct outcome *outcome;    /* kept; NULL: none */
    struct backend_bound bound; /* for as long as its holder is there */
};

struct shared {
    struct mutex mutex;
    unsigned refs;
    unsigned char secret[DIGEST_SIZE];
    struct backend_holder holders[STORE_DRAINER + 1]; /* by role */
    struct backend_counts counts;
    int64_t boot;     /* when it was locked last */
    int64_t now;      /* and its store time */
    int64_t ahead;    /* of store time to boot time */
    int64_t token;    /* the last one that was given out */
    int64_t version;  /* of what was written last */
    int64_t removals; /* records and bound keys that went */
    struct terms terms;
    struct rows rows;
};

struct toy {
    struct backend backend; /* first: the two are cast into each other */
    struct shared *shared;
    bool loaded; /* and neither saved nor abandoned; then it was so: */
    int64_t version;
    int64_t removals;
    bool went;       /* a record or a bound key did, since then */
    bool maintained; /* since it saved last: something was written */
};

/* Of records and bound keys. */
extern const struct table toy_records;

/* Locks what all with the array share, and reads its clock. */
struct shared *toy_lock(struct backend *backend);
/* The row to which a name leads; NULL: none. */
struct kept *toy_find_named(const struct rows *rows, const struct digest *name);
/* Whether a change fits what is there, after a load as the toy remembers it. */
bool toy_fits_load(const struct toy *toy, const struct backend_change *change);
void toy_apply_change(const struct toy *toy, const struct backend_change *change);

/* See struct backend_ops. */
enum backend_status toy_pairs(struct backend *backend, struct backend_save *save,
                              struct backend_read *read);

#endif
