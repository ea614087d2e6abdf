/* SPDX-License-Identifier: Apache-2.0 */
/* What only the PostgreSQL store does: look at its schema, lose its server, meet strangers. */
#include "store_bed.h"

#include "base/mem.h"
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void check_refusal(struct bed *bed, const char *what, const char *command)
{
    enum store_open_result result;
    char *problem MEM_AUTO = bed_refusal(bed, &result);
    assert_int_equal(result, STORE_OPEN_FAILED);
    assert_non_null(strstr(problem, what));
    assert_non_null(strstr(problem, command));
}

static void a_schema_that_is_not_there_or_not_ours_is_named_with_its_command(void **state)
{
    struct bed *bed = *state;
    bed_close(bed);
    bed->config.read_only_file = true;
    bed_exec(bed, "UPDATE store SET format = 0");
    check_refusal(bed, "of an older pawl", "pawl schema postgres | psql");
    bed_exec(bed, "UPDATE store SET format = 1000000");
    check_refusal(bed, "made by a newer pawl", "run that version");
    bed_exec(bed, "UPDATE store SET format = 2, revision = 0");
    check_refusal(bed, "of an older pawl", "pawl schema postgres | psql");
    bed_exec(bed, "UPDATE store SET revision = 1000000");
    bed_open(bed); /* what a newer pawl added is no hindrance */
    bed_close(bed);
    bed_exec(bed, "UPDATE store SET revision = 7; DROP TABLE audit");
    check_refusal(bed, "not whole", "pawl schema postgres | psql");
    bed_exec(bed, "DROP SCHEMA pawl CASCADE");
    check_refusal(bed, "there is no pawl store", "pawl schema postgres | psql");
    bed->config.read_only_file = false;
    bed_open(bed);
    proceed(bed, 1);
}

/* By a process that may make it, as one that is not there. */
static void a_schema_from_before_the_terms_gets_them_at_the_next_start(void **state)
{
    struct bed *bed = *state;
    int64_t token = proceed(bed, 1);
    bed_close(bed);
    bed_exec(bed, "DROP FUNCTION terms; ALTER TABLE store DROP COLUMN revision, DROP COLUMN epoch,"
                  " DROP COLUMN frozen_at,"
                  " DROP COLUMN roster, DROP COLUMN went_back_at, DROP COLUMN restored_since,"
                  " DROP COLUMN restored_at, DROP COLUMN restored_until");
    bed->config.read_only_file = true;
    check_refusal(bed, "of an older pawl", "pawl schema postgres | psql");
    bed->config.read_only_file = false;
    bed_open(bed);
    assert_int_equal(finish(bed, 1, token, "kept"), RECORD_WRITTEN);
    assert_int_equal(bed_number(bed, "SELECT revision FROM store"), 7);
}

static void a_row_that_the_server_refuses_fails_alone(void **state)
{
    enum { N = 5, BAD = 3 };
    struct bed *bed = *state;
    bed_close(bed);
    bed->config.no_thread = true;
    bed_open(bed);
    bed_exec(bed, "ALTER TABLE record ADD CHECK (tenant <> 'bad')");
    struct store_op ops[N];
    for (uint64_t i = 0; i < N; i++) {
        ops[i] = begin_on(i);
        ops[i].arrival.tenant = i == BAD ? SLICE("bad") : SLICE("good");
        submit(bed, &ops[i]);
    }
    for (int i = 0; i < N; i++) {
        await(bed, &ops[i]);
        assert_int_equal(ops[i].result.status, i == BAD ? STORE_DOWN : STORE_DONE);
    }
    assert_int_equal(check_counts(bed), N - 1);
}

static void what_a_stranger_holds_is_in_progress_and_nothing_else_waits(void **state)
{
    struct bed *bed = *state;
    int64_t token = proceed(bed, 1);
    act(bed, 1, STORE_RELEASE, token);
    PGconn *stranger = PQconnectdb(bed->url);
    PQclear(PQexec(stranger, "BEGIN"));
    PQclear(PQexec(stranger, "SELECT * FROM pawl.record FOR UPDATE"));
    assert_int_equal(verdict(bed, 1), RECORD_IN_PROGRESS);
    finish(bed, 2, proceed(bed, 2), "kept");
    PQclear(PQexec(stranger, "COMMIT"));
    assert_int_equal(verdict(bed, 1), RECORD_PROCEED);
    PQfinish(stranger);
}

