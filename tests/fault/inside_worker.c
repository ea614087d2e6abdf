/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An application that has one effect under each key, on SQLite, in one transaction with the record:
 * by the C API, or by the SQL functions of the extension. For test_inside.py, which kills it.
 *
 * usage: inside_worker FILE c|EXTENSION KEY...
 *
 * Prints what each key is answered, a line each.
 */
#include <pawl/pawl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUSY_MS 60000

struct worker {
    sqlite3 *db;
    struct pawl *pawl; /* NULL: by the extension */
};

static _Noreturn void fail(const struct worker *worker, const char *what)
{
    fprintf(stderr, "inside_worker: %s: %s\n", what, sqlite3_errmsg(worker->db));
    exit(1);
}

static void run(const struct worker *worker, const char *sql)
{
    if (sqlite3_exec(worker->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail(worker, sql);
}

/* Runs a statement with its parameters; its row is what `row` says, of at most 200 bytes. */
static void ask(const struct worker *worker, const char *sql, const char *const *values, char *row)
{
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(worker->db, sql, -1, &statement, NULL) != SQLITE_OK)
        fail(worker, sql);
    for (int i = 0; values && values[i]; i++)
        sqlite3_bind_text(statement, i + 1, values[i], -1, SQLITE_STATIC);
    int code = sqlite3_step(statement);
    row[0] = 0;
    if (code == SQLITE_ROW && sqlite3_column_text(statement, 0))
        snprintf(row, 200, "%s", (const char *)sqlite3_column_text(statement, 0));
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        fail(worker, sql);
    sqlite3_finalize(statement);
}

/* What the effect is: told again to every retry. */
static void have_effect(const struct worker *worker, const char *key, char *told)
{
    char pid[24];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    ask(worker, "INSERT INTO effect(key, pid) VALUES(?1, ?2) RETURNING id || '-' || pid",
        (const char *const[]){key, pid, NULL}, told);
}

static void answer_by_c(const struct worker *worker, const char *key, char *told)
{
    const struct pawl_operation operation = {.tenant = "m1", .rule = "effects", .key = key};
    struct pawl_begun begun;
    if (pawl_begin(worker->pawl, &operation, &begun))
        fail(worker, pawl_problem(worker->pawl));
    if (begun.decision == PAWL_REPLAY) {
        snprintf(told, 200, "%s", (const char *)begun.body);
        return;
    }
    if (begun.decision != PAWL_PROCEED)
        fail(worker, pawl_decision_name(begun.decision));
    have_effect(worker, key, told);
    const struct pawl_outcome outcome = {.http_code = 201, .body = told, .body_size = strlen(told)};
    if (pawl_complete(worker->pawl, begun.token, &outcome, NULL))
        fail(worker, pawl_problem(worker->pawl));
}

static void answer_by_sql(const struct worker *worker, const char *key, char *told)
{
    char token[200];
    ask(worker,
        "SELECT CASE decision WHEN 'proceed' THEN token WHEN 'replay' THEN '=' || body END"
        " FROM pawl_begin('m1', 'effects', ?1)",
        (const char *const[]){key, NULL}, token);
    if (token[0] == '=') {
        snprintf(told, 200, "%s", token + 1);
        return;
    }
    if (token[0] == 0)
        fail(worker, "neither proceed nor replay");
    have_effect(worker, key, told);
    ask(worker, "SELECT pawl_complete(?1, 201, ?2)", (const char *const[]){token, told, NULL},
        token);
}

int main(int argc, char **argv)
{
    struct worker worker = {NULL, NULL};
    char *problem = NULL;
    if (argc < 3)
        return 2;
    if (sqlite3_open(argv[1], &worker.db) != SQLITE_OK)
        fail(&worker, argv[1]);
    sqlite3_busy_timeout(worker.db, BUSY_MS);
    sqlite3_enable_load_extension(worker.db, 1);
    bool by_c = strcmp(argv[2], "c") == 0;
    if (by_c)
        worker.pawl = pawl_on_sqlite(worker.db);
    else if (sqlite3_load_extension(worker.db, argv[2], NULL, &problem) != SQLITE_OK)
        fail(&worker, problem);
    run(&worker, "PRAGMA foreign_keys=ON; PRAGMA synchronous=NORMAL");
    for (int i = 3; i < argc; i++) {
        char told[200];
        run(&worker, "BEGIN IMMEDIATE");
        (by_c ? answer_by_c : answer_by_sql)(&worker, argv[i], told);
        run(&worker, "COMMIT");
        printf("%s\n", told);
        fflush(stdout);
    }
    pawl_free(worker.pawl);
    sqlite3_close(worker.db);
    return 0;
}
