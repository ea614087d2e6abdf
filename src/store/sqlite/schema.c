/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crypto/random.h"
#include "store/sqlite/sqlite.h"
#include <stdio.h>

/* pawl_key, pawl_key_index since format 2: the only structure in random order, 16 bytes of a keyed
 * hash a row. pawl_pending: hot and small. pawl_outcome: appended, by id. Times are microseconds
 * since 1970; 9223372036854775807 is for ever. */
static const char schema_1[] =
    "CREATE TABLE pawl_state("
    " one INTEGER PRIMARY KEY CHECK(one = 1), token INTEGER NOT NULL, time INTEGER NOT NULL,"
    " next_row INTEGER NOT NULL, forgets INTEGER NOT NULL, serve INTEGER NOT NULL,"
    " serve_since INTEGER NOT NULL, pending INTEGER NOT NULL, complete INTEGER NOT NULL,"
    " failed INTEGER NOT NULL, unknown INTEGER NOT NULL, time_boot INTEGER NOT NULL,"
    " boot_id INTEGER NOT NULL);"
    "INSERT INTO pawl_state VALUES(1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0);"
    "CREATE TABLE pawl_secret(one INTEGER PRIMARY KEY CHECK(one = 1), secret BLOB NOT NULL);"
    "CREATE TABLE pawl_key(k BLOB PRIMARY KEY, id INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE pawl_pending("
    " id INTEGER PRIMARY KEY, key_hash BLOB NOT NULL, tenant TEXT NOT NULL, rule TEXT NOT NULL,"
    " key TEXT NOT NULL, recipe TEXT NOT NULL, payload_hash BLOB NOT NULL,"
    " target_hash BLOB NOT NULL, created_at INTEGER NOT NULL, status INTEGER NOT NULL,"
    " token INTEGER NOT NULL, attempt_id BLOB NOT NULL, attempts INTEGER NOT NULL,"
    " started_at INTEGER NOT NULL, lease_until INTEGER NOT NULL, lease_us INTEGER NOT NULL,"
    " owner INTEGER NOT NULL, owner_is_serve INTEGER NOT NULL, probing INTEGER NOT NULL,"
    " windowed INTEGER NOT NULL, unknown INTEGER NOT NULL, settle_us INTEGER NOT NULL,"
    " quiet_at INTEGER NOT NULL, ttl_us INTEGER NOT NULL, tombstone_us INTEGER NOT NULL,"
    " expires_at INTEGER);"
    "CREATE INDEX pawl_pending_live ON pawl_pending(owner) WHERE lease_until > 0;"
    "CREATE INDEX pawl_pending_expires ON pawl_pending(expires_at) WHERE expires_at IS NOT NULL;"
    "CREATE TABLE pawl_outcome("
    " id INTEGER PRIMARY KEY, key_hash BLOB NOT NULL, tenant TEXT NOT NULL, rule TEXT NOT NULL,"
    " key TEXT NOT NULL, recipe TEXT NOT NULL, payload_hash BLOB NOT NULL,"
    " target_hash BLOB NOT NULL, created_at INTEGER NOT NULL, status INTEGER NOT NULL,"
    " token INTEGER NOT NULL, attempts INTEGER NOT NULL, started_at INTEGER NOT NULL,"
    " completed_at INTEGER NOT NULL, expires_at INTEGER NOT NULL, gone_at INTEGER NOT NULL,"
    " sweep_at INTEGER NOT NULL, kept INTEGER NOT NULL, http_code INTEGER NOT NULL,"
    " result_ref TEXT, headers BLOB, body BLOB);"
    "CREATE INDEX pawl_outcome_sweep ON pawl_outcome(sweep_at);";

/* pawl_audit: what operators did to records by hand. packed: the body
 * is one zstd frame. pawl_pending_idle: unknown records by when they became so, then released ones
 * by expiry; one index for both, because each index costs every claim. */
