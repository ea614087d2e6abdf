/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table: rows of modules, kept beside the records.
 *
 * A module declares its table once: a struct that begins with a struct table_row, a list of its
 * columns, and a line in `tables` of store.c. Each backend keeps such rows by the declaration
 * alone: it inserts, updates and removes them if they are still what their bringer read (struct
 * table_change, brought by an operation), reads them (struct table_query), and sweeps those whose
 * time is past.
 */
#ifndef PAWL_STORE_TABLE_H
#define PAWL_STORE_TABLE_H

#include "base/slice.h"

enum table_kind {
    TABLE_INT,   /* int64_t, int, bool, an enum */
    TABLE_TEXT,  /* a slice */
    TABLE_BYTES, /* a slice */
};

enum table_role {
    TABLE_PLAIN,
    TABLE_KEY,  /* what all columns of this role hold is in no other row, and never changes */
    TABLE_DUE,  /* store time at which there is something to do; CLOCK_NEVER: never */
    TABLE_GONE, /* store time: the row is swept `keep_us` later; CLOCK_NEVER: never */
};

struct table_column {
    const char *name;
    enum table_kind kind;
    enum table_role role;
    size_t offset;
    size_t size; /* of the field */
};

#define TABLE_COLUMN(type, kind, role, field, name)                                                \
    {                                                                                              \
        name, TABLE_##kind, TABLE_##role, offsetof(type, field), sizeof(((type *)0)->field)        \
    }

/* What every row begins with. */
struct table_row {
    int64_t id;      /* a token of its own: ascending, never repeated */
    int64_t version; /* another one after each change; of a log 0 */
};

struct table {
    const char *name;
    const struct table_column *columns; /* all but those of struct table_row */
    size_t n_columns;
    size_t row_size; /* at most TABLE_ROW_MAX */
    int64_t keep_us;
    bool is_log; /* rows are only added: ids ascend with TABLE_GONE, nothing has a version */
    bool (*is_sound)(const void *row); /* false: it is none that pawl wrote; NULL: all are */
};

#define TABLE_ROW_MAX 1024

/* The value of a column. */
int64_t table_number(const struct table_column *column, const void *row);
struct slice table_text(const struct table_column *column, const void *row);
void table_set_number(const struct table_column *column, void *row, int64_t value);
void table_set_text(const struct table_column *column, void *row, struct slice value);

/* The column of a role; NULL: the table has none. With several it is the first. */
const struct table_column *table_column_of(const struct table *table, enum table_role role);

enum table_act { TABLE_INSERT, TABLE_UPDATE, TABLE_REMOVE };

/* A row that an operation brings. It is saved with all that the operation changes, or nothing is:
 * it must still be as the operation read it, by id and version, and an inserted one must have a key
 * of its own. Else the operation ends as STORE_CONFLICT. */
struct table_change {
    const struct table *table;
    enum table_act act;
    struct table_row *row; /* borrowed until the operation has ended; an inserted one gets its id */

    bool is_stale;   /* result: this one did not fit */
    int64_t version; /* result: its version from now on */

    bool again; /* the committer's own: it may have been saved already */
};

enum table_order {
    TABLE_BY_ID,
    TABLE_BY_KEY, /* the row that has the key of `like` */
    TABLE_BY_DUE, /* rows whose time has come, by that and then by id */
};

/* At most `limit` rows behind `after` (its id; by due also its time), in order, on the committer's
 * thread; texts are valid during the call. A batch may be tried again: what was shown before
 * `restart` counts no more. */
struct table_query {
    const struct table *table;
    enum table_order by;
    const struct table_row *like;
    int64_t after;
    int64_t after_due;
    size_t limit;
    void (*restart)(void *argument); /* before the first row of each try; NULL: not called */
    void (*each)(void *argument, const struct table_row *row);
    void *argument;
};

#endif
