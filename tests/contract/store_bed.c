/* SPDX-License-Identifier: Apache-2.0 */
#include "store_bed.h"

#include "base/crypto/random.h"
#include "base/mem.h"
#include <libpq-fe.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SHELL_BUSY_MS 10000 /* a batch of the store under test may be under way */

/* ---- databases of the PostgreSQL beds ---- */

static void run_on_server(const char *sql, const char *name, const char *other)
{
    char statement[256];
    snprintf(statement, sizeof statement, sql, name, other);
    PGconn *conn = PQconnectdb(getenv("PAWL_TEST_POSTGRES"));
    PGresult *result = PQexec(conn, statement);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        fail_msg("%s: %s", statement, PQerrorMessage(conn));
    PQclear(result);
    PQfinish(conn);
}

/* The server's URL with that database in it. */
static void write_url(const char *name, char *ret_url, size_t size)
{
    const char *server = getenv("PAWL_TEST_POSTGRES");
    const char *path = strchr(strstr(server, "://") + 3, '/'), *rest = strchr(server, '?');
    assert_non_null(path);
    snprintf(ret_url, size, "%.*s/%s%s", (int)(path - server), server, name, rest ? rest : "");
}

/* The name of a database with the schema, which a process makes once: to copy it costs the server
 * a tenth of what an installation does. */
static const char *installed(void)
{
    static char name[32];
    char url[512];
    struct store_config config = store_config_default();
    struct store *store;
    char *problem = NULL;
    if (*name)
        return name;
    snprintf(name, sizeof name, "installed%ld", (long)getpid());
    run_on_server("CREATE DATABASE \"%s\" TEMPLATE %s STRATEGY FILE_COPY", name, "template0");
    write_url(name, url, sizeof url);
    config.path = url;
    if (store_open(&config, &store, &problem) != STORE_OPENED)
        fail_msg("%s", problem ? problem : "out of memory");
    store_close(store);
    return name;
}

/* A database of its own, which is named after the directory. */
static void make_database(struct bed *bed)
{
    const char *name = strrchr(bed->dir, '-') + 1;
    run_on_server("CREATE DATABASE \"%s\" TEMPLATE %s STRATEGY FILE_COPY", name, installed());
    write_url(name, bed->url, sizeof bed->url);
}

/* ---- beds ---- */

void bed_init(struct bed *bed, enum bed_kind kind)
{
    *bed = (struct bed){.kind = kind, .config = store_config_default()};
    thread_parker_init(&bed->parker);
    snprintf(bed->dir, sizeof bed->dir, "/tmp/pawl-contract-XXXXXX");
    assert_non_null(mkdtemp(bed->dir));
    snprintf(bed->path, sizeof bed->path, "%s/pawl.db", bed->dir);
    if (kind == BED_POSTGRES)
        make_database(bed);
    bed->config.path = kind == BED_POSTGRES ? bed->url : bed->path;
    /* Tests move the clock by hours while a batch may be at rest. */
    bed->config.limits.timeout_us = 1000 * TTL;
}

static void remove_file(const struct bed *bed, const char *suffix)
{
    char path[128];
    snprintf(path, sizeof path, "%s%s", bed->path, suffix);
    unlink(path);
}

