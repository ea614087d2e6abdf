/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows: rows of modules, found and saved under one rule: what is saved is still as it was found.
 * Where another one was faster, nothing is saved (STORE_CONFLICT), and all is found and decided
 * again:
 *
 *     enum store_status status = STORE_CONFLICT;
 *     while (rows_try_again(&rows, &status))
 *         status = ..; // rows_find.., decide, rows_put, rows_save
 */
#ifndef PAWL_STORE_ROWS_H
#define PAWL_STORE_ROWS_H

#include "store/finding.h"
#include "store/store.h"

#define ROWS_WITHIN_US (10 * CLOCK_US_PER_S)
#define ROWS_TRIES_MOST 100
#define ROWS_ROOM ((size_t)6)

struct rows {
    struct store *store;
    struct parker *parker;
    struct arena *arena;          /* the caller's: what is found lies in it; NULL: nothing is */
    struct table_change *changes; /* what is saved next: the first `n`; NULL: they are in `room` */
    size_t n;
    size_t most;                      /* for which there is room; 0: ROWS_ROOM */
    bool begins;                      /* struct store_op says what */
    const struct terms_change *terms; /* the same */
    int64_t within_us;                /* of each operation of the store; 0: ROWS_WITHIN_US */
    int64_t now;                      /* store time of what was found last */
    int tries;                        /* of rows_try_again */
    struct table_change room[ROWS_ROOM];
};

/* Runs a query, whose callbacks are this one's; its limit is what fits into memory.
 * STORE_NO_MEMORY: it did not. */
enum store_status rows_find(struct rows *rows, const struct table_query *query,
                            struct store_found *ret_found);

/* All rows of a table, however many, in the order of their ids. They are read in pages, each of its
 * own moment: what is made meanwhile is behind what was there. */
enum store_status rows_find_all(struct rows *rows, const struct table *table,
                                struct store_found *ret_found);

/* `*row` becomes the first row of a query, its texts in the arena. `row->id` 0: there is none, and
 * the rest of it stays. */
enum store_status rows_find_first(struct rows *rows, const struct table_query *query,
                                  struct table_row *row);
/* The same: the one that has the key of `*row`; the one that has this id. */
enum store_status rows_find_one(struct rows *rows, const struct table *table,
                                struct table_row *row);
enum store_status rows_by_id(struct rows *rows, const struct table *table, int64_t id,
                             struct table_row *row);
/* That one as it lies in the arena; NULL: there is none. */
enum store_status rows_take(struct rows *rows, const struct table *table, int64_t id,
                            struct table_row **ret_row);

/* How many rows a query by an index has, counted up to its limit. */
enum store_status rows_count(struct rows *rows, const struct table_query *query, size_t *ret_n);

/* Adds a change to what is saved next; `parent` as in struct table_change. */
void rows_put(struct rows *rows, enum table_act act, const struct table *table,
              struct table_row *row, const struct table_row *parent);

/* Saves what was put, all or nothing of it; the changes stay, with what came of each, and their
 * rows are as they were saved. Where nothing was put, the store is not asked. */
enum store_status rows_save(struct rows *rows);

/* Whether to try: `*status` is STORE_CONFLICT, before the first time and whenever another one was
 * faster; then nothing is put. False, and STORE_DOWN: another one was ROWS_TRIES_MOST times, so
 * that this one could not be written in time. */
bool rows_try_again(struct rows *rows, enum store_status *status);

#endif