static void a_connection_that_the_server_ends_is_made_again(void **state)
{
    struct bed *bed = *state;
    for (uint64_t key = 0; key < 5; key++) {
        int64_t token = proceed(bed, key);
        bed_exec(bed, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <>"
                      " pg_backend_pid() AND datname = current_database()");
        enum record_write write = finish(bed, key, token, "kept");
        assert_true(write == RECORD_WRITTEN || write == RECORD_ALREADY);
    }
    assert_int_equal(check_counts(bed), 5);
}

static void tokens_that_went_back_are_lifted_above_all_that_were_given_out(void **state)
{
    struct bed *bed = *state;
    int64_t token = proceed(bed, 1);
    bed_exec(bed, "SELECT setval('token', 256)");
    assert_true(proceed(bed, 2) > token);
}

static void what_is_set_for_the_database_does_not_change_how_a_save_reads(void **state)
{
    struct bed *bed = *state;
    bed_close(bed);
    bed_exec(bed, "ALTER TABLE record ADD CHECK"
                  " (current_setting('transaction_isolation') = 'read committed');"
                  "DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || quote_ident(current_database())"
                  " || ' SET default_transaction_isolation = ''repeatable read'''; END $$");
    bed_open(bed);
    finish(bed, 1, proceed(bed, 1), "kept");
}

static void a_warning_of_a_statement_does_not_make_a_commit_unsure(void **state)
{
    struct bed *bed = *state;
    bed_exec(bed, "CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS"
                  " 'BEGIN RAISE WARNING ''vacuum me''; RETURN NEW; END';"
                  "CREATE TRIGGER warn BEFORE INSERT OR UPDATE ON record FOR EACH ROW"
                  " EXECUTE FUNCTION warn();"
                  "CREATE TRIGGER warn BEFORE INSERT OR UPDATE ON owner FOR EACH ROW"
                  " EXECUTE FUNCTION warn()");
    assert_int_equal(finish(bed, 1, proceed(bed, 1), "kept"), RECORD_WRITTEN);
    assert_int_equal(check_counts(bed), 1);
}

static void functions_that_others_made_are_not_called(void **state)
{
    struct bed *bed = *state;
    bed_close(bed);
    bed_exec(bed, "CREATE FUNCTION public.cardinality(bigint[]) RETURNS integer LANGUAGE plpgsql"
                  " AS 'BEGIN RAISE EXCEPTION ''called''; END'");
    bed_open(bed);
    finish(bed, 1, proceed(bed, 1), "kept");
}

static void a_url_that_cannot_be_read_is_refused_without_its_password(void **state)
{
    static const char *const urls[] = {
        "postgres://u:s%zzcret@h/db", "postgres://u:secret@[::1/db", "postgres://u:secret@h/db?bad",
        "postgres://u:se/cret@h/db",  "postgres://u:se@cret@h/db",
    };
    struct bed *bed = *state;
    bed_close(bed);
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        enum store_open_result result;
        bed->config.path = urls[i];
        char *problem MEM_AUTO = bed_refusal(bed, &result);
        assert_int_equal(result, STORE_OPEN_FAILED);
        assert_true(strlen(problem) > 10);
        assert_null(strstr(problem, "cret"));
    }
    bed->config.path = bed->url;
}

static void a_row_that_cannot_be_swept_stops_nobody(void **state)
{
    struct bed *bed = *state;
    act(bed, 1, STORE_RELEASE, proceed(bed, 1));
    bed_exec(bed, "UPDATE record SET expires_at = 1; UPDATE unheld SET at = 1");
    PGconn *stranger = PQconnectdb(bed->url);
    PQclear(PQexec(stranger, "BEGIN"));
    PQclear(PQexec(stranger, "SELECT * FROM pawl.unheld FOR UPDATE"));
    bed_close(bed);
    bed_open(bed); /* a first batch sweeps */
    for (uint64_t key = 2; key < 5; key++)
        finish(bed, key, proceed(bed, key), "kept");
    PQclear(PQexec(stranger, "COMMIT"));
    PQfinish(stranger);
}

static void without_thread(struct bed *bed)
{
    bed_close(bed);
    bed->config.no_thread = true;
    bed_open(bed);
}