void bed_fini(struct bed *bed)
{
#ifdef PAWL_HOOKS
    clock_test_set(0, 0); /* of a test that failed while it held the clock */
#endif
    bed_close(bed);
    thread_parker_fini(&bed->parker);
    if (bed->kind == BED_POSTGRES)
        run_on_server("DROP DATABASE \"%s\" WITH (%s)", strrchr(bed->dir, '-') + 1, "FORCE");
    static const char *const suffixes[] = {
        "", "-wal", "-shm", "-pawl", "-old", ".before-1", ".before-2", ".before-3", ".before-4"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        remove_file(bed, suffixes[i]);
    rmdir(bed->dir);
}

/* Another one each time, the same in each run; PAWL_SEED begins elsewhere. */
static uint64_t next_seed(void)
{
    static uint64_t seed;
    const char *from = getenv("PAWL_SEED");
    if (seed == 0)
        seed = from ? strtoull(from, NULL, 10) : 1;
    seed += UINT64_C(0x9e3779b97f4a7c15);
    return seed | 1;
}

static enum store_open_result open_it(struct bed *bed, char **ret_problem)
{
    enum store_open_result result = STORE_OPENED;
    if (bed->kind == BED_SQLITE || bed->kind == BED_POSTGRES)
        return store_open(&bed->config, &bed->store, ret_problem);
    if (bed->kind == BED_HOSTILE) {
        struct backend *behind = sqlite_backend_open(&bed->config, &result, ret_problem);
        return behind ? store_open_over(&bed->config,
                                        hostile_over(behind, next_seed(), !bed->config.no_thread),
                                        &bed->store, ret_problem)
                      : result;
    }
    struct backend *backend = bed->backend ? bed->backend : hostile_toy(NULL);
    assert_non_null(backend);
    bed->backend = backend;
    return store_open_over(&bed->config, backend, &bed->store, ret_problem);
}

void bed_open(struct bed *bed)
{
    char *problem = NULL;
    if (open_it(bed, &problem) != STORE_OPENED)
        fail_msg("%s", problem ? problem : "out of memory");
}

void bed_close(struct bed *bed)
{
    store_close(bed->store);
    bed->store = NULL;
    bed->backend = NULL;
}

char *bed_refusal(struct bed *bed, enum store_open_result *ret_result)
{
    char *problem = NULL;
    *ret_result = open_it(bed, &problem);
    bed_close(bed);
    return problem;
}

void bed_share(struct bed *from, struct bed *ret_bed)
{
    *ret_bed = (struct bed){.kind = from->kind, .config = from->config};
    thread_parker_init(&ret_bed->parker);
    memcpy(ret_bed->path, from->path, sizeof from->path);
    memcpy(ret_bed->url, from->url, sizeof from->url);
    ret_bed->config.path = *from->url ? ret_bed->url : ret_bed->path;
    ret_bed->config.role = STORE_COMMAND;
    if (from->kind == BED_TOY && from->backend)
        ret_bed->backend = hostile_toy(from->backend);
}

void open_other(struct bed *from, struct bed *ret_bed)
{
    bed_share(from, ret_bed);
    bed_open(ret_bed);
}

void close_other(struct bed *other)
{
    bed_close(other);
    thread_parker_fini(&other->parker);
}

struct digest key_of(uint64_t key)
{
    return digest_of(slice_make(&key, sizeof key));
}

struct store_op begin_on(uint64_t key)
{
    struct store_op op = {
        .kind = STORE_BEGIN,
        .key_hash = key_of(key),
        .arrival.tenant = SLICE("tenant"),
        .arrival.rule = SLICE("rule"),
        .arrival.key = SLICE("key"),
        .arrival.recipe = SLICE("recipe"),
        .begin = {.payload_hash = {{2}}, .target_hash = {{4}}, .lease_us = LEASE, .ttl_us = TTL}};
    random_bytes(op.begin.attempt_id, sizeof op.begin.attempt_id);
    return op;
}

struct store_op wait_on(uint64_t key)
{
    struct store_op op = begin_on(key);
    op.arrival.wait_until = CLOCK_NEVER;
    return op;
}

struct store_op write_on(uint64_t key, enum store_op_kind kind, int64_t token)
{
    return (struct store_op){.kind = kind,
                             .key_hash = key_of(key),
                             .writing.token = token,
                             .writing.final = RECORD_COMPLETE,
                             .writing.http_status = 201};
}

void submit(struct bed *bed, struct store_op *op)
{
    op->parker = &bed->parker.parker;
    store_submit(bed->store, op);
}

void await(struct bed *bed, struct store_op *op)
{
    while (!store_op_ended(op))
        if (bed->config.no_thread)
            store_step(bed->store);
        else
            bed->parker.parker.park(&bed->parker.parker, CLOCK_NEVER);
}

void run(struct bed *bed, struct store_op *op)
{
    submit(bed, op);
    await(bed, op);
}

void await_waiting(struct bed *bed, size_t n)
{
    while (store_counts(bed->store).waiting != n)
        usleep(500);
}

int64_t proceed(struct bed *bed, uint64_t key)
{
    struct store_op op = begin_on(key);
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    return op.result.record.token;
}

enum record_verdict verdict(struct bed *bed, uint64_t key)
{
    struct store_op op = begin_on(key);
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
    outcome_unref(op.result.found);
    mem_free(op.result.found_recipe);
    return op.result.verdict;
}

enum record_write finish(struct bed *bed, uint64_t key, int64_t token, const char *body)
{
    struct outcome *outcome = outcome_new(201, false, SLICE("A: b\r\n"), slice_of(body));
    assert_non_null(outcome);
    struct store_op op = write_on(key, STORE_FINISH, token);
    op.writing.outcome = outcome;
    op.writing.keeps = true;
    run(bed, &op);
    outcome_unref(outcome);
    outcome_unref(op.result.found);
    assert_int_equal(op.result.status, STORE_DONE);
    return op.result.write;
}

enum record_write act(struct bed *bed, uint64_t key, enum store_op_kind kind, int64_t token)
{
    struct store_op op = write_on(key, kind, token);
    run(bed, &op);
    outcome_unref(op.result.found);
    assert_int_equal(op.result.status, STORE_DONE);
    return op.result.write;
}

struct record look(struct bed *bed, uint64_t key)
{
    struct store_op op = {.kind = STORE_LOOK, .key_hash = key_of(key)};
    run(bed, &op);
    outcome_unref(op.result.found);
    assert_int_equal(op.result.status, STORE_DONE);
    return op.result.record;
}

static bool tally(void *argument, const struct store_row *row, enum record_lease lease)
{
    (void)lease;
    int64_t *by_status = argument;
    by_status[record_is_released(&row->record) ? RECORD_ABSENT : row->record.status]++;
    return true;
}

/* Each has a row for as long as it holds leases, with their number. */
static void check_owners(const struct bed *bed)
{
    static const char differ[] =
        "SELECT count(*) FROM (SELECT incarnation, leases FROM pawl_owner EXCEPT"
        " SELECT owner, count(*) FROM pawl_pending WHERE lease_until > 0 GROUP BY owner)";
    if (bed->kind == BED_TOY || bed->kind == BED_POSTGRES)
        return;
    assert_int_equal(bed_number(bed, differ), 0);
    assert_int_equal(bed_number(bed, "SELECT count(DISTINCT owner) FROM pawl_pending"
                                     " WHERE lease_until > 0"),
                     bed_number(bed, "SELECT count(*) FROM pawl_owner"));
}

size_t check_counts(struct bed *bed)
{
    int64_t n[RECORD_UNKNOWN + 1] = {0};
    struct store_list list = {.most = SIZE_MAX, .each = tally, .argument = n};
    struct store_op op = {.kind = STORE_LIST, .list = &list};
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
    struct store_counts counts = store_counts(bed->store);
    assert_int_equal(counts.pending, n[RECORD_PENDING]);
    assert_int_equal(counts.released, n[RECORD_ABSENT]);
    assert_int_equal(counts.complete, n[RECORD_COMPLETE]);
    assert_int_equal(counts.failed, n[RECORD_FAILED]);
    assert_int_equal(counts.unknown, n[RECORD_UNKNOWN]);
    check_owners(bed);
    return (size_t)(counts.pending + counts.released + counts.complete + counts.failed +
                    counts.unknown);
}

/* Tables have no prefix there, but a schema. */
static int64_t ask_postgres(const struct bed *bed, const char *sql)
{
    PGconn *conn = PQconnectdb(bed->url);
    PQclear(PQexec(conn, "SET search_path = pawl; SET client_min_messages = warning"));
    PGresult *result = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(conn));
    int64_t number = PQntuples(result) > 0 ? strtoll(PQgetvalue(result, 0, 0), NULL, 10) : 0;
    PQclear(result);
    PQfinish(conn);
    return number;
}

