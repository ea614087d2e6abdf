/* SPDX-License-Identifier: Apache-2.0 */
/* Every I/O call of the store made to fail, one after the other. */
#include "fault_bed.h"

#include "store/sqlite/faults.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define POINTS_MAX 20000
/* Every call; where sanitizers slow everything down, a part of them. */
#ifdef PAWL_SANITIZED
#define CALL_STEP 23
#else
#define CALL_STEP 1
#endif

/* One run with the n-th of `calls` failing; false: no call was left to fail. */
static bool one_fault(unsigned calls, int error, long n, long *stops)
{
    struct fault_bed bed;
    fault_bed_init(&bed);
    sqlite_faults_arm(calls, error, n);
    fault_bed_story(&bed);
    bool fired = sqlite_faults_fired();
    sqlite_faults_arm(0, 0, 0);
    if (bed.dead) {
        assert_int_equal(error, SQLITE_IOERR);
        assert_non_null(strstr(bed.why, bed.path));
        (*stops)++;
    }
    fault_bed_check(&bed);
    fault_bed_fini(&bed);
    return fired;
}

static void sweep(const char *what, unsigned calls, int error)
{
    long n = 1, points = 0, stops = 0;
    for (; one_fault(calls, error, n, &stops); n += CALL_STEP) {
        points++;
        assert_in_range(n, 1, POINTS_MAX);
    }
    assert_true(points > 0);
    print_message("%s: %ld fault points, %ld of them ended in fail-stop\n", what, points, stops);
}

static void any_write_that_fails_stops_the_store_and_loses_nothing(void **state)
{
    (void)state;
    sweep("write, EIO", SQLITE_FAULT_WRITE, SQLITE_IOERR);
}

static void any_sync_that_fails_stops_the_store_and_loses_nothing(void **state)
{
    (void)state;
    sweep("sync, EIO", SQLITE_FAULT_SYNC, SQLITE_IOERR);
}

static void any_truncate_that_fails_loses_nothing(void **state)
{
    (void)state;
    sweep("truncate, EIO", SQLITE_FAULT_TRUNCATE, SQLITE_IOERR);
}

static void any_read_that_fails_loses_nothing(void **state)
{
    (void)state;
    sweep("read, EIO", SQLITE_FAULT_READ, SQLITE_IOERR);
}

/* found: D-B10 */
static void any_write_over_quota_is_tried_again_and_nothing_stops(void **state)
{
    (void)state;
    sweep("write, over quota", SQLITE_FAULT_WRITE, SQLITE_FAULT_QUOTA);
}

static void any_write_without_space_is_tried_again_and_nothing_stops(void **state)
{
    (void)state;
    sweep("write, no space", SQLITE_FAULT_WRITE, SQLITE_FULL);
}

/* ---- a file of an older format ---- */

/* Makes the file that tests/contract/format_1.sql describes. */
static void write_format_1(const struct fault_bed *bed)
{
    static char sql[16384];
    FILE *file = fopen(FORMAT_1, "r");
    assert_non_null(file);
    size_t n = fread(sql, 1, sizeof sql - 1, file);
    fclose(file);
    assert_in_range(n, 1, sizeof sql - 2);
    sql[n] = 0;
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(bed->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* One that cannot be brought forward now can be later, and holds what it held. */
static void a_migration_may_fail_at_any_call_and_loses_nothing(void **state)
{
    (void)state;
    bool fired = true;
    long n = 0, points = 0;
    while (fired) {
        struct fault_bed bed;
        fault_bed_init(&bed);
        write_format_1(&bed);
        sqlite_faults_arm(SQLITE_FAULT_ANY, n % 2 ? SQLITE_IOERR : SQLITE_FULL, n / 2 + 1);
        if (!fault_bed_open(&bed))
            assert_non_null(strstr(bed.why, bed.path));
        fault_bed_close(&bed);
        fired = sqlite_faults_fired();
        sqlite_faults_arm(0, 0, 0);
        if (!fault_bed_open(&bed))
            fail_msg("it does not open again: %s", bed.why);
        struct store_counts counts = store_counts(bed.store);
        assert_int_equal(
            counts.pending + counts.complete + counts.failed + counts.unknown + counts.released, 4);
        uint64_t key = 1;
        struct store_op op = {.kind = STORE_LOOK, .key_hash = digest_of(slice_make(&key, 8))};
        fault_bed_run(&bed, &op);
        assert_true(slice_eq(op.result.found->body, SLICE("kept")));
        outcome_unref(op.result.found);
        fault_bed_fini(&bed);
        n += CALL_STEP; /* which is odd: each way to fail has its turn */
        points++;
        assert_in_range(n, 1, POINTS_MAX);
    }
    assert_true(points > 2);
    print_message("migration: %ld fault points\n", points - 1);
}

/* Leaves the log as it stood: a process that stops does not tidy up. */
static void die(struct fault_bed *bed)
{
    char log[128], kept[128];
    snprintf(log, sizeof log, "%s-wal", bed->path);
    snprintf(kept, sizeof kept, "%s-kept", bed->path);
    bool has_log = link(log, kept) == 0;
    fault_bed_close(bed);
    if (has_log)
        assert_int_equal(rename(kept, log), 0);
}

/* A claim whose sync failed was told to nobody; when it is there after a restart it is in doubt. */
static void a_claim_that_reappears_after_a_failed_sync_is_in_doubt(void **state)
{
    (void)state;
    int reappeared = 0;
    for (long n = 1; n < 100; n++) {
        struct fault_bed bed;
        fault_bed_init(&bed);
        assert_true(fault_bed_open(&bed));
        struct store_op op = {.kind = STORE_BEGIN,
                              .key_hash = digest_of(SLICE("k")),
                              .arrival.tenant = SLICE("t"),
                              .arrival.rule = SLICE("r"),
                              .arrival.key = SLICE("k"),
                              .arrival.recipe = SLICE("recipe"),
                              .begin = {.lease_us = LEASE, .ttl_us = TTL}};
        sqlite_faults_arm(SQLITE_FAULT_SYNC, SQLITE_IOERR, n);
        fault_bed_run(&bed, &op);
        bool fired = sqlite_faults_fired();
        sqlite_faults_arm(0, 0, 0);
        assert_int_equal(op.result.status, fired ? STORE_DEAD : STORE_DONE);
        assert_int_equal(bed.dead, fired);
        die(&bed);
        assert_true(fault_bed_open(&bed));
        op.begin.attempt_id[0]++;
        fault_bed_run(&bed, &op);
        assert_int_equal(op.result.status, STORE_DONE);
        reappeared += fired && op.result.verdict == RECORD_OUTCOME_UNKNOWN;
        if (op.result.verdict != RECORD_OUTCOME_UNKNOWN)
            assert_true(fired && op.result.verdict == RECORD_PROCEED);
        fault_bed_fini(&bed);
        if (!fired)
            break;
    }
    assert_true(reappeared > 0);
}

int main(void)
{
    sqlite_faults_install();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_write_that_fails_stops_the_store_and_loses_nothing),
        cmocka_unit_test(any_sync_that_fails_stops_the_store_and_loses_nothing),
        cmocka_unit_test(any_truncate_that_fails_loses_nothing),
        cmocka_unit_test(any_read_that_fails_loses_nothing),
        cmocka_unit_test(any_write_over_quota_is_tried_again_and_nothing_stops),
        cmocka_unit_test(any_write_without_space_is_tried_again_and_nothing_stops),
        cmocka_unit_test(a_migration_may_fail_at_any_call_and_loses_nothing),
        cmocka_unit_test(a_claim_that_reappears_after_a_failed_sync_is_in_doubt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