static void an_outcome_that_the_server_refuses_is_kept_until_it_can_be_stored(void **state)
{
    struct bed *bed = *state;
    without_thread(bed);
    int64_t token = proceed(bed, 1);
    struct store_op op = write_on(1, STORE_FINISH, token);
    op.writing.final = RECORD_COMPLETE;
    op.writing.http_status = 201;
    bed_exec(bed, "ALTER TABLE record ADD CONSTRAINT strange CHECK (status = 1)");
    submit(bed, &op);
    (void)store_step(bed->store);
    (void)store_step(bed->store);
    assert_false(store_op_ended(&op));
    assert_int_equal(verdict(bed, 1), RECORD_IN_PROGRESS);
    bed_exec(bed, "ALTER TABLE record DROP CONSTRAINT strange");
    await(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
    assert_int_equal(op.result.write, RECORD_WRITTEN);
}

/* More than a statement may have: 54001, whatever is in the row. */
static void a_row_beyond_a_limit_of_the_server_fails_alone(void **state)
{
    struct bed *bed = *state;
    bed_exec(bed, "CREATE FUNCTION limits() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF"
                  " NEW.tenant = ''bad'' THEN RAISE EXCEPTION ''too complex'' USING ERRCODE ="
                  " ''54001''; END IF; RETURN NEW; END';"
                  "CREATE TRIGGER limits BEFORE INSERT ON record FOR EACH ROW EXECUTE FUNCTION"
                  " limits()");
    struct store_op bad = begin_on(1);
    bad.arrival.tenant = SLICE("bad");
    run(bed, &bad);
    assert_int_equal(bad.result.status, STORE_DOWN);
    (void)proceed(bed, 2);
}

/* Whoever read it before would save what it does not know of. */
static void a_row_that_loses_its_name_is_another_version(void **state)
{
    struct bed *bed = *state;
    act(bed, 1, STORE_RELEASE, proceed(bed, 1));
    bed_exec(bed, "UPDATE record SET expires_at = 1, version = 7");
    (void)proceed(bed, 1);
    assert_int_equal(bed_number(bed, "SELECT count(*) FROM record WHERE version = 7"), 0);
}

static void a_function_that_returns_something_else_is_a_store_that_is_away(void **state)
{
    struct bed *bed = *state;
    without_thread(bed);
    int64_t token = proceed(bed, 1);
    bed_exec(bed, "ALTER FUNCTION load(bytea[], bigint[], bytea[], bigint) RENAME TO right_one;"
                  "CREATE FUNCTION load(hashes bytea[], hints bigint[], onces bytea[], most bigint)"
                  " RETURNS SETOF loaded LANGUAGE plpgsql AS 'DECLARE r pawl.loaded; BEGIN FOR r IN"
                  " SELECT * FROM pawl.right_one(hashes, hints, onces, most) LOOP r.name :="
                  " 1000; RETURN NEXT r; END LOOP; END'");
    struct store_op op = begin_on(1);
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DOWN);
    bed_exec(bed, "DROP FUNCTION load(bytea[], bigint[], bytea[], bigint);"
                  "ALTER FUNCTION right_one RENAME TO load");
    assert_int_equal(finish(bed, 1, token, "kept"), RECORD_WRITTEN);
}

/* What happens at the end of each transaction that made a record, until `at_commit` is dropped. */
static void at_commit(struct bed *bed, const char *statement)
{
    char sql[512];
    snprintf(sql, sizeof sql,
             "CREATE FUNCTION at_commit() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN %s; RETURN"
             " NEW; END'; CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON record DEFERRABLE"
             " INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION at_commit()",
             statement);
    bed_exec(bed, sql);
}

static void a_begin_that_was_unsure_and_then_is_refused_fails(void **state)
{
    struct bed *bed = *state;
    without_thread(bed);
    at_commit(bed, "PERFORM pg_terminate_backend(pg_backend_pid())");
    struct store_op op = begin_on(1);
    submit(bed, &op);
    (void)store_step(bed->store);
    assert_true(op.own.unsure);
    bed_exec(bed, "DROP FUNCTION at_commit CASCADE;"
                  "ALTER TABLE record ADD CONSTRAINT strange CHECK (status <> 1)");
    await(bed, &op);
    assert_int_equal(op.result.status, STORE_DOWN);
    bed_exec(bed, "ALTER TABLE record DROP CONSTRAINT strange");
    (void)proceed(bed, 1);
}

