/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of pawl's and of SQLite's made to fail, one after the other, in a transaction
 * with an effect and its record. An application that goes on and commits whatever it is told has
 * both or neither all the same, or learns that nobody knows; and the file is sound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include <pawl/pawl.h>
#include <sqlite3.h>

#define POINTS_MAX 20000
/* Of SQLite's allocations every one; where sanitizers slow everything down, a part of them. */
#ifdef PAWL_SANITIZED
#define SQLITE_STEP 7
#else
#define SQLITE_STEP 1
#endif

/* SQLite's allocator: the n-th from now on fails; 0: none does. */
static sqlite3_mem_methods plain;
static long left;
static bool fired;

static bool must_fail(void)
{
    if (left == 0 || --left > 0)
        return false;
    return fired = true;
}

static void *failing_alloc(int size)
{
    return must_fail() ? NULL : plain.xMalloc(size);
}

static void *failing_realloc(void *at, int size)
{
    return must_fail() ? NULL : plain.xRealloc(at, size);
}

static void fail_nth(bool of_sqlite, long n)
{
    fired = false;
    left = of_sqlite ? n : 0;
    mem_fail_nth(of_sqlite ? 0 : n);
}

static const struct pawl_operation operation = {
    .tenant = "m1", .rule = "refunds.create", .key = "k1", .once = "charge-7"};
static const struct pawl_outcome outcome = {
    .http_code = 201, .body = "done", .body_size = 4, .headers = "{\"X\":[\"1\",\"2\"]}"};

static int run(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static int64_t number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *s = NULL;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return value;
}

/* Whatever failed, none of pawl's is open on the application's connection. */
static void assert_no_savepoint(sqlite3 *db)
{
    assert_int_not_equal(run(db, "RELEASE rows"), SQLITE_OK);
    assert_int_not_equal(run(db, "RELEASE pawl_call"), SQLITE_OK);
    assert_int_not_equal(run(db, "RELEASE pawl_schema"), SQLITE_OK);
}

/* Heeds nothing but whether it may have the effect, and whether its INSERT was there to be kept. */
static void transact(sqlite3 *db, struct pawl *pawl)
{
    struct pawl_begun begun;
    if (run(db, "BEGIN IMMEDIATE") != SQLITE_OK)
        return;
    if (!pawl_begin(pawl, &operation, &begun) && begun.decision == PAWL_PROCEED &&
        run(db, "INSERT INTO effect VALUES('x')") == SQLITE_OK)
        (void)pawl_complete(pawl, begun.token, &outcome, NULL);
    (void)pawl_publish(pawl, &(struct pawl_event){"a.b", "e1", "{}", NULL}, NULL);
    assert_no_savepoint(db);
    /* In a transaction that SQLite has rolled back itself there is nothing to commit. */
    if (run(db, "COMMIT") != SQLITE_OK)
        (void)run(db, "ROLLBACK");
}

/* What a retry is told fits what is there. */
static void check(sqlite3 *db, struct pawl *pawl)
{
    struct pawl_begun begun;
    assert_int_equal(run(db, "BEGIN IMMEDIATE"), SQLITE_OK);
    int64_t effects = number(db, "SELECT count(*) FROM effect");
    if (pawl_begin(pawl, &operation, &begun))
        fail_msg("%s", pawl_problem(pawl));
    if (begun.decision == PAWL_REPLAY)
        assert_true(effects == 1 && begun.body_size == 4);
    else if (begun.decision == PAWL_PROCEED)
        assert_int_equal(effects, 0);
    else
        fail_msg("%s", pawl_decision_name(begun.decision));
    assert_int_equal(run(db, "ROLLBACK"), SQLITE_OK);
    assert_int_equal(number(db, "SELECT pending FROM pawl_state"), 0);
    assert_int_equal(number(db, "SELECT complete FROM pawl_state"), effects);
    assert_int_equal(number(db, "SELECT count(*) FROM pawl_key_index"), 2 * effects);
}

/* Whether it came to the n-th allocation. */
static bool one_fault(bool of_sqlite, bool installed, long n)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_int_equal(run(db, "PRAGMA foreign_keys=ON; CREATE TABLE effect(what)"), SQLITE_OK);
    struct pawl *pawl = pawl_on_sqlite(db);
    assert_non_null(pawl);
    if (installed) {
        assert_int_equal(run(db, "BEGIN"), SQLITE_OK);
        assert_int_equal(pawl_install(pawl), PAWL_OK);
        assert_int_equal(run(db, "COMMIT"), SQLITE_OK);
    }
    fail_nth(of_sqlite, n);
    transact(db, pawl);
    bool reached = of_sqlite ? fired : mem_fail_fired();
    fail_nth(false, 0);
    transact(db, pawl);
    check(db, pawl);
    pawl_free(pawl);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return reached;
}

static void sweep(bool of_sqlite, bool installed, long step)
{
    long n = 1;
    for (; one_fault(of_sqlite, installed, n); n += step)
        assert_in_range(n, 1, POINTS_MAX);
    assert_true(n > 1);
    print_message("%s%s: %ld allocations\n", of_sqlite ? "SQLite" : "pawl",
                  installed ? "" : ", with its tables", n);
}

static void any_allocation_of_pawl_may_fail(void **state)
{
    (void)state;
    sweep(false, false, 1);
    sweep(false, true, 1);
}

static void any_allocation_of_sqlite_may_fail(void **state)
{
    (void)state;
    sweep(true, false, 7 * SQLITE_STEP);
    sweep(true, true, SQLITE_STEP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_allocation_of_pawl_may_fail),
        cmocka_unit_test(any_allocation_of_sqlite_may_fail),
    };
    sqlite3_config(SQLITE_CONFIG_GETMALLOC, &plain);
    sqlite3_mem_methods failing = plain;
    failing.xMalloc = failing_alloc;
    failing.xRealloc = failing_realloc;
    sqlite3_config(SQLITE_CONFIG_MALLOC, &failing);
    sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
