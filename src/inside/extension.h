/* SPDX-License-Identifier: Apache-2.0 */
/*
 * extension: the calls of pawl/pawl.h as SQL functions of one SQLite connection, loaded as pawl.so
 * (docs/guide/transactions-on-sqlite.md). extension.c: how it is loaded, and the functions that
 * return one value; extension_rows.c: those that return a row, as table-valued functions.
 *
 *      SELECT decision, token, body FROM pawl_begin('m1', 'refunds.create', 'k1');
 *      SELECT pawl_complete(token, 201, '{"id":7}');
 *
 * Arguments have the names and the order of the PostgreSQL functions. They are not for triggers and
 * views of a file that somebody else made (SQLITE_DIRECTONLY). A call must not be part of a
 * statement that writes: the rows of modules need a savepoint.
 */
#ifndef PAWL_INSIDE_EXTENSION_H
#define PAWL_INSIDE_EXTENSION_H

#include "inside/inside.h"
#include "store/sqlite/api.h"

/* One connection. The handle lives while one of the table-valued functions is connected: SQLite
 * disconnects them before it looks whether statements are left (sqlite3_close). */
struct extension {
    sqlite3 *db;
    struct pawl *pawl; /* NULL: none is connected */
    int connected;
    int declared; /* functions that refer to it, of whatever sort */
};

/* One of them does so no more; with the last one it is freed. */
void extension_undeclare(struct extension *extension);

/* The handle, which connects one; NULL: no memory. */
struct pawl *extension_pawl(struct extension *extension);
void extension_connect(struct extension *extension);
void extension_disconnect(struct extension *extension);

/* Declares the table-valued functions. An SQLite result code. */
int extension_declare_rows(sqlite3 *db, struct extension *extension);

/* What an error is called in SQL: "PW001"; its SQLite result code. */
const char *extension_state(enum pawl_error error);
int extension_code(enum pawl_error error);

/* Whether a value that is read as a text is whole: with a NUL byte in it (PAWL_MALFORMED) a C
 * string would be another key, or another tenant's. PAWL_NO_MEMORY: it cannot be read. */
enum pawl_error extension_check(sqlite3_value *value);

/* A span: `24h`, `7d` (base/time/duration.h), a number of seconds, `forever` or NULL. False: none.
 */
bool extension_span(sqlite3_value *value, int64_t *ret_ms);

/* Called by SQLite when pawl.so is loaded. */
int sqlite3_pawl_init(sqlite3 *db, char **ret_problem, const sqlite3_api_routines *api);

#endif