/* It has nothing to write but a mark, whose commit comes behind that of the begin. */
static void a_begin_that_was_unsure_proceeds_when_its_mark_could_be_written(void **state)
{
    struct bed *bed = *state;
    without_thread(bed);
    at_commit(bed, "RAISE WARNING ''the standby is away''");
    bed_exec(bed, "ALTER TABLE tally ADD CONSTRAINT strange CHECK (leases + pending > 0)");
    struct store_op op = begin_on(1);
    submit(bed, &op);
    (void)store_step(bed->store);
    assert_true(op.own.unsure);
    usleep(100 * 1000); /* until a batch that failed is tried again */
    (void)store_step(bed->store);
    assert_false(store_op_ended(&op));
    bed_exec(bed, "ALTER TABLE tally DROP CONSTRAINT strange");
    await(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    assert_int_equal(finish(bed, 1, op.result.record.token, "kept"), RECORD_WRITTEN);
}

static PGconn *hold_rows(struct bed *bed, const char *sql)
{
    PGconn *stranger = PQconnectdb(bed->url);
    PQclear(PQexec(stranger, "BEGIN"));
    PGresult *held = PQexec(stranger, sql);
    assert_true(PQntuples(held) > 0);
    PQclear(held);
    return stranger;
}

static void let_go(PGconn *stranger)
{
    PQclear(PQexec(stranger, "COMMIT"));
    PQfinish(stranger);
}

/* Nothing is written under the one that took its place: what was unsure is only looked at. */
static void a_held_mark_that_is_missing_is_noticed_where_nothing_is_written(void **state)
{
    struct bed *bed = *state;
    bed->config.role = STORE_SERVE;
    without_thread(bed);
    (void)proceed(bed, 1);
    at_commit(bed, "RAISE WARNING ''the standby is away''");
    PGconn *stranger = hold_rows(bed, "SELECT * FROM pawl.mark FOR UPDATE");
    struct store_op op = begin_on(2);
    submit(bed, &op);
    for (int i = 0; i < 2 && !op.own.unsure; i++) /* without a load it only met the lock */
        (void)store_step(bed->store);
    assert_true(op.own.unsure);
    let_go(stranger);
    bed_exec(bed, "DROP FUNCTION at_commit() CASCADE");
    assert_int_equal(bed_number(bed, "SELECT count(*) FROM mark"), 2);
    bed_exec(bed, "DELETE FROM mark");
    await(bed, &op);
    assert_true(bed_number(bed, "SELECT went_back_at FROM store") > 0);
}

/* They hold it for as long as the test likes: who waited for them would not get on. */
static void whoever_holds_the_counts_or_the_beats_stops_nobody(void **state)
{
    static const char *const tables[] = {"SELECT * FROM pawl.tally FOR UPDATE",
                                         "SELECT * FROM pawl.owner FOR UPDATE"};
    struct bed *bed = *state;
    int64_t first = proceed(bed, 0);
    for (uint64_t i = 0; i < 2; i++) {
        PGconn *stranger = hold_rows(bed, tables[i]);
        for (uint64_t key = 10 * (i + 1); key < 10 * (i + 1) + 3; key++)
            assert_int_equal(finish(bed, key, proceed(bed, key), "kept"), RECORD_WRITTEN);
        let_go(stranger);
    }
    finish(bed, 0, first, "kept");
    assert_int_equal(check_counts(bed), 7);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        BED_TEST(a_schema_that_is_not_there_or_not_ours_is_named_with_its_command),
        BED_TEST(a_schema_from_before_the_terms_gets_them_at_the_next_start),
        BED_TEST(a_row_that_the_server_refuses_fails_alone),
        BED_TEST(what_a_stranger_holds_is_in_progress_and_nothing_else_waits),
        BED_TEST(a_connection_that_the_server_ends_is_made_again),
        BED_TEST(tokens_that_went_back_are_lifted_above_all_that_were_given_out),
        BED_TEST(what_is_set_for_the_database_does_not_change_how_a_save_reads),
        BED_TEST(functions_that_others_made_are_not_called),
        BED_TEST(a_url_that_cannot_be_read_is_refused_without_its_password),
        BED_TEST(a_row_that_cannot_be_swept_stops_nobody),
        BED_TEST(a_warning_of_a_statement_does_not_make_a_commit_unsure),
        BED_TEST(an_outcome_that_the_server_refuses_is_kept_until_it_can_be_stored),
        BED_TEST(a_row_beyond_a_limit_of_the_server_fails_alone),
        BED_TEST(a_row_that_loses_its_name_is_another_version),
        BED_TEST(a_function_that_returns_something_else_is_a_store_that_is_away),
        BED_TEST(a_begin_that_was_unsure_and_then_is_refused_fails),
        BED_TEST(a_begin_that_was_unsure_proceeds_when_its_mark_could_be_written),
        BED_TEST(a_held_mark_that_is_missing_is_noticed_where_nothing_is_written),
        BED_TEST(whoever_holds_the_counts_or_the_beats_stops_nobody),
    };
    return bed_run_on(BED_POSTGRES, tests, sizeof tests / sizeof *tests);
}
