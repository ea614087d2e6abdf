/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which column holds which field of a struct store_row, once: the statements of sqlite.h, and what
 * binds and reads them in rows.c, follow these lists. X(kind, column, field).
 *
 *      INT      a number, an enum, a bool
 *      BYTES    an array of fixed size
 *      TEXT     a slice
 *      RARE     a slice, NULL where it is empty: SQLite allocates for each text that it reads
 *
 * A new column is a line here, its field in struct store_row or struct record, and its ALTER in
 * schema.c.
 */
#ifndef PAWL_STORE_SQLITE_COLUMNS_H
#define PAWL_STORE_SQLITE_COLUMNS_H

/* Both tables: what never changes while a record lives. */
#define SQLITE_IDENTITY(X)                                                                         \
    X(BYTES, key_hash, key_hash.bytes)                                                             \
    X(TEXT, tenant, tenant)                                                                        \
    X(TEXT, rule, rule)                                                                            \
    X(TEXT, key, key)                                                                              \
    X(TEXT, recipe, recipe)                                                                        \
    X(RARE, fingerprint, fingerprint)                                                              \
    X(BYTES, payload_hash, record.payload_hash.bytes)                                              \
    X(BYTES, target_hash, record.target_hash.bytes)                                                \
    X(INT, created_at, record.created_at)

/* pawl_pending: what acquire, release and doubt change, beside status and expires_at. */
#define SQLITE_CLAIM(X)                                                                            \
    X(INT, token, record.token)                                                                    \
    X(BYTES, attempt_id, record.attempt_id)                                                        \
    X(INT, attempts, record.attempts)                                                              \
    X(INT, started_at, record.started_at)                                                          \
    X(LEASE, lease_until, record.lease_until)                                                      \
    X(INT, lease_us, record.lease_us)                                                              \
    X(INT, owner, record.owner)                                                                    \
    X(INT, probing, record.probing)                                                                \
    X(INT, windowed, record.window)                                                                \
    X(INT, unknown, record.unknown)                                                                \
    X(INT, settle_us, record.settle_us)                                                            \
    X(INT, quiet_at, record.quiet_at)                                                              \
    X(INT, ttl_us, record.ttl_us)                                                                  \
    X(INT, least_us, record.least_us)                                                              \
    X(INT, doubted_us, record.doubted_us)                                                          \
    X(INT, tombstone_us, record.tombstone_us)                                                      \
    X(INT, doubt, record.doubt)                                                                    \
    X(INT, cause, record.cause)                                                                    \
    X(RARE, origin, origin)

/* The same of rules alone: not in a file of an application, where OWN drops them. */
#define SQLITE_CLAIM_OF_RULE(X)                                                                    \
    X(INT, hold_us, record.hold_us)                                                                \
    X(INT, asking, record.asking)

/* Behind a once value, in each of the tables: rows without one leave them out. */
#define SQLITE_CLAIM_ONCE(X)                                                                       \
    X(INT, once_template, once_template)                                                           \
    X(INT, once_ttl_us, record.once_ttl_us)                                                        \
    X(INT, once_window, record.once_window)                                                        \
    X(INT, once_replay, record.once_replay)

#define SQLITE_FINAL_ONCE(X)                                                                       \
    X(INT, once_template, once_template)                                                           \
    X(INT, once_ttl_us, record.once_ttl_us)                                                        \
    X(INT, once_until, record.once_until)                                                          \
    X(INT, once_replay, record.once_replay)

/* pawl_outcome: what a final record says, beside status and the outcome itself. */
#define SQLITE_FINAL(X)                                                                            \
    X(INT, token, record.token)                                                                    \
    X(INT, attempts, record.attempts)                                                              \
    X(INT, started_at, record.started_at)                                                          \
    X(INT, completed_at, record.completed_at)                                                      \
    X(INT, expires_at, record.expires_at)                                                          \
    X(INT, gone_at, record.gone_at)                                                                \
    X(INT, kept, record.kept)                                                                      \
    X(INT, http_code, record.http_status)

