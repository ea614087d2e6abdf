/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sqlite/prove.h"

#include "base/buf.h"
#include "base/crypto/digest.h"
#include "base/text/percent.h"
#include "store/sqlite/sqlite.h"
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define BUSY_MS 5000

/* What the log of keys says last of each: the row of keys.c, in hexadecimal. */
#define LOGGED                                                                                     \
    "CREATE TEMP TABLE logged(k BLOB PRIMARY KEY, id TEXT NOT NULL) WITHOUT ROWID;"                \
    "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 511)"                \
    " INSERT OR REPLACE INTO logged"                                                               \
    " SELECT substr(keys, i * 24 + 1, 16), hex(substr(keys, i * 24 + 17, 8))"                      \
    " FROM pawl_key_log CROSS JOIN n WHERE i * 24 < length(keys) ORDER BY seq, i;"

/* Records that live, and that their key does not lead to. */
#define LOST                                                                                       \
    "SELECT count(*) FROM (SELECT id, substr(key_hash, 1, 16) AS k FROM pawl_pending"              \
    " WHERE status = 4 OR lease_until > 0 UNION SELECT id, substr(key_hash, 1, 16)"                \
    " FROM pawl_outcome WHERE gone_at > (SELECT time FROM pawl_state)) AS r"                       \
    " LEFT JOIN logged AS l ON l.k = r.k WHERE CASE WHEN l.k IS NULL"                              \
    " THEN NOT EXISTS(SELECT 1 FROM pawl_key_index AS x WHERE x.k = r.k AND x.id = r.id)"          \
    " ELSE l.id <> printf('%016X', r.id) END"

static bool note_problem(struct sqlite_proof *proof, const char *path, const char *what)
{
    snprintf(proof->problem, sizeof proof->problem, "%s: %s", path, what);
    return false;
}

sqlite3 *sqlite_prove_open(const char *path)
{
    struct buf name BUF_AUTO = buf_make(SIZE_MAX), log BUF_AUTO = buf_make(SIZE_MAX);
    buf_add_str(&log, path);
    buf_add(&log, "-wal", sizeof "-wal");
    buf_add_str(&name, "file:");
    for (const char *at = path; *at; at++) {
        char escape[PERCENT_SIZE];
        percent_write(*at, escape);
        bool is_plain = !strchr("%?#", *at);
        buf_add(&name, is_plain ? at : escape, is_plain ? 1 : sizeof escape);
    }
    if (buf_ok(&log) && access(log.at, F_OK) != 0)
        buf_add_str(&name, "?immutable=1");
    buf_add_char(&name, 0);
    sqlite3 *db = NULL;
    int flags =
        SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    if (!buf_ok(&name) || sqlite3_open_v2(name.at, &db, flags, NULL) != SQLITE_OK) {
        sqlite3_close(db);
        return NULL;
    }
    sqlite3_busy_timeout(db, BUSY_MS);
    return db;
}

static int identify_store(sqlite3 *db, struct sqlite_proof *proof)
{
    char secret[2 * DIGEST_SIZE + 1] = "";
    int code = sqlite_ask_word(db, "SELECT hex(secret) FROM pawl_secret", secret, sizeof secret);
    if (code != SQLITE_OK || strlen(secret) != sizeof secret - 1)
        return code == SQLITE_OK ? SQLITE_CORRUPT : code;
    struct digest identity = digest_of(slice_make(secret, sizeof secret - 1));
    hex_encode(identity.bytes, (sizeof proof->identity - 1) / 2, proof->identity);
    return code;
}

static int count_records(sqlite3 *db, struct sqlite_proof *proof)
{
    const struct {
        const char *sql;
        int64_t *to;
        bool of_today;
    } asked[] = {
        {"SELECT token FROM pawl_state", &proof->token, false},
        {"SELECT time FROM pawl_state", &proof->time, false},
        {"SELECT count(*) FROM pawl_pending WHERE status = 1 AND lease_until > 0", &proof->running,
         false},
        {"SELECT count(*) FROM pawl_pending WHERE status = 1 AND lease_until = 0", &proof->released,
         false},
        {"SELECT count(*) FROM pawl_pending WHERE status = 4", &proof->unknown, false},
        {"SELECT count(*) FROM pawl_outcome WHERE status = 2", &proof->complete, false},
        {"SELECT count(*) FROM pawl_outcome WHERE status = 3", &proof->failed, false},
        {"SELECT count(*) FROM pawl_task", &proof->tasks, true},
        {LOST, &proof->lost, true},
    };
    int code = identify_store(db, proof);
    if (code == SQLITE_OK)
        code = sqlite_ask_file_size(db, &proof->bytes);
    for (size_t i = 0; i < sizeof asked / sizeof *asked && code == SQLITE_OK; i++)
        if (proof->is_today || !asked[i].of_today)
            code = sqlite_ask_number(db, asked[i].sql, asked[i].to);
    return code;
}

/* Of one moment, where it is in use. */
static bool prove_store(sqlite3 *db, const char *path, struct sqlite_proof *proof)
{
    char whole[256] = "";
    const char *problem = sqlite_schema_check_kept(db, &proof->format);
    if (problem)
        return note_problem(proof, path, problem);
    proof->is_today = proof->format == PAWL_FORMAT;
    int code = sqlite_ask_word(db, "PRAGMA integrity_check(1)", whole, sizeof whole);
    if (code == SQLITE_OK && strcmp(whole, "ok") != 0)
        return note_problem(proof, path, whole);
    if (code == SQLITE_OK && proof->is_today)
        code = sqlite3_exec(db, LOGGED, NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = count_records(db, proof);
    if (code != SQLITE_OK)
        return note_problem(proof, path,
                            code == SQLITE_DONE || code == SQLITE_CORRUPT
                                ? "its row of pawl_state or its secret is missing or damaged"
                                : sqlite3_errmsg(db));
    if (proof->lost > 0)
        return note_problem(proof, path, "records in it are not found by their keys");
    return true;
}

bool sqlite_prove(const char *path, struct sqlite_proof *ret_proof)
{
    *ret_proof = (struct sqlite_proof){.format = 0};
    if (access(path, R_OK) != 0)
        return note_problem(ret_proof, path, strerror(errno));
    sqlite3 *db = sqlite_prove_open(path);
    if (!db)
        return note_problem(ret_proof, path, "SQLite cannot open it");
    (void)sqlite3_exec(db, "PRAGMA temp_store=MEMORY; BEGIN", NULL, NULL, NULL);
    bool is_whole = prove_store(db, path, ret_proof);
    sqlite3_close(db);
    return is_whole;
}
