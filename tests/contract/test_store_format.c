/* SPDX-License-Identifier: Apache-2.0 */
/* Files of older formats: brought forward with all that they hold, or left alone. */
#include "store_bed.h"

#include "base/mem.h"
#include "store/sqlite/lock.h"
#include "store/sqlite/sqlite.h"
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define SQL_MAX ((size_t)64 * 1024)

/* Makes the file that format_1.sql describes. */
static void write_format_1(struct bed *bed)
{
    char *sql MEM_AUTO = mem_zalloc(1, SQL_MAX);
    FILE *file = fopen(FORMAT_1, "r");
    assert_non_null(file);
    size_t n = fread(sql, 1, SQL_MAX - 1, file);
    fclose(file);
    assert_in_range(n, 1, SQL_MAX - 2);
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(bed->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static int64_t number(struct bed *bed, const char *query)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *s = NULL;
    assert_int_equal(sqlite3_open(bed->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, query, -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    sqlite3_close(db);
    return value;
}

static void a_store_of_format_1_is_brought_forward_with_all_it_holds(void **state)
{
    struct bed *bed = *state;
    write_format_1(bed);
    bed_open(bed);
    assert_int_equal(number(bed, "PRAGMA user_version"), PAWL_FORMAT);
    assert_int_equal(check_counts(bed), 4);
    struct store_op replay = begin_on(1);
    run(bed, &replay);
    assert_int_equal(replay.result.verdict, RECORD_REPLAY);
    assert_true(slice_eq(replay.result.found->body, SLICE("kept")));
    outcome_unref(replay.result.found);
    assert_int_equal(verdict(bed, 2), RECORD_OUTCOME_UNKNOWN);
    assert_int_equal(verdict(bed, 4), RECORD_RESULT_NOT_KEPT);
    assert_int_equal(number(bed, "SELECT max(id) FROM pawl_outcome"), 4);
    assert_true(proceed(bed, 3) > look(bed, 2).token);
    finish(bed, 5, proceed(bed, 5), "new");
    struct store_op forget = {.kind = STORE_FORGET,
                              .key_hash = key_of(2),
                              .writing.actor = SLICE("me"),
                              .writing.force = true};
    run(bed, &forget);
    assert_int_equal(forget.result.write, RECORD_WRITTEN);
    assert_int_equal(number(bed, "SELECT count(*) FROM pawl_audit WHERE actor='me'"), 1);
}

/* Within a format columns are only added, so that an older pawl that has the file open goes on. */
static void a_store_from_before_the_terms_gets_them_and_keeps_its_format(void **state)
{
    struct bed *bed = *state;
    bed_open(bed);
    finish(bed, 1, proceed(bed, 1), "kept");
    int64_t token = proceed(bed, 2);
    bed_close(bed);
#define X(name) "ALTER TABLE pawl_state DROP COLUMN " #name ";"
    bed_exec(bed, "ALTER TABLE pawl_pending DROP COLUMN hold_us;"
                  "ALTER TABLE pawl_pending DROP COLUMN asking;"
                  "ALTER TABLE pawl_state DROP COLUMN revision;" TERMS(X));
#undef X
    bed_open(bed);
    assert_int_equal(number(bed, "SELECT revision FROM pawl_state"), SQLITE_REVISION);
    assert_int_equal(number(bed, "PRAGMA user_version"), PAWL_FORMAT);
    assert_int_equal(verdict(bed, 1), RECORD_REPLAY);
    struct terms_change terms = {.wanted = {.epoch = 7}};
    struct store_op op = {.kind = STORE_ROWS, .rows.terms = &terms};
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
    assert_int_equal(finish(bed, 2, token, "kept"), RECORD_WRITTEN);
    assert_int_equal(number(bed, "SELECT epoch FROM pawl_state"), 7);
}

static const char to_format_3[] = BED_TO_FORMAT_4 BED_TO_FORMAT_3 "PRAGMA user_version=3;";

/* Under `retry`, ended as `kind`: released, surely not done or in doubt. */
static void leave(struct bed *bed, uint64_t key, enum store_op_kind kind)
{
    struct store_op begin = begin_on(key);
    begin.begin.unknown = RECORD_UNKNOWN_RETRY;
    run(bed, &begin);
    assert_int_equal(act(bed, key, kind, begin.result.record.token), RECORD_WRITTEN);
}

static void a_store_of_format_3_keeps_all_it_holds_and_what_is_in_doubt(void **state)
{
    struct bed *bed = *state;
    bed_open(bed);
    int64_t done = proceed(bed, 1), running = proceed(bed, 2);
    finish(bed, 1, done, "kept");
    act(bed, 3, STORE_DOUBT, proceed(bed, 3));
    leave(bed, 4, STORE_DOUBT);
    act(bed, 5, STORE_RELEASE, proceed(bed, 5));
    bed_close(bed);
    bed_exec(bed, to_format_3);
    bed_open(bed);
    assert_int_equal(check_counts(bed), 5);
    assert_int_equal(number(bed, "SELECT count(*) FROM idempotency_keys"), 5);
    assert_int_equal(verdict(bed, 1), RECORD_REPLAY);
    assert_false(look(bed, 2).doubt);
    assert_int_equal(finish(bed, 2, running, "late"), RECORD_WRITTEN);
    assert_true(look(bed, 3).doubt);
    assert_int_equal(verdict(bed, 3), RECORD_OUTCOME_UNKNOWN);
    assert_true(look(bed, 4).doubt);
    assert_false(look(bed, 5).doubt);
}

/* Where no clock ever told the time, tokens are small numbers, too. */
static const char to_format_4[] =
    BED_TO_FORMAT_4 "UPDATE pawl_state SET next_row = token + 10 * 86400000000;"
                    "PRAGMA user_version=4;";

static void rows_of_before_format_5_keep_their_ids_and_new_ones_never_meet_them(void **state)
{
    struct bed *bed = *state;
    bed_open(bed);
    int64_t running = proceed(bed, 1);
    bed_close(bed);
    bed_exec(bed, to_format_4);
    int64_t next_row = bed_number(bed, "SELECT next_row FROM pawl_state");
    bed_open(bed);
    struct store_op op = begin_on(2);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    assert_true(op.result.row > next_row);
    assert_int_equal(op.result.row, op.result.record.token);
    assert_int_equal(finish(bed, 1, running, "late"), RECORD_WRITTEN);
    assert_int_equal(check_counts(bed), 2);
}

#ifdef PAWL_HOOKS
static const char leases_to_format_4[] =
    BED_TO_FORMAT_4 "UPDATE pawl_pending SET owner = owner + 2, owner_is_serve = 1 WHERE id ="
                    " (SELECT id FROM pawl_pending ORDER BY id LIMIT 1 OFFSET 1);"
                    "UPDATE pawl_pending SET lease_until = lease_until + 15000000 WHERE id ="
                    " (SELECT min(id) FROM pawl_pending); PRAGMA user_version=4;";

/* One of a process that renewed it half a lease later, one of a `serve` that has died. */
static void a_store_of_format_4_keeps_what_runs_to_the_end_of_its_lease(void **state)
{
    struct bed *bed = *state;
    int64_t now = clock_wall_us();
    clock_test_set(now, now);
    bed_open(bed);
    proceed(bed, 1);
    proceed(bed, 2);
    int64_t released = proceed(bed, 3);
    act(bed, 3, STORE_RELEASE, released);
    bed_close(bed);
    bed_exec(bed, leases_to_format_4);
    bed_open(bed);
    assert_int_equal(number(bed, "SELECT sum(leases) FROM pawl_owner"), 2);
    assert_int_equal(check_counts(bed), 3);
    assert_int_equal(verdict(bed, 2), RECORD_OUTCOME_UNKNOWN);
    clock_test_set(now + LEASE * 3 / 2 - 1, now + LEASE * 3 / 2 - 1);
    assert_int_equal(verdict(bed, 1), RECORD_IN_PROGRESS);
    clock_test_set(now + LEASE * 3 / 2, now + LEASE * 3 / 2);
    assert_int_equal(verdict(bed, 1), RECORD_OUTCOME_UNKNOWN);
    assert_int_equal(number(bed, "SELECT count(*) FROM pawl_owner"), 0);
    clock_test_set(0, 0);
}
#endif

static void refused_beside(struct bed *bed, enum store_role other, const char *word)
{
    char path[128];
    snprintf(path, sizeof path, "%s-pawl", bed->path);
    struct store_lock lock;
    assert_int_equal(store_lock_open(&lock, path), 0);
    assert_int_equal(store_lock_life(&lock, other), 0);
    enum store_open_result result;
    char *problem MEM_AUTO = bed_refusal(bed, &result);
    assert_int_equal(result, STORE_OPEN_IN_USE);
    assert_non_null(strstr(problem, word));
    assert_non_null(strstr(problem, "older version"));
    assert_int_equal(number(bed, "PRAGMA user_version"), 1);
    store_lock_close(&lock);
}

static void a_store_that_an_older_pawl_runs_on_is_left_as_it_is(void **state)
{
    struct bed *bed = *state;
    write_format_1(bed);
    refused_beside(bed, STORE_SERVE, "serve");
    refused_beside(bed, STORE_DRAINER, "queue drain");
    bed->config.role = STORE_SERVE;
    refused_beside(bed, STORE_DRAINER, "queue drain");
    bed_open(bed);
    assert_int_equal(number(bed, "PRAGMA user_version"), PAWL_FORMAT);
}

/* ---- the copy from before ---- */

static struct bed copy_of(const struct bed *bed, int format)
{
    struct bed copy = *bed;
    assert_in_range(snprintf(copy.path, sizeof copy.path, "%s.before-%d", bed->path, format), 1,
                    sizeof copy.path - 1);
    return copy;
}

static void what_was_there_before_a_new_format_is_kept(void **state)
{
    struct bed *bed = *state, copy = copy_of(bed, 1);
    write_format_1(bed);
    bed_open(bed);
    finish(bed, 5, proceed(bed, 5), "new");
    bed_close(bed);
    assert_int_equal(number(&copy, "PRAGMA user_version"), 1);
    assert_int_equal(number(&copy, "SELECT count(*) FROM pawl_outcome"), 2);
    assert_int_equal(number(&copy, "SELECT count(*) FROM pawl_key"), 4);
    assert_int_equal(rename(copy.path, bed->path), 0);
    bed_open(bed);
    assert_int_equal(check_counts(bed), 4);
    assert_int_equal(number(&copy, "PRAGMA user_version"), 1);
}

/* As after a kill between the copy and the new format; and where the store went on since. */
static void a_copy_that_is_there_is_kept_only_if_it_is_of_this_moment(void **state)
{
    struct bed *bed = *state, copy = copy_of(bed, 1);
    write_format_1(bed);
    write_format_1(&copy);
    bed_exec(bed, "UPDATE pawl_state SET token = token + 1");
    enum store_open_result result;
    char *problem MEM_AUTO = bed_refusal(bed, &result);
    assert_int_equal(result, STORE_OPEN_FAILED);
    assert_non_null(strstr(problem, ".before-1"));
    assert_non_null(strstr(problem, "another moment"));
    assert_int_equal(number(bed, "PRAGMA user_version"), 1);
    bed_exec(bed, "UPDATE pawl_state SET token = token - 1");
    bed_open(bed);
    assert_int_equal(number(bed, "PRAGMA user_version"), PAWL_FORMAT);
    assert_int_equal(number(&copy, "PRAGMA user_version"), 1);
}

static void without_a_copy_there_is_no_new_format(void **state)
{
    struct bed *bed = *state, copy = copy_of(bed, 1);
    char partial[160];
    snprintf(partial, sizeof partial, "%s.partial", copy.path);
    write_format_1(bed);
    assert_int_equal(mkdir(partial, 0700), 0);
    enum store_open_result result;
    char *problem MEM_AUTO = bed_refusal(bed, &result);
    assert_int_equal(result, STORE_OPEN_FAILED);
    assert_non_null(strstr(problem, partial));
    assert_int_equal(number(bed, "PRAGMA user_version"), 1);
    assert_int_equal(rmdir(partial), 0);
    bed_open(bed);
    assert_int_equal(number(&copy, "PRAGMA user_version"), 1);
}

static void refused_as_newer(struct bed *bed, const char *way_out)
{
    enum store_open_result result;
    char *problem MEM_AUTO = bed_refusal(bed, &result);
    assert_int_equal(result, STORE_OPEN_FAILED);
    assert_non_null(strstr(problem, "newer pawl"));
    assert_non_null(strstr(problem, way_out));
}

/* As an older pawl sees it that is started on it again. */
static void a_newer_store_is_refused_with_the_way_back(void **state)
{
    struct bed *bed = *state, copy = copy_of(bed, PAWL_FORMAT);
    char pragma[64];
    bed_open(bed);
    bed_close(bed);
    snprintf(pragma, sizeof pragma, "PRAGMA user_version=%d", PAWL_FORMAT + 1);
    bed_exec(bed, pragma);
    refused_as_newer(bed, "restore an older backup");
    write_format_1(&copy);
    refused_as_newer(bed, copy.path);
    assert_int_equal(unlink(copy.path), 0);
}

#define T(name) BED_TEST_AFTER(name, bed_set_up_closed)

int main(void)
{
    struct CMUnitTest tests[] = {
        T(a_store_of_format_1_is_brought_forward_with_all_it_holds),
        T(a_store_from_before_the_terms_gets_them_and_keeps_its_format),
        T(a_store_of_format_3_keeps_all_it_holds_and_what_is_in_doubt),
        T(rows_of_before_format_5_keep_their_ids_and_new_ones_never_meet_them),
#ifdef PAWL_HOOKS
        T(a_store_of_format_4_keeps_what_runs_to_the_end_of_its_lease),
#endif
        T(a_store_that_an_older_pawl_runs_on_is_left_as_it_is),
        T(what_was_there_before_a_new_format_is_kept),
        T(a_copy_that_is_there_is_kept_only_if_it_is_of_this_moment),
        T(without_a_copy_there_is_no_new_format),
        T(a_newer_store_is_refused_with_the_way_back),
    };
    return bed_run_on(BED_SQLITE, tests, sizeof tests / sizeof *tests);
}
