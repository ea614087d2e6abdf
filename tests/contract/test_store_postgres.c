/* SPDX-License-Identifier: Apache-2.0 */
/* What only the PostgreSQL store does: look at its schema, lose its server, meet strangers. */
#include "store_bed.h"

#include "base/mem.h"
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

static int set_up(void **state)
{
    return bed_set_up_on(state, BED_POSTGRES);
}

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
    bed_exec(bed, "UPDATE store SET format = 1; DROP TABLE audit");
    check_refusal(bed, "not whole", "pawl schema postgres | psql");
    bed_exec(bed, "DROP SCHEMA pawl CASCADE");
    check_refusal(bed, "there is no pawl store", "pawl schema postgres | psql");
    bed->config.read_only_file = false;
    bed_open(bed);
    proceed(bed, 1);
}

static void a_row_that_the_server_refuses_fails_alone(void **state)
{
    enum { N = 7, BAD = 3 };
    struct bed *bed = *state;
    bed_close(bed);
    bed->config.no_thread = true;
    bed_open(bed);
    bed_exec(bed, "ALTER TABLE record ADD CHECK (tenant <> 'bad')");
    struct store_op ops[N];
    for (uint64_t i = 0; i < N; i++) {
        ops[i] = begin_on(i);
        ops[i].tenant = i == BAD ? SLICE("bad") : SLICE("good");
        submit(bed, &ops[i]);
    }
    for (int i = 0; i < N; i++) {
        await(bed, &ops[i]);
        assert_int_equal(ops[i].status, i == BAD ? STORE_DOWN : STORE_DONE);
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

int main(void)
{
    static const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, bed_tear_down)
        T(a_schema_that_is_not_there_or_not_ours_is_named_with_its_command),
        T(a_row_that_the_server_refuses_fails_alone),
        T(what_a_stranger_holds_is_in_progress_and_nothing_else_waits),
        T(a_connection_that_the_server_ends_is_made_again),
        T(tokens_that_went_back_are_lifted_above_all_that_were_given_out),
        T(what_is_set_for_the_database_does_not_change_how_a_save_reads),
        T(functions_that_others_made_are_not_called),
        T(a_url_that_cannot_be_read_is_refused_without_its_password),
        T(a_row_that_cannot_be_swept_stops_nobody),
        T(a_warning_of_a_statement_does_not_make_a_commit_unsure),
    };
    return getenv("PAWL_TEST_POSTGRES") ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
