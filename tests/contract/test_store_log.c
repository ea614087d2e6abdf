/* SPDX-License-Identifier: Apache-2.0 */
/* The write-ahead log as the store's VFS writes it: what SQLite wrote, in fewer calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/mem.h"
#include "store/sqlite/faults.h"
#include "store/sqlite/vfs.h"
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SALT 7
#define LOG_MAX ((size_t)8 << 20)
/* Rows of half a page, so many that a cache of ten pages gives most of them to the log early. */
#define FILL                                                                                       \
    "INSERT INTO t SELECT value, zeroblob(2000) FROM"                                              \
    " (WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n LIMIT 200)"          \
    " SELECT value FROM n)"

struct files {
    char dir[64];
    char path[96];
    sqlite3 *db;
};

static void run(sqlite3 *db, const char *sql)
{
    char *problem = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &problem) != SQLITE_OK)
        fail_msg("%s: %s", sql, problem);
}

static int64_t ask(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *s = NULL;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    int64_t answer = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return answer;
}

static void check_whole(sqlite3 *db)
{
    assert_int_equal(ask(db, "SELECT count(*) FROM pragma_integrity_check"
                             " WHERE integrity_check = 'ok'"),
                     1);
}

static sqlite3 *connect(const char *path, const char *vfs)
{
    sqlite3 *db = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_EXRESCODE;
    assert_int_equal(sqlite3_open_v2(path, &db, flags, vfs), SQLITE_OK);
    run(db, "PRAGMA page_size=4096; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
            "PRAGMA wal_autocheckpoint=0; PRAGMA cache_size=10; PRAGMA journal_size_limit=100000");
    return db;
}

static void open_files(struct files *files, const char *vfs)
{
    snprintf(files->dir, sizeof files->dir, "/tmp/pawl-log-XXXXXX");
    assert_non_null(mkdtemp(files->dir));
    snprintf(files->path, sizeof files->path, "%s/s.db", files->dir);
    /* The log begins with random numbers. */
    sqlite3_test_control(SQLITE_TESTCTRL_PRNG_SEED, SALT, NULL);
    files->db = connect(files->path, vfs);
    run(files->db, "CREATE TABLE t(a, b NOT NULL)");
}

static void close_files(struct files *files)
{
    assert_int_equal(sqlite3_close(files->db), SQLITE_OK);
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s%s", files->path, suffixes[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(files->dir), 0);
}

static unsigned char *log_of(const struct files *files, size_t *ret_len)
{
    char path[128];
    snprintf(path, sizeof path, "%s-wal", files->path);
    FILE *file = fopen(path, "r");
    unsigned char *bytes = mem_alloc(LOG_MAX);
    assert_non_null(file);
    assert_non_null(bytes);
    *ret_len = fread(bytes, 1, LOG_MAX, file);
    assert_in_range(*ret_len, 1, LOG_MAX - 1);
    fclose(file);
    return bytes;
}

static void the_log_holds_the_same_bytes_at_the_same_places(void **state)
{
    (void)state;
    static const char *const story[] = {
        "INSERT INTO t VALUES(1, 'one page')",
        FILL,
        "BEGIN; " FILL "; UPDATE t SET b = zeroblob(2001); SELECT sum(length(b)) FROM t; COMMIT",
        "BEGIN; " FILL "; SAVEPOINT s; " FILL "; ROLLBACK TO s; DELETE FROM t WHERE a < 9; COMMIT",
        "PRAGMA wal_checkpoint",
        "BEGIN; " FILL "; UPDATE t SET a = a + 1; COMMIT", /* begins the log anew */
    };
    struct files plain, held;
    open_files(&plain, NULL);
    open_files(&held, sqlite_vfs_name());
    for (size_t i = 0; i < sizeof story / sizeof *story; i++) {
        size_t plain_len, held_len;
        sqlite3_test_control(SQLITE_TESTCTRL_PRNG_SEED, SALT, NULL);
        run(plain.db, story[i]);
        sqlite3_test_control(SQLITE_TESTCTRL_PRNG_SEED, SALT, NULL);
        run(held.db, story[i]);
        unsigned char *expected = log_of(&plain, &plain_len), *found = log_of(&held, &held_len);
        assert_int_equal(held_len, plain_len);
        assert_memory_equal(found, expected, plain_len);
        mem_free(expected);
        mem_free(found);
    }
    check_whole(held.db);
    close_files(&plain);
    close_files(&held);
}