static const char schema_2[] =
    "CREATE TABLE pawl_audit("
    " id INTEGER PRIMARY KEY, at INTEGER NOT NULL, actor TEXT NOT NULL, act INTEGER NOT NULL,"
    " tenant TEXT NOT NULL, rule TEXT NOT NULL, key TEXT NOT NULL, token INTEGER NOT NULL,"
    " from_status INTEGER NOT NULL, to_status INTEGER NOT NULL, http_code INTEGER NOT NULL,"
    " forced INTEGER NOT NULL);"
    "ALTER TABLE pawl_outcome ADD COLUMN packed INTEGER NOT NULL DEFAULT 0;"
    "DROP INDEX pawl_pending_expires;"
    "CREATE INDEX pawl_pending_idle ON pawl_pending(expires_at, quiet_at - settle_us)"
    " WHERE expires_at IS NOT NULL OR status = 4;";

/* pawl_key_log: the keys set or taken away by each batch; they are here before they are in the
 * index (keys.c). The index has a new name, so that an older pawl which still has the
 * file open stops instead of missing what the log holds. */
static const char schema_key_log[] =
    "ALTER TABLE pawl_key RENAME TO pawl_key_index;"
    "CREATE TABLE pawl_key_log(seq INTEGER PRIMARY KEY, keys BLOB NOT NULL);"
    "ALTER TABLE pawl_state ADD COLUMN key_seq INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE pawl_state ADD COLUMN key_closed INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE pawl_state ADD COLUMN key_bucket INTEGER NOT NULL DEFAULT 65536;";

/* cause: enum record_cause. origin: core/web/origin.h. doubt: an earlier try may have had its
 * effect. Of what was released under `retry` before this column it is not known: it counts as in
 * doubt. once, pawl_bound: the second names of a record (core/once.h); the index of keys leads from
 * a once value to its row, and from a bound key to its row of pawl_bound. fingerprint:
 * core/request/fingerprint.h. */
static const char schema_4[] =
    "ALTER TABLE pawl_pending ADD COLUMN doubt INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE pawl_pending ADD COLUMN least_us INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE pawl_pending ADD COLUMN doubted_us INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE pawl_pending ADD COLUMN cause INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE pawl_pending ADD COLUMN origin TEXT;"
    "UPDATE pawl_pending SET doubt = 1 WHERE status = 4 OR probing"
    " OR (unknown = 1 AND (attempts > 1 OR lease_until = 0));"
    "ALTER TABLE pawl_state ADD COLUMN released INTEGER NOT NULL DEFAULT 0;"
    "UPDATE pawl_state SET released ="
    " (SELECT count(*) FROM pawl_pending WHERE status = 1 AND lease_until = 0);"
    "ALTER TABLE pawl_pending ADD COLUMN once TEXT;"
    "ALTER TABLE pawl_pending ADD COLUMN once_template INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE pawl_pending ADD COLUMN once_replay INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE pawl_pending ADD COLUMN once_ttl_us INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE pawl_pending ADD COLUMN once_window INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE pawl_pending ADD COLUMN fingerprint TEXT;"
    "ALTER TABLE pawl_outcome ADD COLUMN fingerprint TEXT;"
    "ALTER TABLE pawl_outcome ADD COLUMN once TEXT;"
    "ALTER TABLE pawl_outcome ADD COLUMN once_template INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE pawl_outcome ADD COLUMN once_replay INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE pawl_outcome ADD COLUMN once_ttl_us INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE pawl_outcome ADD COLUMN once_until INTEGER NOT NULL DEFAULT 0;"
    "CREATE TABLE pawl_bound("
    " id INTEGER PRIMARY KEY, holder INTEGER NOT NULL, expires_at INTEGER NOT NULL,"
    " acknowledges INTEGER NOT NULL, key_hash BLOB NOT NULL, key TEXT NOT NULL,"
    " recipe TEXT NOT NULL, payload_hash BLOB NOT NULL, target_hash BLOB NOT NULL);"
    "CREATE INDEX pawl_bound_holder ON pawl_bound(holder);"
    "CREATE INDEX pawl_bound_expires ON pawl_bound(expires_at);"
    "CREATE INDEX pawl_bound_key ON pawl_bound(key);";