/* pawl_bound, beside id: fields of a struct backend_bound. */
#define SQLITE_BOUND(X)                                                                            \
    X(INT, holder, holder)                                                                         \
    X(INT, expires_at, expires_at)                                                                 \
    X(INT, acknowledges, acknowledges)                                                             \
    X(BYTES, key_hash, key_hash.bytes)                                                             \
    X(TEXT, key, key)                                                                              \
    X(TEXT, recipe, recipe)                                                                        \
    X(BYTES, payload_hash, payload_hash.bytes)                                                     \
    X(BYTES, target_hash, target_hash.bytes)

/* pawl_state, its one row, beside token: fields of a struct sqlite_state and of a struct
 * sqlite_key_marks. */
#define SQLITE_STATE(X)                                                                            \
    X(INT, time, state->time)                                                                      \
    X(INT, forgets, state->counts.forgets)                                                         \
    X(INT, serve, state->serve.incarnation)                                                        \
    X(INT, serve_since, state->serve.since)                                                        \
    X(INT, pending, state->counts.pending)                                                         \
    X(INT, complete, state->counts.complete)                                                       \
    X(INT, failed, state->counts.failed)                                                           \
    X(INT, unknown, state->counts.unknown)                                                         \
    X(INT, released, state->counts.released)                                                       \
    X(INT, time_boot, state->time_boot)                                                            \
    X(INT, boot_id, state->boot_id)                                                                \
    X(INT, key_seq, marks->seq)                                                                    \
    X(INT, key_closed, marks->closed)                                                              \
    X(INT, key_bucket, marks->bucket)

/* The same row: fields of a struct terms (store/tables/terms.h). */
#define STATE_TERM(name) #name ", "
#define STATE_TERM_SET(name) #name "=?, "

/* A column in SQL, behind another: in a list of names, of parameters, of assignments. */
#define SQLITE_NAME(kind, column, field) ", " #column
#define SQLITE_PLACE(kind, column, field) ", ?"
#define SQLITE_SET(kind, column, field) ", " #column "=?"

#define IDENTITY_NAMES SQLITE_IDENTITY(SQLITE_NAME)
#define IDENTITY_PLACES SQLITE_IDENTITY(SQLITE_PLACE)
#define CLAIM_NAMES SQLITE_CLAIM(SQLITE_NAME) OWN(SQLITE_CLAIM_OF_RULE(SQLITE_NAME))
#define CLAIM_PLACES SQLITE_CLAIM(SQLITE_PLACE) OWN(SQLITE_CLAIM_OF_RULE(SQLITE_PLACE))
#define CLAIM_CHANGES SQLITE_CLAIM(SQLITE_SET) OWN(SQLITE_CLAIM_OF_RULE(SQLITE_SET))
#define FINAL_NAMES SQLITE_FINAL(SQLITE_NAME)
#define FINAL_PLACES SQLITE_FINAL(SQLITE_PLACE)
#define CLAIM_ONCE_NAMES ", once" SQLITE_CLAIM_ONCE(SQLITE_NAME)
#define CLAIM_ONCE_PLACES ", ?" SQLITE_CLAIM_ONCE(SQLITE_PLACE)
#define CLAIM_ONCE_CHANGES SQLITE_CLAIM_ONCE(SQLITE_SET)
#define FINAL_ONCE_NAMES ", once" SQLITE_FINAL_ONCE(SQLITE_NAME)
#define FINAL_ONCE_PLACES ", ?" SQLITE_FINAL_ONCE(SQLITE_PLACE)
#define BOUND_NAMES SQLITE_BOUND(SQLITE_NAME)
#define BOUND_PLACES SQLITE_BOUND(SQLITE_PLACE)
#define STATE_NAMES SQLITE_STATE(SQLITE_NAME)
#define STATE_CHANGES SQLITE_STATE(SQLITE_SET)

#endif