static void a_transaction_sees_its_pages_before_they_are_in_the_file(void **state)
{
    (void)state;
    struct files files;
    open_files(&files, sqlite_vfs_name());
    run(files.db, "BEGIN; " FILL);
    assert_int_equal(ask(files.db, "SELECT sum(length(b)) FROM t"), 200 * 2000);
    run(files.db, "COMMIT");
    sqlite3 *other = connect(files.path, NULL);
    assert_int_equal(ask(other, "SELECT sum(length(b)) FROM t"), 200 * 2000);
    sqlite3_close(other);
    close_files(&files);
}

static void what_was_rolled_back_is_not_written_over_another_writer_s_frames(void **state)
{
    (void)state;
    struct files files;
    open_files(&files, sqlite_vfs_name());
    run(files.db, "INSERT INTO t VALUES(1, 'told')");
    sqlite3 *other = connect(files.path, NULL);
    for (int i = 0; i < 20; i++) {
        run(files.db, "BEGIN; " FILL "; ROLLBACK");
        run(other, "INSERT INTO t SELECT a, 'by another' FROM t");
        run(other, "DELETE FROM t WHERE rowid > 1");
        run(files.db, "INSERT INTO t VALUES(2, 'told, too')");
        assert_int_equal(ask(other, "SELECT count(*) FROM t"), 2);
        run(other, "DELETE FROM t WHERE a = 2");
        check_whole(other);
    }
    sqlite3_close(other);
    close_files(&files);
}

#ifdef PAWL_HOOKS
static void a_transaction_goes_to_the_log_in_one_call(void **state)
{
    (void)state;
    struct files files;
    open_files(&files, sqlite_vfs_name());
    run(files.db, "PRAGMA cache_size=1000; INSERT INTO t VALUES(1, 1)");
    sqlite_faults_arm(SQLITE_FAULT_WRITE, SQLITE_IOERR, 2);
    run(files.db, "BEGIN; INSERT INTO t VALUES(2, zeroblob(100000)); COMMIT"); /* 25 pages */
    assert_false(sqlite_faults_fired());
    assert_int_equal(sqlite3_exec(files.db, "INSERT INTO t VALUES(3, 3)", NULL, NULL, NULL),
                     SQLITE_IOERR_WRITE);
    sqlite_faults_arm(0, 0, 0);
    close_files(&files);
}

/* The code of the n-th write that fails in a transaction; SQLITE_OK: it had fewer. */
static int fail_write(struct files *files, int error, long n)
{
    sqlite_faults_arm(SQLITE_FAULT_WRITE, error, n);
    int code = sqlite3_exec(files->db, "BEGIN", NULL, NULL, NULL);
    static const char *const steps[] = {FILL, "SELECT sum(length(b)) FROM t", FILL, "COMMIT"};
    for (size_t i = 0; code == SQLITE_OK && i < sizeof steps / sizeof *steps; i++)
        code = sqlite3_exec(files->db, steps[i], NULL, NULL, NULL);
    sqlite_faults_arm(0, 0, 0);
    if (!sqlite3_get_autocommit(files->db))
        run(files->db, "ROLLBACK");
    return code;
}

static void a_write_that_fails_fails_its_transaction_as_a_write_and_no_other(void **state)
{
    (void)state;
    for (int full = 0; full < 2; full++) {
        struct files files;
        open_files(&files, sqlite_vfs_name());
        int expected = full ? SQLITE_FULL : SQLITE_IOERR_WRITE, code = expected;
        long n = 0;
        while (code == expected) {
            run(files.db, "DELETE FROM t; INSERT INTO t VALUES(1, 'told')");
            code = fail_write(&files, full ? SQLITE_FULL : SQLITE_IOERR, ++n);
            if (code != SQLITE_OK)
                assert_int_equal(ask(files.db, "SELECT count(*) FROM t"), 1);
            check_whole(files.db);
        }
        assert_int_equal(code, SQLITE_OK);
        assert_int_equal(ask(files.db, "SELECT count(*) FROM t"), 401);
        assert_in_range(n, 5, 1000);
        close_files(&files);
    }
}

