/* SPDX-License-Identifier: Apache-2.0 */
/* A store under test, its directory, and short words for what is done with it. */
#ifndef PAWL_TESTS_STORE_BED_H
#define PAWL_TESTS_STORE_BED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/store.h"
#include "toy/hostile.h"

#define SECOND CLOCK_US_PER_S
#define LEASE (30 * SECOND)
#define TTL (3600 * SECOND)

enum bed_kind {
    BED_TOY,
    BED_SQLITE,
    BED_HOSTILE,  /* in front of SQLite */
    BED_POSTGRES, /* a database of its own on the server that PAWL_TEST_POSTGRES names */
};

struct bed {
    enum bed_kind kind;
    struct store *store;
    struct backend *backend; /* of a toy store */
    struct thread_parker parker;
    struct store_config config;
    char dir[64];
    char path[96];
    char url[512]; /* of its database; empty: it has none */
};

/* A bed without a store yet. */
void bed_init(struct bed *bed, enum bed_kind kind);
/* Closes the store and removes the directory. */
void bed_fini(struct bed *bed);

/* Opens it by bed->config; fails the test when that fails. */
void bed_open(struct bed *bed);
void bed_close(struct bed *bed);
/* What is wrong with opening it (NULL: nothing, and the store is closed again); mem_free. */
char *bed_refusal(struct bed *bed, enum store_open_result *ret_result);

/* Another bed on the same data, as a command beside it would have it: with the same configuration;
 * not opened. */
void bed_share(struct bed *from, struct bed *ret_bed);
/* Opened; before the bed that it shares with is gone, close_other. */
void open_other(struct bed *from, struct bed *ret_bed);
void close_other(struct bed *other);

struct digest key_of(uint64_t key);

/* A begin under `key`, with an attempt id of its own, that does not wait. */
struct store_op begin_on(uint64_t key);
/* The same, waiting for as long as it takes. */
struct store_op wait_on(uint64_t key);
struct store_op write_on(uint64_t key, enum store_op_kind kind, int64_t token);

/* Runs to its end. */
void run(struct bed *bed, struct store_op *op);
void submit(struct bed *bed, struct store_op *op);
void await(struct bed *bed, struct store_op *op);
/* Until so many begins wait. */
void await_waiting(struct bed *bed, size_t n);

/* A begin that proceeds: its token. */
int64_t proceed(struct bed *bed, uint64_t key);
/* What a begin without waiting is told. */
enum record_verdict verdict(struct bed *bed, uint64_t key);
/* Stores `body` as the outcome, 201. */
enum record_write finish(struct bed *bed, uint64_t key, int64_t token, const char *body);
enum record_write act(struct bed *bed, uint64_t key, enum store_op_kind kind, int64_t token);
struct record look(struct bed *bed, uint64_t key);

/* Fails unless the kept counts are those of a scan; returns how many rows there are. Records that
 * expired are counted until they are swept: use it where none has. */
size_t check_counts(struct bed *bed);

/* Runs statements on the file of a bed, beside its store; and asks it for one number. */
void bed_exec(const struct bed *bed, const char *sql);
int64_t bed_number(const struct bed *bed, const char *sql);

/* What takes away from a file all that format 5 brought, and then format 4. */
#define BED_TO_FORMAT_4                                                                            \
    "ALTER TABLE pawl_audit DROP COLUMN attempt_id;"                                               \
    "ALTER TABLE pawl_state ADD COLUMN next_row INTEGER NOT NULL DEFAULT 1;"                       \
    "DROP TABLE pawl_owner;"                                                                       \
    "ALTER TABLE pawl_pending ADD COLUMN owner_is_serve INTEGER NOT NULL DEFAULT 0;"               \
    "CREATE INDEX pawl_pending_live ON pawl_pending(owner) WHERE lease_until > 0;"
#define BED_TO_FORMAT_3                                                                            \
    "ALTER TABLE pawl_pending DROP COLUMN least_us;"                                               \
    "ALTER TABLE pawl_pending DROP COLUMN doubted_us;"                                             \
    "ALTER TABLE pawl_pending DROP COLUMN doubt; ALTER TABLE pawl_pending DROP COLUMN cause;"      \
    "ALTER TABLE pawl_pending DROP COLUMN origin; ALTER TABLE pawl_state DROP COLUMN released;"    \
    "ALTER TABLE pawl_pending DROP COLUMN once; ALTER TABLE pawl_outcome DROP COLUMN once;"        \
    "ALTER TABLE pawl_pending DROP COLUMN once_template;"                                          \
    "ALTER TABLE pawl_outcome DROP COLUMN once_template;"                                          \
    "ALTER TABLE pawl_pending DROP COLUMN once_replay;"                                            \
    "ALTER TABLE pawl_outcome DROP COLUMN once_replay;"                                            \
    "ALTER TABLE pawl_pending DROP COLUMN fingerprint;"                                            \
    "ALTER TABLE pawl_outcome DROP COLUMN fingerprint;"                                            \
    "ALTER TABLE pawl_pending DROP COLUMN once_ttl_us;"                                            \
    "ALTER TABLE pawl_outcome DROP COLUMN once_ttl_us;"                                            \
    "ALTER TABLE pawl_pending DROP COLUMN once_window;"                                            \
    "ALTER TABLE pawl_outcome DROP COLUMN once_until; DROP TABLE pawl_bound;"

/* Runs the tests on every backend; with $PAWL_TEST_BED on the PostgreSQL of $PAWL_TEST_POSTGRES
 * alone. Their set-ups find the kind of their bed in `*state`, and leave the bed there. */
int bed_run(struct CMUnitTest *tests, size_t n);
/* The same but for the hostile one: of tests that say what a single batch does. */
int bed_run_in_peace(struct CMUnitTest *tests, size_t n);
/* On that one alone. */
int bed_run_on(enum bed_kind kind, struct CMUnitTest *tests, size_t n);

/* A bed that is open; that is not; that is, and whose store the test steps. */
int bed_set_up(void **state);
int bed_set_up_closed(void **state);
int bed_set_up_by_hand(void **state);
int bed_tear_down(void **state);
#define BED_TEST(name) BED_TEST_AFTER(name, bed_set_up)
#define BED_TEST_AFTER(name, set_up) cmocka_unit_test_setup_teardown(name, set_up, bed_tear_down)

#endif
