/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest: a store in an application's own SQLite file, on its connection, in its transactions. It
 * loads and saves like any backend, and neither begins nor commits:
 *
 *      BEGIN IMMEDIATE                     the application's: here its writers queue
 *      load -> core decides -> save        as often as it likes
 *      its own statements, savepoints
 *      COMMIT                              or ROLLBACK, which takes back all of it unseen
 *
 * So the transaction is the lease. Its incarnation is drawn anew whenever anybody committed since
 * (SQLITE_FCNTL_DATA_VERSION); what another one left pending has lapsed. Nothing of a record is
 * remembered from one transaction to the next.
 *
 * The schema (foreign.c) is made in the first transaction. The file's application_id and
 * user_version stay the application's; the format is in pawl_state.
 */
#ifndef PAWL_STORE_SQLITE_GUEST_H
#define PAWL_STORE_SQLITE_GUEST_H

#include "store/op.h"

struct backend;
struct sqlite3;

/* On a connection that outlives it; tables: NULL behind the last. NULL: no memory. */
struct backend *sqlite_guest_open(struct sqlite3 *db, const struct table *const *tables);

enum sqlite_guest_state {
    SQLITE_GUEST_READY,
    SQLITE_GUEST_IDLE,   /* no transaction is open */
    SQLITE_GUEST_CLOSED, /* of another format, or no file of an application: `problem` */
    SQLITE_GUEST_BUSY,   /* somebody else writes */
    SQLITE_GUEST_FAILED,
};

/* Before each operation: whether the open transaction can have it. Makes the schema. */
enum sqlite_guest_state sqlite_guest_enter(struct backend *backend);
/* The incarnation of this transaction, once it has entered. */
int64_t sqlite_guest_self(const struct backend *backend);
/* DIGEST_SIZE bytes, likewise. */
const unsigned char *sqlite_guest_secret(const struct backend *backend);

/* A row by its id, or RECORD_ABSENT. Texts are valid until the next call. False: it failed. */
bool sqlite_guest_find(struct backend *backend, int64_t id, struct store_row *ret_row);

/* Whether a call is part of a statement that writes: then there can be no savepoint. */
bool sqlite_guest_is_nested(const struct backend *backend);

/* Whether nothing can be written: what is there can still be replayed. */
bool sqlite_guest_is_read_only(const struct backend *backend);

/* Whether the application's COMMIT is refused while an operation is open. */
bool sqlite_guest_is_guarded(const struct backend *backend);

#endif