/* Row ids are tokens. Those of older rows are small numbers of a counter; tokens are times in
 * microseconds since 1970, and past that counter even where no clock was ever set.
 * pawl_owner: the processes that hold leases, and how many; lease_us: the longest. What is brought
 * forward lives to the end of its lease, as it was renewed. An older pawl that still has the file
 * open knows nothing of this: without owner_is_serve its statements fail, and it stops.
 * idempotency_keys: what is provisional is in both tables, and is shown once. */
static const char schema_5[] =
    "UPDATE pawl_state SET token = max(token, next_row);"
    "ALTER TABLE pawl_state DROP COLUMN next_row;"
    "ALTER TABLE pawl_audit ADD COLUMN attempt_id BLOB NOT NULL DEFAULT x'';"
    "CREATE TABLE pawl_owner("
    " incarnation INTEGER PRIMARY KEY, is_serve INTEGER NOT NULL, beat_at INTEGER NOT NULL,"
    " lease_us INTEGER NOT NULL, leases INTEGER NOT NULL);"
    "INSERT INTO pawl_owner(incarnation, is_serve, beat_at, lease_us, leases)"
    " SELECT owner, max(owner_is_serve), max(lease_until - lease_us), max(lease_us), count(*)"
    " FROM pawl_pending WHERE lease_until > 0 GROUP BY owner;"
    "DROP INDEX pawl_pending_live;"
    "ALTER TABLE pawl_pending DROP COLUMN owner_is_serve;"
    "DROP VIEW IF EXISTS idempotency_keys;" SQLITE_KEYS_VIEW;

/* migrations[n] brings format n to n + 1. */
static const char *const migrations[PAWL_FORMAT] = {schema_1, schema_2, schema_key_log, schema_4,
                                                    schema_5};

/* What a column was added to, within a format: an older pawl, which knows nothing of it, goes on.
 * revisions[n] brings revision n to n + 1. */
#define ADD_TERM(name) "ALTER TABLE pawl_state ADD COLUMN " #name " INTEGER NOT NULL DEFAULT 0;"
static const char *const revisions[SQLITE_REVISION] = {
    "ALTER TABLE pawl_state ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;" TERMS(ADD_TERM),
    "ALTER TABLE pawl_pending ADD COLUMN hold_us INTEGER NOT NULL DEFAULT 0;",
    "ALTER TABLE pawl_pending ADD COLUMN asking INTEGER NOT NULL DEFAULT 0;"};

static int add_missing_columns(struct sqlite_backend *sqlite)
{
    int64_t there = 0, revision = 0;
    int code = sqlite_ask_number(
        sqlite->db, "SELECT count(*) FROM pragma_table_info('pawl_state') WHERE name='revision'",
        &there);
    if (code == SQLITE_OK && there)
        code = sqlite_ask_number(sqlite->db, "SELECT revision FROM pawl_state", &revision);
    if (code != SQLITE_OK || revision >= SQLITE_REVISION)
        return code;
    for (; code == SQLITE_OK && revision < SQLITE_REVISION; revision++)
        code = sqlite3_exec(sqlite->db, revisions[revision], NULL, NULL, NULL);
    char sql[64];
    snprintf(sql, sizeof sql, "UPDATE pawl_state SET revision=%d", SQLITE_REVISION);
    return code == SQLITE_OK ? sqlite3_exec(sqlite->db, sql, NULL, NULL, NULL) : code;
}

