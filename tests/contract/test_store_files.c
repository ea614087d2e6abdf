/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a SQLite store that are taken away beneath it, and what its errors mean. */
#include "store_bed.h"

#include "base/mem.h"
#include "store/sqlite/sqlite.h"
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static void a_file_removed_while_in_use_takes_the_store_down(void **state)
{
    struct bed *bed = *state;
    bed->config.limits.timeout_us = 300 * CLOCK_US_PER_MS;
    bed_open(bed);
    proceed(bed, 1);
    assert_true(store_is_up(bed->store));
    unlink(bed->path);
    struct store_op op = begin_on(2);
    op.parker = &bed->parker.parker;
    store_run(bed->store, &op, &bed->parker.parker, clock_boot_us() + SECOND);
    assert_true(op.result.status == STORE_WITHDRAWN || op.result.status == STORE_DOWN);
    assert_false(store_is_up(bed->store));
    op = begin_on(3);
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DOWN);
}

static void copy_file(const char *from, const char *to)
{
    static char bytes[1 << 20];
    FILE *in = fopen(from, "r"), *out = fopen(to, "w");
    assert_true(in && out);
    size_t n = fread(bytes, 1, sizeof bytes, in);
    assert_true(n > 0 && n < sizeof bytes && fwrite(bytes, 1, n, out) == n);
    fclose(in);
    fclose(out);
}

/* A begin that must not be told to proceed, within a moment. */
static void check_takes_nothing(struct bed *bed, uint64_t key)
{
    struct store_op op = begin_on(key);
    op.parker = &bed->parker.parker;
    store_run(bed->store, &op, &bed->parker.parker, clock_boot_us() + SECOND);
    assert_true(op.result.status == STORE_WITHDRAWN || op.result.status == STORE_DOWN);
    assert_false(store_is_up(bed->store));
}

/* found: D-B9 */
static void a_log_removed_while_in_use_takes_the_store_down_and_loses_nothing_reported(void **state)
{
    struct bed *bed = *state;
    char wal[128], copy[128];
    snprintf(wal, sizeof wal, "%s-wal", bed->path);
    snprintf(copy, sizeof copy, "%s-copy", bed->path);
    for (int replaced = 0; replaced < 2; replaced++) {
        bed->config.limits.timeout_us = 300 * CLOCK_US_PER_MS;
        bed_open(bed);
        uint64_t kept = 10 + (uint64_t)replaced;
        if (!replaced)
            finish(bed, kept, proceed(bed, kept), "kept");
        proceed(bed, 30 + kept);
        if (replaced)
            copy_file(wal, copy);
        assert_int_equal(replaced ? rename(copy, wal) : unlink(wal), 0);
        check_takes_nothing(bed, 20 + kept);
        bed_close(bed);
        unlink(wal);
        bed_open(bed);
        assert_int_equal(verdict(bed, 10), RECORD_REPLAY);
        bed_close(bed);
    }
}

/* found: D-B6 */
static void a_second_serve_beside_a_lost_lock_file_is_noticed_by_the_first(void **state)
{
    struct bed *bed = *state, second;
    bed->config.role = STORE_SERVE;
    bed->config.limits.timeout_us = 300 * CLOCK_US_PER_MS;
    bed_open(bed);
    proceed(bed, 1);
    bed_share(bed, &second);
    second.config.role = STORE_SERVE;
    char lock[128], aside[128];
    snprintf(lock, sizeof lock, "%s-pawl", bed->path);
    snprintf(aside, sizeof aside, "%s-aside", bed->path);
    assert_int_equal(rename(lock, aside), 0);
    bed_open(&second);
    check_takes_nothing(bed, 2);
    struct buf why BUF_AUTO = buf_make(512);
    store_problem(bed->store, &why);
    buf_add(&why, "", 1);
    assert_non_null(strstr(why.at, "another `pawl serve` took this store"));
    assert_true(proceed(&second, 3) > 0);
    close_other(&second);
    unlink(aside);
}