void bed_exec(const struct bed *bed, const char *sql)
{
    if (bed->kind == BED_POSTGRES) {
        ask_postgres(bed, sql);
        return;
    }
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(bed->path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, SHELL_BUSY_MS);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

int64_t bed_number(const struct bed *bed, const char *sql)
{
    if (bed->kind == BED_POSTGRES)
        return ask_postgres(bed, sql);
    sqlite3 *db = NULL;
    sqlite3_stmt *s = NULL;
    assert_int_equal(sqlite3_open(bed->path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, SHELL_BUSY_MS);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    int64_t number = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    sqlite3_close(db);
    return number;
}

int bed_set_up_closed(void **state)
{
    struct bed *bed = mem_zalloc(1, sizeof *bed);
    assert_non_null(bed);
    bed_init(bed, *(const enum bed_kind *)*state);
    *state = bed;
    return 0;
}

int bed_set_up(void **state)
{
    int failed = bed_set_up_closed(state);
    bed_open(*state);
    return failed;
}

int bed_set_up_by_hand(void **state)
{
    int failed = bed_set_up_closed(state);
    struct bed *bed = *state;
    bed->config.no_thread = true;
    bed_open(bed);
    return failed;
}

int bed_tear_down(void **state)
{
    bed_fini(*state);
    mem_free(*state);
    return 0;
}

/* Meson's own code for a program that had nothing to test. */
#define SKIPPED 77

int bed_run_on(enum bed_kind kind, struct CMUnitTest *tests, size_t n)
{
    static const char *const names[] = {"toy", "sqlite", "hostile", "postgres"};
    if (kind == BED_POSTGRES && !getenv("PAWL_TEST_POSTGRES"))
        return SKIPPED;
    for (size_t i = 0; i < n; i++)
        tests[i].initial_state = &kind;
    return _cmocka_run_group_tests(names[kind], tests, n, NULL, NULL);
}

/* What runs the program again for PostgreSQL alone says so. */
static bool is_for_postgres(void)
{
    return getenv("PAWL_TEST_BED") != NULL;
}

int bed_run_in_peace(struct CMUnitTest *tests, size_t n)
{
    if (is_for_postgres())
        return bed_run_on(BED_POSTGRES, tests, n);
    return bed_run_on(BED_TOY, tests, n) + bed_run_on(BED_SQLITE, tests, n);
}

int bed_run(struct CMUnitTest *tests, size_t n)
{
    if (is_for_postgres())
        return bed_run_on(BED_POSTGRES, tests, n);
    return bed_run_in_peace(tests, n) + bed_run_on(BED_HOSTILE, tests, n);
}
