/* SPDX-License-Identifier: Apache-2.0 */
/* A file of an application. Its schema: the same tables as in a store of its own, and what only
 * such a file has. Made at once and as it is today: what alters a table reads the application's
 * whole schema, and fails where a view of its own is broken.
 *
 * A `serve` beside the application delivers its events (docs/decisions/0039), on a connection of
 * its own: it leaves journal mode and format as they are. */
#include "store/sqlite/sqlite.h"
#include <stdio.h>

#define WAL_MENDED 3051003 /* SQLite's version without the WAL-reset bug (sqlite.org/wal.html) */

#define TYPE_INT "INTEGER NOT NULL"
#define TYPE_LEASE TYPE_INT
#define TYPE_BYTES "BLOB NOT NULL"
#define TYPE_TEXT "TEXT NOT NULL"
#define TYPE_RARE "TEXT"
#define TYPED(kind, column, field) ", " #column " " TYPE_##kind
#define STATE_TYPED(kind, column, field) ", " #column " INTEGER NOT NULL DEFAULT 0"
#define ONCE_TYPED(kind, column, field) ", " #column " INTEGER NOT NULL DEFAULT 0"

/* pawl_lease: the leases that a COMMIT may leave: none (0), and that of a transaction for which the
 * application has foreign keys off (1). So, where it has them enforced, its COMMIT is refused while
 * a record of it has a lease: the transaction that began an operation is to end it. SQLite only
 * counts what is violated: a lease that is there from before, and is ended, would be set off
 * against one of this transaction. */
static const char schema[] =
    "CREATE TABLE pawl_state(one INTEGER PRIMARY KEY CHECK(one = 1),"
    " token INTEGER NOT NULL DEFAULT 0" SQLITE_STATE(
        STATE_TYPED) ", format INTEGER NOT NULL);"
                     "CREATE TABLE pawl_secret(one INTEGER PRIMARY KEY CHECK(one = 1), secret BLOB "
                     "NOT NULL);"
                     "CREATE TABLE pawl_lease(lease_until INTEGER PRIMARY KEY CHECK(lease_until "
                     "IN (0, 1)));"
                     "INSERT INTO pawl_lease VALUES(0), (1);"
                     "CREATE TABLE pawl_key_index(k BLOB PRIMARY KEY, id INTEGER NOT NULL) WITHOUT "
                     "ROWID;"
                     "CREATE TABLE pawl_key_log(seq INTEGER PRIMARY KEY, keys BLOB NOT NULL);"
                     "CREATE TABLE pawl_pending(id INTEGER PRIMARY KEY, status INTEGER NOT NULL,"
                     " expires_at INTEGER" SQLITE_IDENTITY(TYPED) SQLITE_CLAIM(TYPED) //
    ", once TEXT" SQLITE_CLAIM_ONCE(ONCE_TYPED)                                       //
    ", FOREIGN KEY(lease_until) REFERENCES pawl_lease DEFERRABLE INITIALLY DEFERRED);"
    "CREATE INDEX pawl_pending_idle ON pawl_pending(expires_at, quiet_at - settle_us)"
    " WHERE expires_at IS NOT NULL OR status = 4;"
    "CREATE TABLE pawl_outcome(id INTEGER PRIMARY KEY, status INTEGER NOT NULL,"
    " sweep_at INTEGER NOT NULL, result_ref TEXT, headers BLOB, body BLOB,"
    " packed INTEGER NOT NULL" SQLITE_IDENTITY(TYPED) SQLITE_FINAL(TYPED) //
    ", once TEXT" SQLITE_FINAL_ONCE(
        ONCE_TYPED) ");"
                    "CREATE INDEX pawl_outcome_sweep ON pawl_outcome(sweep_at);"
                    "CREATE TABLE pawl_bound(id INTEGER PRIMARY KEY" SQLITE_BOUND(
                        TYPED) ");"
                               "CREATE INDEX pawl_bound_holder ON pawl_bound(holder);"
                               "CREATE INDEX pawl_bound_expires ON pawl_bound(expires_at);"
                               "CREATE INDEX pawl_bound_key ON pawl_bound(key);"
                               "CREATE TABLE pawl_owner(incarnation INTEGER PRIMARY KEY, is_serve "
                               "INTEGER NOT NULL,"
                               " beat_at INTEGER NOT NULL, lease_us INTEGER NOT NULL, leases "
                               "INTEGER NOT NULL);";

bool sqlite_foreign_install(struct sqlite_backend *sqlite)
{
    char state[128];
    snprintf(state, sizeof state,
             "INSERT INTO pawl_state(one, key_bucket, format) VALUES(1, %d, %d)", KEY_RUN_BUCKETS,
             PAWL_FORMAT);
    return sqlite3_exec(sqlite->db, schema, NULL, NULL, NULL) == SQLITE_OK &&
           sqlite3_exec(sqlite->db, state, NULL, NULL, NULL) == SQLITE_OK &&
           sqlite_view_install(sqlite, SQLITE_KEYS_VIEW) == SQLITE_OK &&
           sqlite_secret_insert(sqlite) == SQLITE_OK && sqlite_tables_install(sqlite) == SQLITE_OK;
}

int sqlite_foreign_find(struct sqlite_backend *sqlite, bool *ret_there)
{
    static const char sql[] = "SELECT count(*) FROM main.sqlite_master WHERE name='pawl_state'";
    int64_t tables = 0;
    char encoding[16] = "";
    int code = sqlite_ask_number(sqlite->db, sql, &tables);
    if (code == SQLITE_OK)
        code = sqlite_ask_word(sqlite->db, "PRAGMA main.encoding", encoding, sizeof encoding);
    sqlite->is_utf16 = strcmp(encoding, "UTF-8") != 0;
    *ret_there = tables > 0;
    return code;
}

const char *sqlite_foreign_format_problem(int64_t format)
{
    return format == PAWL_FORMAT  ? NULL
           : format > PAWL_FORMAT ? "its tables are of a newer pawl; use that version"
                                  : "its tables are damaged: pawl_state.format";
}

/* Its application may change it at any time. */
int sqlite_foreign_journal(struct sqlite_backend *sqlite, bool *ret_is_good)
{
    char mode[16] = "";
    int code = sqlite_ask_word(sqlite->db, "PRAGMA main.journal_mode", mode, sizeof mode);
    sqlite->is_wal = strcmp(mode, "wal") == 0;
    bool is_weaker = sqlite->is_wal && sqlite3_libversion_number() < WAL_MENDED;
    *ret_is_good = !is_weaker || sqlite->accepts_weaker;
    struct weakness *weakness = &sqlite->backend.weakness;
    *weakness = sqlite->medium;
    if (is_weaker && weakness->kind != WEAKNESS_LOSES) {
        weakness->kind = WEAKNESS_LOSES;
        snprintf(weakness->why, sizeof weakness->why,
                 "journal_mode=WAL, where SQLite before 3.51.3 (this is %s) may damage a file "
                 "that several processes write; stop pawl and use PRAGMA journal_mode=DELETE",
                 sqlite3_libversion());
    }
    if (code == SQLITE_OK && !*ret_is_good)
        snprintf(sqlite->backend.problem, sizeof sqlite->backend.problem,
                 "%s: %s, or set accept_weaker: true", sqlite->path, weakness->why);
    return code;
}