/* found: D-B6 */
static void a_lock_file_removed_while_in_use_takes_the_store_down(void **state)
{
    struct bed *bed = *state;
    bed->config.limits.timeout_us = 300 * CLOCK_US_PER_MS;
    bed_open(bed);
    proceed(bed, 1);
    char lock[128];
    snprintf(lock, sizeof lock, "%s-pawl", bed->path);
    unlink(lock);
    check_takes_nothing(bed, 2);
}

/* Lets the write lock go after half a second, as a VACUUM would. */
static void let_go(void *argument)
{
    usleep(500 * 1000);
    assert_int_equal(sqlite3_exec(argument, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
}

/* found: D-B15 */
static void a_start_waits_for_a_foreign_write_lock_as_a_running_store_does(void **state)
{
    struct bed *bed = *state;
    bed->config.role = STORE_SERVE;
    bed_open(bed);
    bed_close(bed);
    sqlite3 *db = NULL;
    struct thread shell;
    assert_int_equal(sqlite3_open(bed->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    assert_true(thread_start(&shell, "shell", let_go, db));
    bed_open(bed);
    thread_join(&shell);
    sqlite3_close(db);
    assert_true(proceed(bed, 1) > 0);
    bed_close(bed);
    assert_int_equal(sqlite3_open(bed->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    bed->config.limits.timeout_us = 300 * CLOCK_US_PER_MS;
    enum store_open_result result;
    char *problem MEM_AUTO = bed_refusal(bed, &result);
    assert_non_null(strstr(problem, "database is locked"));
    sqlite3_close(db);
}

/* found: D-B15 */
static void a_lock_file_made_by_root_belongs_to_the_owner_of_the_store(void **state)
{
    struct bed *bed = *state;
    char path[128];
    snprintf(path, sizeof path, "%s-pawl", bed->path);
    bed_open(bed);
    bed_close(bed);
    if (geteuid() != 0 || chown(bed->path, 65534, 65534) != 0)
        skip();
    unlink(path);
    bed_open(bed);
    struct stat lock;
    assert_int_equal(stat(path, &lock), 0);
    assert_int_equal(lock.st_uid, 65534);
    bed_close(bed);
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    enum store_open_result result;
    char *problem MEM_AUTO = bed_refusal(bed, &result);
    assert_non_null(strstr(problem, "pawl.db-pawl: Is a directory"));
    rmdir(path);
}

/* found: D-P3 */
static void codes_that_pass_by_themselves_do_not_stop_the_store(void **state)
{
    (void)state;
    static const struct {
        int code;
        enum backend_status status;
    } codes[] = {{SQLITE_BUSY_SNAPSHOT, BACKEND_BUSY}, {SQLITE_PROTOCOL, BACKEND_BUSY},
                 {SQLITE_SCHEMA, BACKEND_BUSY},        {SQLITE_READONLY_DBMOVED, BACKEND_AWAY},
                 {SQLITE_READONLY, BACKEND_FATAL},     {SQLITE_FULL, BACKEND_FULL},
                 {SQLITE_IOERR_FSYNC, BACKEND_FATAL},  {SQLITE_CORRUPT, BACKEND_FATAL}};
    struct sqlite_backend *sqlite = mem_zalloc(1, sizeof *sqlite);
    char path[] = "pawl.db";
    sqlite->path = path;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        sqlite_call(&sqlite->backend);
        assert_false(sqlite_fail(sqlite, codes[i].code));
        assert_int_equal(sqlite->status, codes[i].status);
    }
    mem_free(sqlite);
}

#define T(name) BED_TEST_AFTER(name, bed_set_up_closed)

int main(void)
{
    struct CMUnitTest tests[] = {
        T(a_file_removed_while_in_use_takes_the_store_down),
        T(a_log_removed_while_in_use_takes_the_store_down_and_loses_nothing_reported),
        T(a_second_serve_beside_a_lost_lock_file_is_noticed_by_the_first),
        T(a_lock_file_removed_while_in_use_takes_the_store_down),
        T(a_start_waits_for_a_foreign_write_lock_as_a_running_store_does),
        T(a_lock_file_made_by_root_belongs_to_the_owner_of_the_store),
        T(codes_that_pass_by_themselves_do_not_stop_the_store),
    };
    return bed_run_on(BED_SQLITE, tests, sizeof tests / sizeof *tests);
}
