/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of the toy backend, for its own files: records and rows of modules in one array. */
#ifndef PAWL_TESTS_TOY_ROWS_H
#define PAWL_TESTS_TOY_ROWS_H

#include "base/arena.h"
#include "base/clock.h"
#include "store/table.h"

struct slot {
    const struct table *table; /* a module's, or that of the records */
    struct table_row *row;
};

struct rows {
    struct slot *at; /* by id, and by table */
    size_t n;
};

/* ---- toy.c ---- */

/* NULL: none. */
void *toy_find_row(const struct rows *rows, const struct table *table, int64_t id);
/* With its texts behind it, in the arena or (NULL) on the heap. NULL: of nothing, or no memory. */
void *toy_copy_row(const struct table *table, const void *from, struct arena *arena);
/* What has this id from now on: takes over a copy. NULL: nothing. */
void toy_set_row(struct rows *rows, const struct table *table, int64_t id, void *row);

/* ---- toy_rows.c ---- */

/* Shows what a query asks for; when the first one is due that was left out. */
int64_t toy_read_rows(const struct rows *rows, const struct table_query *query, int64_t now);
/* True: it is what its bringer read, and is written. */
bool toy_bring_row(struct rows *rows, struct table_change *change);
/* With the row of that id go its children. */
void toy_remove_row(struct rows *rows, const struct table *table, int64_t id);

#endif