const char *sqlite_schema_check(sqlite3 *db, int64_t *ret_format)
{
    int64_t application = 0, tables = 0;
    if (sqlite_ask_number(db, "PRAGMA application_id", &application) != SQLITE_OK ||
        sqlite_ask_number(db, "PRAGMA user_version", ret_format) != SQLITE_OK ||
        sqlite_ask_number(db, "SELECT count(*) FROM sqlite_master", &tables) != SQLITE_OK)
        return sqlite3_errcode(db) == SQLITE_NOTADB
                   ? "it is not an SQLite database; choose another path"
                   : sqlite3_errmsg(db);
    if (application == 0 && *ret_format == 0 && tables == 0)
        return NULL;
    if (application != PAWL_APPLICATION_ID)
        return "it is another program's SQLite database without pawl's tables (which pawl_install "
               "makes); choose another path";
    if (*ret_format > PAWL_FORMAT)
        return "it was written by a newer pawl; run that version, or restore an older backup";
    return NULL;
}

const char *sqlite_schema_check_kept(sqlite3 *db, int64_t *ret_format)
{
    const char *problem = sqlite_schema_check(db, ret_format);
    return !problem && *ret_format == 0 ? "there is no store here: it is empty" : problem;
}

int sqlite_ask_file_size(sqlite3 *db, int64_t *ret_bytes)
{
    return sqlite_ask_number(db,
                             "SELECT (SELECT page_count FROM pragma_page_count) *"
                             " (SELECT page_size FROM pragma_page_size)",
                             ret_bytes);
}

int sqlite_secret_insert(struct sqlite_backend *sqlite)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(sqlite->db, "INSERT OR IGNORE INTO pawl_secret VALUES(1, ?1)", -1,
                                  &statement, NULL);
    if (code != SQLITE_OK)
        return code;
    unsigned char secret[DIGEST_SIZE];
    random_bytes(secret, sizeof secret);
    sqlite3_bind_blob(statement, 1, secret, sizeof secret, SQLITE_TRANSIENT);
    sqlite3_step(statement);
    return sqlite3_finalize(statement);
}

static int read_store_secret(struct sqlite_backend *sqlite)
{
    sqlite3_stmt *statement = NULL;
    int code =
        sqlite3_prepare_v2(sqlite->db, "SELECT secret FROM pawl_secret", -1, &statement, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    if (code == SQLITE_ROW && sqlite3_column_bytes(statement, 0) == DIGEST_SIZE)
        memcpy(sqlite->backend.secret, sqlite3_column_blob(statement, 0), DIGEST_SIZE);
    else if (code == SQLITE_ROW || code == SQLITE_DONE)
        code = SQLITE_CORRUPT;
    sqlite3_finalize(statement);
    return code == SQLITE_ROW ? SQLITE_OK : code;
}

static const char *migrate_schema(struct sqlite_backend *sqlite)
{
    int64_t format = 0;
    const char *problem = sqlite_schema_check(sqlite->db, &format);
    if (problem)
        return problem;
    for (int64_t n = format; n < PAWL_FORMAT; n++)
        if (sqlite3_exec(sqlite->db, migrations[n], NULL, NULL, NULL) != SQLITE_OK)
            return sqlite3_errmsg(sqlite->db);
    if (format < PAWL_FORMAT) {
        char pragmas[96];
        snprintf(pragmas, sizeof pragmas, "PRAGMA application_id=%d; PRAGMA user_version=%d",
                 PAWL_APPLICATION_ID, PAWL_FORMAT);
        if (sqlite3_exec(sqlite->db, pragmas, NULL, NULL, NULL) != SQLITE_OK ||
            sqlite_secret_insert(sqlite) != SQLITE_OK)
            return sqlite3_errmsg(sqlite->db);
    }
    int code = add_missing_columns(sqlite);
    if (code == SQLITE_DONE)
        return "its row of pawl_state is missing; restore a backup";
    return code == SQLITE_OK ? NULL : sqlite3_errmsg(sqlite->db);
}

const char *sqlite_schema_install(struct sqlite_backend *sqlite)
{
    const char *problem = sqlite->is_foreign ? NULL : migrate_schema(sqlite);
    if (problem)
        return problem;
    if (sqlite_tables_install(sqlite) != SQLITE_OK)
        return sqlite3_errmsg(sqlite->db);
    if (read_store_secret(sqlite) != SQLITE_OK)
        return "its secret is missing or damaged; restore a backup";
    return NULL;
}
