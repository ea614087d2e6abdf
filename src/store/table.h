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

#include "base/buf.h"
#include <limits.h>

enum table_kind {
    TABLE_INT,   /* int64_t, int, bool, an enum */
    TABLE_TEXT,  /* a slice */
    TABLE_BYTES, /* a slice */
};

enum table_role {
    TABLE_PLAIN,
    TABLE_KEY,    /* what all columns of this role hold is in no other row, and never changes */
    TABLE_DUE,    /* store time at which there is something to do; CLOCK_NEVER: never */
    TABLE_GONE,   /* store time: the row is swept `keep_us` later; CLOCK_NEVER: never */
    TABLE_PARENT, /* the id of the row with which it goes (struct table.parent); an index begins
                     with it */
    TABLE_LINK,   /* the id of a row of another table, which lives on without this one; 0: none */
    TABLE_SUM,    /* what TABLE_ADD adds to */
};

struct table_column {
    const char *name;
    enum table_kind kind;
    enum table_role role;
    size_t offset;
    size_t size;  /* of the field */
    bool is_late; /* a pawl that is older than the column writes rows, too: those that it adds have
                     0 or nothing there, in those that it changes it stays */
};

#define TABLE_COLUMN(type, kind, role, field, name)                                                \
    {                                                                                              \
        name, TABLE_##kind, TABLE_##role, offsetof(type, field), sizeof(((type *)0)->field), false \
    }
/* What is added to a table that is in use: plain, and behind all others. */
#define TABLE_LATE(type, kind, field, name)                                                        \
    {                                                                                              \
        name, TABLE_##kind, TABLE_PLAIN, offsetof(type, field), sizeof(((type *)0)->field), true   \
    }

/* What every row begins with. */
struct table_row {
    int64_t id;      /* a token of its own: ascending, never repeated */
    int64_t version; /* another one after each change; of a log 0 */
};

/* What holds of every row that a pawl wrote: where `when` is from `from` to `to`, what is claimed
 * of `column`. A row of which one of them does not hold, or that has a number which its field
 * cannot hold, is odd: no pawl wrote it. */
enum table_claim {
    TABLE_IS_WITHIN, /* a number from `least` to `most` */
    TABLE_IS_EMPTY,  /* a text */
    TABLE_IS_AS,     /* the text that `as` is */
};

#define TABLE_ALWAYS UCHAR_MAX /* in place of a number column `when` */

struct table_relation {
    enum table_claim claim;
    unsigned char when; /* places among the columns of the table */
    unsigned char column;
    unsigned char as;
    bool may_grow; /* a later version may widen it: it is judged, and no CHECK on PostgreSQL */
    int64_t from, to;
    int64_t least, most;
};

#define TABLE_WITHIN(column, least, most)                                                          \
    {                                                                                              \
        TABLE_IS_WITHIN, TABLE_ALWAYS, column, 0, false, 0, 0, least, most                         \
    }
#define TABLE_GROWS(column, least, most)                                                           \
    {                                                                                              \
        TABLE_IS_WITHIN, TABLE_ALWAYS, column, 0, true, 0, 0, least, most                          \
    }
/* Where `when` is from a to b, which may be one argument for both. */
#define TABLE_WHERE(...) TABLE_WHERE_OF(__VA_ARGS__)
#define TABLE_WHERE_OF(when, a, b, column, least, most)                                            \
    {                                                                                              \
        TABLE_IS_WITHIN, when, column, 0, false, a, b, least, most                                 \
    }
#define TABLE_EMPTY(...) TABLE_EMPTY_OF(__VA_ARGS__)
#define TABLE_EMPTY_OF(when, a, b, column)                                                         \
    {                                                                                              \
        TABLE_IS_EMPTY, when, column, 0, false, a, b, 0, 0                                         \
    }
#define TABLE_AS(...) TABLE_AS_OF(__VA_ARGS__)
#define TABLE_AS_OF(when, a, b, column, other)                                                     \
    {                                                                                              \
        TABLE_IS_AS, when, column, other, false, a, b, 0, 0                                        \
    }

#define TABLE_INDEX_COLUMNS 4

struct table_index {
    const char *name;                           /* behind the table's */
    unsigned char columns[TABLE_INDEX_COLUMNS]; /* places among those of the table */
    unsigned char n_columns;
    bool is_unique;
    bool is_partial; /* without rows whose last column is not set: empty, 0, or CLOCK_NEVER */
};

