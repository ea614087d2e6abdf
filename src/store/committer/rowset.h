/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rowset: what one batch knows of the store: the names that its operations bring, the rows to which
 * they lead as its operations left them so far, and what of that is to be saved.
 *
 *      rowset_want ... -> rowset_load -> { rowset_find | _insert | _update ... } -> rowset_groups
 *
 * Decisions are made in memory between one load and one save, so that a backend is asked twice a
 * batch and not twice an operation. What two operations change in common belongs to one group,
 * which is saved whole or not at all. Rows and texts lie in the arena, or are borrowed from
 * operations of the batch: they are valid until rowset_reset, which comes before those end.
 *
 * Without memory nothing more is kept: rowset_close says so, and the batch is to be abandoned.
 */
#ifndef PAWL_STORE_ROWSET_H
#define PAWL_STORE_ROWSET_H

#include "base/arena.h"
#include "store/backend.h"

#define ROWSET_NAMES_MAX 2048 /* in one batch: operations that bring more wait for the next */

#define ROWSET_BUCKETS 1024

struct rowset_row;
struct rowset_name;
struct rowset_memory;

struct rowset {
    struct arena arena;
    struct rowset_memory *memory; /* of the four arrays */
    struct backend_name *names;   /* ROWSET_NAMES_MAX: what is asked for, in order of arrival */
    struct rowset_name *known;    /* the same, with what the batch made of it */
    size_t n_names;
    uint16_t *index;               /* of names + 1 by hash, open addressing; 0: free */
    const struct backend *backend; /* from which it was loaded */
    struct rowset_row *rows;       /* in order of arrival, as all here */
    struct rowset_row *last_row;
    struct rowset_row **by_id; /* ROWSET_BUCKETS */
    struct backend_group *groups;
    struct backend_group *last_group;
    struct backend_group *group; /* of the operation being decided; NULL: it changed nothing yet */
};

/* Empty. False: no memory. */
bool rowset_init(struct rowset *set);
void rowset_fini(struct rowset *set);

/* Forgets everything, for the next batch. */
void rowset_reset(struct rowset *set);

/* What an operation may look at: all its names, and those that it may get. False: there
 * is no room for them in this batch. */
bool rowset_want(struct rowset *set, const struct store_op *op);
/* Whether all of that is known. */
bool rowset_knows(const struct rowset *set, const struct store_op *op);

/* Loads what is wanted: what comes to be wanted after it is known to no one. */
enum backend_status rowset_load(struct rowset *set, struct backend *backend,
                                struct backend_read *ret_read);

/* In place of a load: what the one name of a begin or of a finish leads to, as it is assumed. NULL:
 * nothing. False: another operation of the batch looks at it, or there is no memory for it. */
bool rowset_assume(struct rowset *set, const struct store_op *op, const struct store_row *row);

/* An operation is about to be decided; it has been: op->group is its group, NULL where it changed
 * nothing, and saw nothing that another one changed. False: no memory, for whatever it changed.
 * Behind an operation that failed it need not be called. */
void rowset_open(struct rowset *set);
bool rowset_close(struct rowset *set, struct store_op *op);

/* The row to which a key leads, compared by the hashes of that key; with `hint` that row, if it is
 * of this key. RECORD_ABSENT: none. Texts are valid until rowset_reset. */
void rowset_find(struct rowset *set, const struct digest *key, int64_t hint,
                 struct store_row *ret_row);
/* The row to which a once value leads. */
void rowset_find_once(struct rowset *set, const struct digest *once, struct store_row *ret_row);

/* A row by its id, as it is by now; it must be there. */
void rowset_row(struct rowset *set, int64_t id, struct store_row *ret_row);

/* A new row: its key, and with `once` its value, lead to it from now on. Borrows all texts. */
void rowset_insert(struct rowset *set, const struct store_row *row, const struct store_once *once);
/* The record of a row as it is now, and whence it came; of one that becomes final, or is filled in,
 * with what is kept of its response (borrowed; NULL: nothing new). */
void rowset_update(struct rowset *set, const struct store_row *row, struct outcome *outcome);
/* Deletes it, and with it all names that still lead to it. `forgotten`: an operator said so. */
void rowset_remove(struct rowset *set, const struct store_row *row, bool forgotten);
/* A pending row gets its once value, in place of the one that it may have had: it leads to the row
 * from now on, under the row's own rule name. */
void rowset_hold(struct rowset *set, const struct store_row *row, struct slice once,
                 int64_t template_id);
/* A key leads to the row of another one from now on. Copies what `bound` points to. */
void rowset_bind(struct rowset *set, const struct backend_bound *bound);
/* What the operation under way changes, be it nothing, is saved only under the terms that were
 * loaded (store/tables/terms.h). */
void rowset_begin(struct rowset *set);
/* A row of a table, saved with what else the operation under way changes; borrowed. */
void rowset_bring(struct rowset *set, struct table_change *change);

/* The outcome of a final row as this batch read or wrote it: borrowed; NULL:
 * it is to be read. And what was read of it: a reference of the set's own. */
struct outcome *rowset_outcome(struct rowset *set, const struct store_row *row);
void rowset_keep_outcome(struct rowset *set, const struct store_row *row, struct outcome *outcome);

/* Whether it became final in this batch: what is kept of it is not there to be read yet. */
bool rowset_has_finished(const struct rowset *set, const struct store_row *row);

/* What is to be saved, in the order in which operations came to it; NULL: nothing. */
struct backend_group *rowset_groups(struct rowset *set);

#endif