/* Of a checkpoint: that of the log, and that of the database. */
static void check_syncs(struct files *files, int expected)
{
    sqlite_faults_arm(SQLITE_FAULT_SYNC, SQLITE_IOERR, 2);
    int code = sqlite3_wal_checkpoint_v2(files->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    assert_int_equal(sqlite_faults_fired(), expected == 2);
    assert_int_equal(code, expected == 2 ? SQLITE_IOERR_FSYNC : SQLITE_OK);
    sqlite_faults_arm(0, 0, 0);
}

static void a_log_that_one_connection_wrote_and_synced_is_synced_once(void **state)
{
    (void)state;
    struct files files;
    open_files(&files, sqlite_vfs_name());
    run(files.db, "INSERT INTO t VALUES(1, 1); INSERT INTO t VALUES(2, zeroblob(300000))");
    check_syncs(&files, 1);
    close_files(&files);
}

static void a_log_that_others_wrote_or_that_was_not_told_is_synced_again(void **state)
{
    (void)state;
    static const struct {
        const char *own, *other, *own_again;
    } cases[] = {
        {"BEGIN; " FILL "; ROLLBACK", "", ""},
        {"BEGIN; " FILL "; ROLLBACK", "INSERT INTO t VALUES(2, 2)", "INSERT INTO t VALUES(3, 3)"},
        {"PRAGMA wal_checkpoint; INSERT INTO t VALUES(2, 2)", "", ""}, /* begins the log anew */
        {"", "INSERT INTO t VALUES(2, 2)", ""},
        {"", "PRAGMA wal_checkpoint; INSERT INTO t VALUES(2, 2)", ""}, /* as long as before */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct files files;
        open_files(&files, sqlite_vfs_name());
        run(files.db, "INSERT INTO t VALUES(1, 1)");
        sqlite3 *other = connect(files.path, NULL);
        run(files.db, cases[i].own);
        run(other, cases[i].other);
        run(files.db, cases[i].own_again);
        check_syncs(&files, 2);
        sqlite3_close(other);
        close_files(&files);
    }
}

/* Without space SQLite takes back one statement, and the transaction may go on. That it began to
 * read a page which could not be written yet must not cost it this page. */
static void a_transaction_that_outlives_a_failed_statement_has_all_of_its_pages(void **state)
{
    (void)state;
    int went_on = 0;
    for (int from = 100; from < 200; from += 5) {
        struct files files;
        char update[80];
        snprintf(update, sizeof update, "UPDATE t SET b = zeroblob(9) WHERE rowid > %d", from);
        open_files(&files, sqlite_vfs_name());
        run(files.db, "BEGIN; " FILL);
        sqlite_faults_arm(SQLITE_FAULT_WRITE, SQLITE_FULL, 1);
        int code = sqlite3_exec(files.db, update, NULL, NULL, NULL);
        sqlite_faults_arm(0, 0, 0);
        bool goes_on = code == SQLITE_FULL && !sqlite3_get_autocommit(files.db);
        if (goes_on) {
            run(files.db, "COMMIT");
            sqlite3 *other = connect(files.path, NULL);
            assert_int_equal(ask(other, "SELECT total(length(b)) FROM t"), 200 * 2000);
            check_whole(other);
            sqlite3_close(other);
        }
        went_on += goes_on;
        close_files(&files);
    }
    assert_true(went_on > 0);
}
#endif

int main(void)
{
#ifdef PAWL_HOOKS
    sqlite_faults_install();
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_log_holds_the_same_bytes_at_the_same_places),
        cmocka_unit_test(a_transaction_sees_its_pages_before_they_are_in_the_file),
        cmocka_unit_test(what_was_rolled_back_is_not_written_over_another_writer_s_frames),
#ifdef PAWL_HOOKS
        cmocka_unit_test(a_transaction_goes_to_the_log_in_one_call),
        cmocka_unit_test(a_write_that_fails_fails_its_transaction_as_a_write_and_no_other),
        cmocka_unit_test(a_transaction_that_outlives_a_failed_statement_has_all_of_its_pages),
        cmocka_unit_test(a_log_that_one_connection_wrote_and_synced_is_synced_once),
        cmocka_unit_test(a_log_that_others_wrote_or_that_was_not_told_is_synced_again),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