struct table {
    const char *name;
    const struct table_column *columns; /* all but those of struct table_row */
    size_t n_columns;
    const struct table_index *indexes; /* beside those of TABLE_KEY and TABLE_GONE */
    size_t n_indexes;
    const struct table *parent; /* a row goes with one of these: named by TABLE_PARENT or, in a
                                   table without that, by having its id. NULL: with none */
    size_t row_size;            /* at most TABLE_ROW_MAX */
    int64_t keep_us;
    bool is_log; /* rows are only added: ids ascend with TABLE_GONE, nothing has a version */
    const struct table_relation *relations; /* of every row that a pawl wrote */
    size_t n_relations;
    void (*hold)(void *row); /* makes of an odd row, as it was read, what it counts as until a
                                person acts on it; NULL: an odd one does no harm */
    const char *heal;        /* the command with which a person does, its words joined by `_`: the
                                name of the CHECK on PostgreSQL ends with it; NULL: it has none */
    const char *sqlite_view; /* CREATE VIEW IF NOT EXISTS of what people read of it; NULL: none */
    const char *postgres_view;
};

#define TABLE_ROW_MAX 1024

/* The value of a column. */
int64_t table_number(const struct table_column *column, const void *row);
struct slice table_text(const struct table_column *column, const void *row);
void table_set_number(const struct table_column *column, void *row, int64_t value);
void table_set_text(const struct table_column *column, void *row, struct slice value);

/* Whether the field can hold it: an int has 32 bits, a bool one. */
bool table_fits(const struct table_column *column, int64_t value);

/* Whether all relations of the table hold. */
bool table_is_sound(const struct table *table, const void *row);

enum table_dialect { TABLE_SQLITE, TABLE_POSTGRES, TABLE_POSTGRES_CHECK };

/* The same as a condition in SQL, with whether all numbers fit their fields. As a CHECK it leaves
 * out what may grow. */
void table_write_sound(const struct table *table, enum table_dialect dialect, struct buf *sql);

/* What names an index or CHECK of that condition ends with, so that another condition has another
 * name: 8 hex digits. False: no memory. */
#define TABLE_MARK_SIZE 9
bool table_mark(const struct table *table, enum table_dialect dialect,
                char ret_mark[TABLE_MARK_SIZE]);

/* The column of a role; NULL: the table has none. With several it is the first. */
const struct table_column *table_column_of(const struct table *table, enum table_role role);

/* The names of its key's columns, between commas. */
void table_write_key(const struct table *table, struct buf *sql);

enum table_act {
    TABLE_INSERT,
    TABLE_UPDATE,
    TABLE_TOUCH,  /* nothing but its version changes: whoever read it before has read another row */
    TABLE_REMOVE, /* with its children */
    TABLE_ADD,    /* to the sum of the row that has its key, or as that row: it always fits */
};

#define TABLE_BRINGS_MAX 200 /* rows that one operation may bring */

/* A row that an operation brings. It is saved with all that the operation changes, or nothing is:
 * it must still be as the operation read it, by id and version, and no other row may have what its
 * key and unique indexes hold. Else the operation ends as STORE_CONFLICT. */
struct table_change {
    const struct table *table;
    enum table_act act;
    struct table_row *row; /* borrowed until the operation has ended; an inserted one gets its id */
    const struct table_row *parent; /* of an inserted one: the row with which it goes, or to which
                                       it is linked, inserted before it by the same operation;
                                       NULL: the row says which */

    bool is_stale;   /* result: this one did not fit */
    int64_t version; /* result: its version from now on */

    bool again; /* the committer's own: it may have been saved already */
};

enum table_order {
    TABLE_BY_ID,
    TABLE_BY_KEY,   /* the row that has the key of `like` */
    TABLE_BY_INDEX, /* rows that are like `like` in the first `prefix` columns of an index, ordered
                       by its others and then by id */
};

/* At most `limit` rows, in order, on the committer's thread; texts are valid during the call. Of an
 * index that ends with TABLE_DUE only those that are due, whether they are asked for by it (all its
 * other columns are the prefix) or as the first of each value (all but one). A batch may be tried
 * again: what was shown before `restart` counts no more. */
struct table_query {
    const struct table *table;
    enum table_order by;
    const struct table_row *like;
    int64_t after; /* by id: rows behind this one */
    const struct table_index *index;
    size_t prefix;
    const struct table_row *behind; /* by index: rows behind this one; NULL: all */
    bool is_first_of_each; /* by index: of each value of the column behind the prefix the first row
                              alone; behind the value of `behind` */
    bool is_backward;      /* by index: from the last one */
    bool is_count;         /* by an index that does not end with TABLE_DUE: one row is shown, whose
                              id says how many there are, counted up to `limit` */
    bool is_sound_only;    /* by index: odd rows are left out */
    size_t limit;
    void (*restart)(void *argument); /* before the first row of each try; NULL: not called */
    void (*each)(void *argument, const struct table_row *row);
    void *argument;
};

/* What a query by index compares: the column at a place of the index. */
static inline const struct table_column *table_index_column(const struct table *table,
                                                            const struct table_index *index,
                                                            size_t at)
{
    return &table->columns[index->columns[at]];
}

/* The time by which rows of the query are due; NULL: it shows all. */
const struct table_column *table_query_due(const struct table_query *query);

#endif
