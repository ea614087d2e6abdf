/* SPDX-License-Identifier: Apache-2.0 */
/*
 * marked: a hostile backend with the marks of PostgreSQL's in front of it. What a process keeps and
 * sends of its mark is store/postgres/mark.c; what a server does with that (pawl.keep_mark,
 * pawl.see_mark) is written again here, over an array that several backends share.
 *
 * A program with it is linked with --wrap=postgres_queue and --wrap=postgres_number: there is no
 * connection, and no result.
 */
#ifndef PAWL_TESTS_MARKED_H
#define PAWL_TESTS_MARKED_H

#include "hostile.h"
#include "store/postgres/postgres.h"

#define MARKS_MAX 1024

/* The table pawl.mark; a copy of it is as it was then. */
struct marks {
    struct marks_row {
        int64_t by, value, at;
    } rows[MARKS_MAX];
    size_t n;
};

struct marked {
    struct backend backend; /* first: the two are cast into each other */
    struct backend *behind; /* a hostile one */
    struct marks *marks;
    struct postgres_backend postgres;
    /* Faults: each of the next save that it can be of. */
    bool loses; /* it is not written, and nobody knows */
    bool held;  /* a stranger holds the row of the mark */
    /* Saves of this process that wrote, by their numbers, for oracles. */
    int64_t sent;
    int64_t written; /* the last one that the store has; oracles set it back with the store */
    int64_t acked;   /* up to which it knows them to be committed */
};

/* Takes over `behind`; `marks` is borrowed. */
struct backend *marked_over(struct backend *behind, struct marks *marks);
/* Another session of the same process. */
struct backend *marked_beside(const struct backend *backend, size_t number);

#endif
