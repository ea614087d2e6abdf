/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of a statement, in PostgreSQL's binary format: numbers (bigint), bytes, and arrays of
 * either or of rows. */
#ifndef PAWL_STORE_POSTGRES_PARAMS_H
#define PAWL_STORE_POSTGRES_PARAMS_H

#include "base/buf.h"
#include "store/postgres/libpq.h"

#define POSTGRES_PARAMS_MAX 21
#define POSTGRES_INT8 ((Oid)20)
#define POSTGRES_BYTEA ((Oid)17)

struct postgres_params {
    struct buf bytes;
    size_t n;
    Oid types[POSTGRES_PARAMS_MAX];
    size_t at[POSTGRES_PARAMS_MAX]; /* where each begins in `bytes`; the next one ends it */
    bool is_null[POSTGRES_PARAMS_MAX];
    size_t array;     /* where the array under way begins */
    int32_t elements; /* of it */
    size_t row;       /* where the row under way begins */
    int32_t columns;  /* of it */
};

/* Of at most `max` bytes. */
struct postgres_params postgres_params_make(size_t max);
void postgres_params_fini(struct postgres_params *params);
/* For the next statement: keeps the storage. */
void postgres_params_clear(struct postgres_params *params);

/* The next parameter. */
void postgres_add_number(struct postgres_params *params, int64_t number);
void postgres_add_bytes(struct postgres_params *params, struct slice bytes);
/* NULL where `.at` is. */
void postgres_add_filter(struct postgres_params *params, struct slice bytes);
/* An array of elements of that type, which follow. */
void postgres_array_begin(struct postgres_params *params, Oid element);
void postgres_array_end(struct postgres_params *params);
/* An element of an array: of numbers, of bytes; or a row of the columns that follow. */
void postgres_item_number(struct postgres_params *params, int64_t number);
void postgres_item_bytes(struct postgres_params *params, struct slice bytes);
void postgres_row_begin(struct postgres_params *params);
void postgres_row_end(struct postgres_params *params);
/* A column of a row. */
void postgres_column_number(struct postgres_params *params, int64_t number);
void postgres_column_bytes(struct postgres_params *params, struct slice bytes);
void postgres_column_text(struct postgres_params *params, struct slice text);
void postgres_column_null(struct postgres_params *params, Oid type);

/* A column of a list of columns.h, of a struct store_row `row`, into `params`. */
#define POSTGRES_WRITE_INT(field) postgres_column_number(params, (int64_t)(field));
#define POSTGRES_WRITE_BYTES(field)                                                                \
    postgres_column_bytes(params, slice_make((const char *)(field), sizeof field));
#define POSTGRES_WRITE_TEXT(field) postgres_column_bytes(params, field);
#define POSTGRES_WRITE(kind, column, field) POSTGRES_WRITE_##kind(row->field)

/* Sends a statement with them into a pipeline, results in binary; false: it cannot be sent. Its
 * text is NULL where the session was told it under that name. */
bool postgres_params_send(const struct postgres_params *params, PGconn *conn, const char *sql,
                          const char *name);

/* A value of a result: a number of any width, a bool; 0 where it is NULL, or neither of them. */
int64_t postgres_number(const PGresult *result, int row, int column);
/* `.at` NULL: it is NULL. Lies in the result. */
struct slice postgres_bytes(const PGresult *result, int row, int column);

#endif
