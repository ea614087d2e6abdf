/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the record adds to a transaction of an application on SQLite, beside the table that people
 * write by hand (INSERT the key, UPDATE it with the response: no hashes, no expiry, no second
 * identity), and beside the effect alone. Rounds of each kind in turn, in one file each.
 *
 * usage: sqlite_transactions FOLDER ROUNDS TRANSACTIONS [SYNCHRONOUS]
 *
 * One line a kind: its name, transactions a second (the median of its rounds), how much longer one
 * takes than the hand-written table's.
 */
#include "base/clock.h"
#include <inttypes.h>
#include <pawl/pawl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS_MAX 99
#define BODY "{\"id\":\"rf_1\",\"amount\":1000,\"currency\":\"eur\",\"status\":\"succeeded\"}"

enum kind { EFFECT_ALONE, BY_HAND, PAWL, KINDS };

static const char *const names[KINDS] = {"effect_alone", "by_hand", "pawl"};

/* A file, and the statements of its kind. */
struct side {
    enum kind kind;
    sqlite3 *db;
    sqlite3_stmt *begin, *commit, *effect, *claim, *finish;
    struct pawl *pawl;
    double rates[ROUNDS_MAX];
};

static _Noreturn void fail(const struct side *side, const char *what)
{
    fprintf(stderr, "sqlite_transactions: %s: %s: %s\n", names[side->kind], what,
            sqlite3_errmsg(side->db));
    exit(1);
}

static sqlite3_stmt *prepare(const struct side *side, const char *sql)
{
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v3(side->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL) !=
        SQLITE_OK)
        fail(side, sql);
    return statement;
}

static void run(const struct side *side, sqlite3_stmt *statement)
{
    int code = sqlite3_step(statement);
    sqlite3_reset(statement);
    if (code != SQLITE_DONE)
        fail(side, sqlite3_sql(statement));
}

static void open_side(struct side *side, const char *folder, const char *synchronous)
{
    char path[4096], sql[512];
    snprintf(path, sizeof path, "%s/%s.db", folder, names[side->kind]);
    snprintf(sql, sizeof sql,
             "PRAGMA journal_mode=WAL; PRAGMA synchronous=%s; PRAGMA foreign_keys=ON;"
             "CREATE TABLE refund(id INTEGER PRIMARY KEY, charge TEXT, amount INTEGER);"
             "CREATE TABLE done(key TEXT PRIMARY KEY, status TEXT NOT NULL, http_code INTEGER,"
             " body TEXT, created_at TEXT DEFAULT CURRENT_TIMESTAMP)",
             synchronous);
    if (sqlite3_open(path, &side->db) != SQLITE_OK ||
        sqlite3_exec(side->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail(side, path);
    side->begin = prepare(side, "BEGIN IMMEDIATE");
    side->commit = prepare(side, "COMMIT");
    side->effect = prepare(side, "INSERT INTO refund(charge, amount) VALUES(?1, 1000)");
    side->claim = prepare(side, "INSERT INTO done(key, status) VALUES(?1, 'pending')");
    side->finish = prepare(side, "UPDATE done SET status='complete', http_code=201, body=?2"
                                 " WHERE key=?1");
    side->pawl = pawl_on_sqlite(side->db);
}

static void claim_by_hand(const struct side *side, const char *key)
{
    sqlite3_bind_text(side->claim, 1, key, -1, SQLITE_STATIC);
    run(side, side->claim);
}

static void finish_by_hand(const struct side *side, const char *key)
{
    sqlite3_bind_text(side->finish, 1, key, -1, SQLITE_STATIC);
    sqlite3_bind_text(side->finish, 2, BODY, -1, SQLITE_STATIC);
    run(side, side->finish);
}

static int64_t begin(const struct side *side, const char *key)
{
    const struct pawl_operation operation = {.tenant = "m1", .rule = "refunds.create", .key = key};
    struct pawl_begun begun;
    if (pawl_begin(side->pawl, &operation, &begun) || begun.decision != PAWL_PROCEED)
        fail(side, pawl_problem(side->pawl));
    return begun.token;
}

static void finish(const struct side *side, int64_t token)
{
    const struct pawl_outcome outcome = {
        .http_code = 201, .body = BODY, .body_size = sizeof BODY - 1};
    if (pawl_complete(side->pawl, token, &outcome, NULL))
        fail(side, pawl_problem(side->pawl));
}

static void transact(const struct side *side, const char *key)
{
    int64_t token = 0;
    run(side, side->begin);
    if (side->kind == BY_HAND)
        claim_by_hand(side, key);
    else if (side->kind == PAWL)
        token = begin(side, key);
    sqlite3_bind_text(side->effect, 1, key, -1, SQLITE_STATIC);
    run(side, side->effect);
    if (side->kind == BY_HAND)
        finish_by_hand(side, key);
    else if (side->kind == PAWL)
        finish(side, token);
    run(side, side->commit);
}

/* Keys come in random order, as UUIDs do. */
static void run_round(struct side *side, int round, int transactions)
{
    int64_t from = clock_boot_us();
    for (int i = 0; i < transactions; i++) {
        char key[64];
        uint64_t mixed = ((uint64_t)round * (uint64_t)transactions + (uint64_t)i + 1) *
                         UINT64_C(0x9e3779b97f4a7c15);
        snprintf(key, sizeof key, "%016" PRIx64 "-0000-4000-8000", mixed);
        transact(side, key);
    }
    side->rates[round] = transactions / ((double)(clock_boot_us() - from) / 1e6);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *rates, int n)
{
    qsort(rates, (size_t)n, sizeof *rates, compare);
    return rates[n / 2];
}

int main(int argc, char **argv)
{
    struct side sides[KINDS];
    int rounds = argc > 3 ? (int)strtol(argv[2], NULL, 10) : 0;
    int transactions = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 0;
    if (rounds < 1 || rounds > ROUNDS_MAX || transactions < 1) {
        fprintf(stderr, "usage: sqlite_transactions FOLDER ROUNDS TRANSACTIONS [SYNCHRONOUS]\n");
        return 2;
    }
    for (int kind = 0; kind < KINDS; kind++) {
        sides[kind] = (struct side){.kind = (enum kind)kind};
        open_side(&sides[kind], argv[1], argc > 4 ? argv[4] : "FULL");
    }
    for (int round = 0; round < rounds; round++)
        for (int kind = 0; kind < KINDS; kind++)
            run_round(&sides[kind], round, transactions);
    double by_hand = median(sides[BY_HAND].rates, rounds);
    for (int kind = 0; kind < KINDS; kind++) {
        double rate = kind == BY_HAND ? by_hand : median(sides[kind].rates, rounds);
        printf("%s %.0f %.2f\n", names[kind], rate, by_hand / rate);
    }
    return 0;
}
