/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which column of pawl.record holds which field of a struct store_row, once: X(kind, column,
 * field), with the kinds of sqlite/columns.h. scripts/schema puts them into schema/, which spells
 * them in the definition of pawl.record alone. Older clients read what functions take and return by
 * position, so a new column is a line of POSTGRES_READ, its field, a migration, and a parameter of
 * pawl.save of its own.
 */
#ifndef PAWL_STORE_POSTGRES_COLUMNS_H
#define PAWL_STORE_POSTGRES_COLUMNS_H

#define POSTGRES_FORMAT 2   /* of the schema, which sets both */
#define POSTGRES_REVISION 7 /* what was added within the format, and is needed here */

/* What never changes while a record lives, */
#define POSTGRES_IDENTITY(X)                                                                       \
    X(BYTES, key_hash, key_hash.bytes)                                                             \
    X(TEXT, tenant, tenant)                                                                        \
    X(TEXT, rule, rule)                                                                            \
    X(TEXT, key, key)                                                                              \
    X(TEXT, recipe, recipe)                                                                        \
    X(TEXT, fingerprint, fingerprint)                                                              \
    X(BYTES, payload_hash, record.payload_hash.bytes)                                              \
    X(BYTES, target_hash, record.target_hash.bytes)

/* and the rest. */
#define POSTGRES_STATE(X)                                                                          \
    X(INT, created_at, record.created_at)                                                          \
    X(INT, status, record.status)                                                                  \
    X(INT, token, record.token)                                                                    \
    X(BYTES, attempt_id, record.attempt_id)                                                        \
    X(INT, attempts, record.attempts)                                                              \
    X(INT, started_at, record.started_at)                                                          \
    X(INT, lease_until, record.lease_until)                                                        \
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
    X(TEXT, origin, origin)                                                                        \
    X(INT, provisional, record.provisional)                                                        \
    X(TEXT, once, once)                                                                            \
    X(INT, once_template, once_template)                                                           \
    X(INT, once_ttl_us, record.once_ttl_us)                                                        \
    X(INT, once_window, record.once_window)                                                        \
    X(INT, once_replay, record.once_replay)                                                        \
    X(INT, once_until, record.once_until)                                                          \
    X(INT, completed_at, record.completed_at)                                                      \
    X(INT, expires_at, record.expires_at)                                                          \
    X(INT, gone_at, record.gone_at)                                                                \
    X(INT, kept, record.kept)                                                                      \
    X(INT, http_code, record.http_status)                                                          \
    X(TEXT, result_ref, location)

#define POSTGRES_RECORD(X) POSTGRES_IDENTITY(X) POSTGRES_STATE(X)

#define POSTGRES_READ(X)                                                                           \
    POSTGRES_RECORD(X)                                                                             \
    X(INT, hold_us, record.hold_us)                                                                \
    X(INT, asking, record.asking)

/* Those in which one new claim differs from another of its batch (is_plain_claim), and what a
 * finish changes of an acquisition: pawl.pairs takes no others. */
#define POSTGRES_CLAIM(X)                                                                          \
    POSTGRES_IDENTITY(X)                                                                           \
    X(BYTES, attempt_id, record.attempt_id)                                                        \
    X(INT, lease_us, record.lease_us)                                                              \
    X(INT, windowed, record.window)                                                                \
    X(INT, unknown, record.unknown)                                                                \
    X(INT, settle_us, record.settle_us)                                                            \
    X(INT, ttl_us, record.ttl_us)                                                                  \
    X(INT, least_us, record.least_us)                                                              \
    X(INT, doubted_us, record.doubted_us)                                                          \
    X(INT, tombstone_us, record.tombstone_us)                                                      \
    X(TEXT, origin, origin)                                                                        \
    X(INT, hold_us, record.hold_us)
#define POSTGRES_ENDED(X)                                                                          \
    X(INT, status, record.status)                                                                  \
    X(INT, completed_at, record.completed_at)                                                      \
    X(INT, expires_at, record.expires_at)                                                          \
    X(INT, gone_at, record.gone_at)                                                                \
    X(INT, kept, record.kept)                                                                      \
    X(INT, http_code, record.http_status)                                                          \
    X(TEXT, result_ref, location)

#define POSTGRES_COUNT(kind, column, field) +1
#define POSTGRES_NAME(kind, column, field) ", r." #column

/* In the same order: struct backend_counts, as functions return them. X(field). */
#define POSTGRES_COUNTS(X) X(pending) X(complete) X(failed) X(unknown) X(released) X(forgets)

#endif
