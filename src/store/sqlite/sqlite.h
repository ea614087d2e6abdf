/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SQLite backend, for its own files: open.c, transaction.c, rows.c (one record), kept.c (its
 * response), recent.c (those that this process wrote last), keys.c (which row a key names), names.c
 * (once values, bound keys), owners.c (leases, and whose they are), state.c (the one row of counts
 * and marks), scan.c (many records), tables.c, tables_install.c and queries.c (rows of modules),
 * vfs.c (how the write-ahead log is written), schema.c (with the figures behind it in
 * docs/decisions/0003-schema.md), statement.c.
 * foreign.c: a file of an application; guest.c: the same on a connection and in a transaction of an
 * application.
 */
#ifndef PAWL_STORE_SQLITE_H
#define PAWL_STORE_SQLITE_H

#include "base/arena.h"
#include "base/buf.h"
#include "store/backend.h"
#include "store/sqlite/api.h"
#include "store/sqlite/columns.h"
#include "store/sqlite/key_filter.h"
#include "store/sqlite/key_run.h"
#include "store/sqlite/lock.h"

#define PENDING_STATUSES "18" /* 1 << each of them */
#define FINAL_STATUSES "12"

/* Each row that is looked at, and whether it is wanted. A record is found by its own key and by one
 * bound to it, and by its once value; what is in both tables, in the second. */
#define LIST_IN(table, statuses)                                                                   \
    "SELECT id, CASE WHEN (?1 IS NULL OR tenant=?1) AND (?2 IS NULL OR rule=?2)"                   \
    " AND (?3 IS NULL OR key=?3 OR id IN (SELECT holder FROM pawl_bound WHERE key=?3))"            \
    " AND (?4=0 OR ?4 >> status & 1) AND (?7 IS NULL OR once=?7) THEN 1 END FROM " table           \
    " WHERE id > ?5 AND (?4=0 OR ?4 & " statuses ")"
#define LIST_ALL                                                                                   \
    LIST_IN("pawl_pending", PENDING_STATUSES)                                                      \
    " AND (status NOT IN (2, 3) OR id NOT IN (SELECT id FROM pawl_outcome)) UNION ALL " LIST_IN(   \
        "pawl_outcome", FINAL_STATUSES)

/* Not OR ABORT, which copies each page before the second row. Whatever fails ends the save; it does
 * not end the transaction, which may be an application's. */
#define PENDING_NEW                                                                                \
    "INSERT OR FAIL INTO pawl_pending(id, status, expires_at" CLAIM_NAMES IDENTITY_NAMES
#define PENDING_PLACES "(?, ?, ?" CLAIM_PLACES IDENTITY_PLACES ")"
#define OUTCOME_NEW                                                                                \
    "INSERT OR FAIL INTO pawl_outcome(id, status, sweep_at, result_ref, headers, body, "           \
    "packed" FINAL_NAMES IDENTITY_NAMES
#define OUTCOME_PLACES "(?, ?, ?, ?, ?, ?, ?" FINAL_PLACES IDENTITY_PLACES ")"

/* record_row_until. */
#define TEXT_OF(number) #number
#define TEXT_OF_VALUE(number) TEXT_OF(number)
#define ROW_UNTIL "max(gone_at, once_until, completed_at + " TEXT_OF_VALUE(RECORD_ROW_LEAST_US) ")"
/* When a row, or before it its body, is to go, whatever its sweep_at says: of a row that somebody
 * else wrote for ever, if its times are none. */
#define BODY_UNTIL "CASE WHEN once_replay THEN max(expires_at, once_until) ELSE expires_at END"
#define HAS_KEY_HASH "length(key_hash) = 32 AND typeof(key_hash) = 'blob'"
/* By the columns before the body: those behind it are as far away as it is long. */
#define MAY_GO                                                                                     \
    "status IN (2, 3) AND " HAS_KEY_HASH                                                           \
    " AND typeof(max(expires_at, gone_at, completed_at)) = 'integer'"                              \
    " AND min(expires_at, completed_at) >= 0 AND gone_at >= expires_at"                            \
    " AND token > 0 AND attempts > 0 AND http_code BETWEEN 0 AND 999"                              \
    " AND id NOT IN (SELECT id FROM pawl_pending)"
#define IS_DUE                                                                                     \
    MAY_GO " AND min(" BODY_UNTIL ", " ROW_UNTIL ") <= ?1"                                         \
           " AND typeof(once_until) = 'integer' AND once_until >= 0"
#define IS_EXPIRED                                                                                 \
    "expires_at <= ?1 AND expires_at IS NOT NULL AND expires_at >= 0 AND status = 1"               \
    " AND token > 0 AND attempts > 0 AND lease_until = 0 AND " HAS_KEY_HASH                        \
    " AND id NOT IN (SELECT id FROM pawl_outcome)"

/* Of a role that pawl_owner names: ?3 whether a `serve` lives, ?4 a drainer. The third kind was a
 * drainer before the last one. */
#define OWNER_IS_DEAD                                                                              \
    "CASE is_serve WHEN 1 THEN incarnation <> (SELECT serve FROM pawl_state) OR NOT ?3"            \
    " WHEN 2 THEN NOT ?4 WHEN 3 THEN 1 ELSE 0 END"

/* As many rows as one statement inserts at most: it opens tables and indexes once for all of them.
 * Those of 2, 4 and 8 rows stand behind the one of a single row. */
#define INSERT_ROWS 8
#define ROWS_2(row) row "," row
#define ROWS_4(row) ROWS_2(row) "," ROWS_2(row)
#define ROWS_8(row) ROWS_4(row) "," ROWS_4(row)

/* Every statement, prepared once: X(name, sql). */
#define SQLITE_STATEMENTS(X)                                                                       \
    X(READ, "BEGIN")                                                                               \
    X(BEGIN, "BEGIN IMMEDIATE")                                                                    \
    X(COMMIT, "COMMIT")                                                                            \
    X(ROLLBACK, "ROLLBACK")                                                                        \
    X(SAVEPOINT, "SAVEPOINT rows")                                                                 \
    X(ROLLBACK_TO, "ROLLBACK TO rows")                                                             \
    X(RELEASE, "RELEASE rows")                                                                     \
    X(CALL_SAVEPOINT, "SAVEPOINT pawl_call")                                                       \
    X(CALL_ROLLBACK_TO, "ROLLBACK TO pawl_call")                                                   \
    X(CALL_RELEASE, "RELEASE pawl_call")                                                           \
    X(DATA_VERSION, "PRAGMA data_version")                                                         \
    X(STATE_READ, "SELECT " OWN(TERMS(STATE_TERM)) "token" STATE_NAMES " FROM pawl_state")         \
    X(STATE_WRITE, "UPDATE pawl_state SET token=?" STATE_CHANGES)                                  \
    X(TERMS_WRITE, "UPDATE pawl_state SET " TERMS(STATE_TERM_SET) "one=one")                       \
    X(KEY_FIND, "SELECT id FROM pawl_key_index WHERE k=?1")                                        \
    X(KEY_ADD, "INSERT OR IGNORE INTO pawl_key_index(k, id) VALUES(?1, ?2)")                       \
    X(KEY_SET, "INSERT OR REPLACE INTO pawl_key_index(k, id) VALUES(?1, ?2)")                      \
    X(KEY_DELETE, "DELETE FROM pawl_key_index WHERE k=?1")                                         \
    X(KEY_SCAN, "SELECT k FROM pawl_key_index WHERE k >= ?1 ORDER BY k LIMIT ?2")                  \
    X(LOG_ADD, "INSERT INTO pawl_key_log(seq, keys) VALUES(?1, ?2)")                               \
    X(LOG_READ, "SELECT seq, keys FROM pawl_key_log WHERE seq > ?1 ORDER BY seq")                  \
    X(LOG_DROP, "DELETE FROM pawl_key_log WHERE seq <= ?1")                                        \
    X(PENDING_FIND, "SELECT status, expires_at" CLAIM_NAMES IDENTITY_NAMES CLAIM_ONCE_NAMES        \
                    " FROM pawl_pending WHERE id=?")                                               \
    X(PENDING_INSERT, PENDING_NEW ") VALUES" PENDING_PLACES)                                       \
    X(PENDING_INSERT_2, PENDING_NEW ") VALUES" ROWS_2(PENDING_PLACES))                             \
    X(PENDING_INSERT_4, PENDING_NEW ") VALUES" ROWS_4(PENDING_PLACES))                             \
    X(PENDING_INSERT_8, PENDING_NEW ") VALUES" ROWS_8(PENDING_PLACES))                             \
    X(PENDING_INSERT_ONCE, PENDING_NEW CLAIM_ONCE_NAMES                                            \
      ") VALUES(?, ?, ?" CLAIM_PLACES IDENTITY_PLACES CLAIM_ONCE_PLACES ")")                       \
    X(PENDING_UPDATE,                                                                              \
      "UPDATE pawl_pending SET status=?, expires_at=?" CLAIM_CHANGES CLAIM_ONCE_CHANGES            \
      " WHERE id=?")                                                                               \
    X(PENDING_HOLD, "UPDATE pawl_pending SET once=?2 WHERE id=?1")                                 \
    X(PENDING_DELETE, "DELETE FROM pawl_pending WHERE id=?1")                                      \
    X(OWNER_FIND, "SELECT is_serve, beat_at FROM pawl_owner WHERE incarnation=?1")                 \
    X(OWNER_BEAT, "UPDATE pawl_owner SET beat_at=?2 WHERE incarnation=?1")                         \
    X(OWNER_LOSE, "UPDATE pawl_owner SET is_serve=3, beat_at=?1 WHERE is_serve=2")                 \
    X(OWNER_MORE, "INSERT INTO pawl_owner(incarnation, is_serve, beat_at, lease_us, leases)"       \
                  " VALUES(?1, ?2, ?3, ?4, ?5) ON CONFLICT(incarnation) DO UPDATE SET"             \
                  " beat_at=?3, lease_us=max(lease_us, ?4), leases=leases+?5")                     \
    X(OWNER_FEWER, "UPDATE pawl_owner SET leases=leases-?2 WHERE incarnation=?1")                  \
    X(OWNER_DROP, "DELETE FROM pawl_owner WHERE incarnation=?1 AND leases<=?2")                    \
    X(WATCH, "SELECT 1 FROM pawl_pending LEFT JOIN pawl_owner ON incarnation = owner"              \
             " WHERE id=?1 AND token=?2 AND lease_until > 0 AND NOT " OWNER_IS_DEAD)               \
    X(PENDING_EXPIRED, "SELECT id, key_hash, 1, 0, once FROM pawl_pending WHERE " IS_EXPIRED       \
                       " ORDER BY expires_at LIMIT ?2")                                            \
    X(OUTCOME_FIND, "SELECT status, result_ref" FINAL_NAMES IDENTITY_NAMES FINAL_ONCE_NAMES        \
                    " FROM pawl_outcome WHERE id=?")                                               \
    X(OUTCOME_INSERT, OUTCOME_NEW ") VALUES" OUTCOME_PLACES)                                       \
    X(OUTCOME_INSERT_2, OUTCOME_NEW ") VALUES" ROWS_2(OUTCOME_PLACES))                             \
    X(OUTCOME_INSERT_4, OUTCOME_NEW ") VALUES" ROWS_4(OUTCOME_PLACES))                             \
    X(OUTCOME_INSERT_8, OUTCOME_NEW ") VALUES" ROWS_8(OUTCOME_PLACES))                             \
    X(OUTCOME_INSERT_ONCE, OUTCOME_NEW FINAL_ONCE_NAMES                                            \
      ") VALUES(?, ?, ?, ?, ?, ?, ?" FINAL_PLACES IDENTITY_PLACES FINAL_ONCE_PLACES ")")           \
    X(OUTCOME_READ,                                                                                \
      "SELECT status, http_code, headers, body, packed FROM pawl_outcome WHERE id=?1")             \
    X(OUTCOME_DELETE, "DELETE FROM pawl_outcome WHERE id=?1")                                      \
    X(OUTCOME_DUE, "SELECT id, key_hash, status, " ROW_UNTIL ", once FROM pawl_outcome"            \
                   " WHERE sweep_at <= ?1 AND " IS_DUE " ORDER BY sweep_at LIMIT ?2")              \
    X(OUTCOME_STRIP,                                                                               \
      "UPDATE pawl_outcome SET headers=NULL, body=NULL, sweep_at=" ROW_UNTIL " WHERE id=?1")       \
    X(OUTCOME_LENGTHEN,                                                                            \
      "UPDATE pawl_outcome SET sweep_at=?, kept=?, expires_at=?, gone_at=?, once_until=?"          \
      " WHERE id=?")                                                                               \
    X(BOUND_FIND, "SELECT id" BOUND_NAMES " FROM pawl_bound WHERE id=?1")                          \
    X(BOUND_INSERT, "INSERT INTO pawl_bound(id" BOUND_NAMES ") VALUES(?" BOUND_PLACES ")")         \
    X(BOUND_OF, "SELECT id, key_hash FROM pawl_bound WHERE holder=?1 LIMIT 1")                     \
    X(BOUND_DUE, "SELECT id, key_hash FROM pawl_bound WHERE expires_at BETWEEN 0 AND ?1"           \
                 " AND " HAS_KEY_HASH " ORDER BY expires_at LIMIT 1")                              \
    X(BOUND_DELETE, "DELETE FROM pawl_bound WHERE id=?1")                                          \
    X(LIST, LIST_ALL " ORDER BY id LIMIT ?6")                                                      \
    X(LIST_NEWEST, LIST_ALL " ORDER BY id DESC LIMIT ?6")                                          \
    X(STALE_COUNT,                                                                                 \
      "SELECT CAST(total(leases) AS INTEGER) FROM pawl_owner WHERE incarnation<>?1 AND"            \
      " (beat_at + lease_us <= ?2 OR " OWNER_IS_DEAD                                               \
      " OR beat_at > ?2 + " TEXT_OF_VALUE(BACKEND_BEAT_AHEAD_MOST_US) ")")                         \
    X(UNKNOWN_OLDEST, "SELECT quiet_at - settle_us FROM pawl_pending WHERE status = 4"             \
                      " AND expires_at IS NULL ORDER BY quiet_at - settle_us LIMIT 1")             \
    X(EXPIRED_COUNT, "SELECT count(*), min(at) FROM (SELECT * FROM"                                \
                     " (SELECT sweep_at AS at FROM pawl_outcome WHERE sweep_at <= ?1 AND " MAY_GO  \
                     "  ORDER BY sweep_at LIMIT ?2)"                                               \
                     " UNION ALL SELECT * FROM"                                                    \
                     " (SELECT expires_at FROM pawl_pending WHERE " IS_EXPIRED                     \
                     "  ORDER BY expires_at LIMIT ?2) LIMIT ?2)")

enum sqlite_statement {
#define X(name, sql) SQL_##name,
    SQLITE_STATEMENTS(X)
#undef X
        SQL_COUNT
};

/* SQLite's rows end at 1,000,000,000 bytes: the outcome, less what else is in its row. */
#define SQLITE_OUTCOME_MAX ((size_t)999000000)
#define SQLITE_LOG_ENTRY_SIZE 24 /* 16 bytes of key hash, the row id in 8, big-endian */
#define SQLITE_LOG_ENTRIES 512   /* in one row of the log */

/* What the file says of the whole store, in pawl_state. */
struct sqlite_state {
    int64_t token;     /* last one given out */
    int64_t time;      /* high-water mark of store time */
    int64_t time_boot; /* boot time when it was marked, in the boot `boot_id` */
    int64_t boot_id;   /* clock_boot_id */
    struct backend_counts counts;
    struct backend_holder serve;
    struct terms terms; /* of a file of our own */

    int64_t now;  /* store time of this transaction; not kept */
    int64_t boot; /* its boot time; not kept */
};

/* How far the log and its merge are, in pawl_state. */
struct sqlite_key_marks {
    int64_t seq;    /* of the last row of the log */
    int64_t closed; /* rows up to this one are being merged into the index, or have been */
    int64_t bucket; /* of that run: all before it are merged; KEY_RUN_BUCKETS: all are */
};

/* Which row a key names: what the log says, in memory, before what the index says. */
struct sqlite_keys {
    struct key_run newest; /* rows of the log after `closed` */
    size_t newest_logged;  /* entries in those rows: a key that comes and goes has many */
    struct key_run closed; /* those up to it; empty once merged */
    struct sqlite_key_marks marks;
    bool loaded;  /* the runs are what the log says */
    bool touched; /* by this transaction */
    unsigned char log[SQLITE_LOG_ENTRIES * SQLITE_LOG_ENTRY_SIZE]; /* not written yet */
    size_t n_log;
    struct key_filter filter;                  /* of the runs and the index */
    int64_t filter_seq;                        /* rows of the log it has seen */
    unsigned char scanned[KEY_RUN_KEY_SIZE];   /* the index up to this key, it has seen */
    unsigned char scan_next[KEY_RUN_KEY_SIZE]; /* the same, once this transaction is committed */
    bool scan_ended;                           /* likewise: there was no further key */
    int64_t records;                           /* in the store */
    size_t usual; /* keys at which a run is closed, or twice as many entries */
};

/* Claims that are remembered: one a row id, the later of two that share a place. */
#define SQLITE_RECENT 1024

struct sqlite_recent;

struct sqlite_file_id {
    uint64_t inode;
    uint32_t major; /* of its device */
    uint32_t minor;
};

#define SQLITE_TABLES_MAX 24

enum sqlite_table_statement {
    TABLE_SQL_INSERT,
    TABLE_SQL_ADD,
    TABLE_SQL_UPDATE,
    TABLE_SQL_TOUCH,
    TABLE_SQL_REMOVE,
    TABLE_SQL_REMOVE_CHILDREN,
    TABLE_SQL_LIST,
    TABLE_SQL_FIND,
    TABLE_SQL_SWEEP,
    TABLE_SQL_SWEEP_CHILDREN,
    TABLE_SQL_COUNT
};

/* A statement that reads by an index. */
struct sqlite_query {
    const struct table_index *index;
    unsigned shape; /* what else its text depends on */
    sqlite3_stmt *statement;
};

#define SQLITE_QUERIES_MAX 16 /* of one table; more than that are made again and again */
#define SQLITE_TABLE_SQL_MAX 32768

struct sqlite_table {
    const struct table *table;
    sqlite3_stmt *statements[TABLE_SQL_COUNT]; /* NULL: not used yet */
    struct sqlite_query queries[SQLITE_QUERIES_MAX];
    size_t n_queries;
    size_t next_query; /* to be replaced once they are that many */
};

/* New rows that are to be inserted together. */
struct sqlite_inserts {
    const struct backend_change *changes[INSERT_ROWS];
    size_t n;
};

/* What a parameter of a statement was bound to last: where that is the same number again, or no
 * value again, it stays. Most columns of a claim are what they are in the one before. */
struct sqlite_parameter {
    enum { PARAMETER_OTHER, PARAMETER_NULL, PARAMETER_NUMBER } kind;
    int64_t number;
};

struct sqlite_backend {
    struct backend backend;     /* first: the two are cast into each other */
    enum backend_status status; /* what failed first in the call under way: nothing is read or
                                   written after it, so that its callers need not look each time */
    sqlite3 *db;
    bool is_foreign;   /* the file is an application's (guest.h): its writers know no lock of ours,
                          and keys go into the index at once */
    bool is_guest;     /* so is the connection, and each transaction */
    bool is_unguarded; /* with foreign keys off, so that it may commit a lease */
    bool is_utf16;     /* as the texts of the file are */
    bool is_wal;       /* its journal mode; of a file of our own always */
    bool accepts_weaker;
    struct weakness medium; /* of what the file lies on */
    struct store_lock lock;
    char *path;
    const char *wal_path;         /* SQLite's */
    struct sqlite_file_id wal_id; /* of the log that is open */
    bool wal_lost;                /* its name leads elsewhere */
    sqlite3_stmt *statements[SQL_COUNT];
    struct sqlite_parameter *held[SQL_COUNT]; /* of a process that stays; NULL: not known */
    struct sqlite_table tables[SQLITE_TABLES_MAX];
    size_t n_tables;
    sqlite3_stmt *odd_rows;   /* of them; NULL: not used yet */
    sqlite3_stmt *tables_due; /* whether anything in them is to be swept; NULL: not used yet */
    struct sqlite_keys keys;
    struct sqlite_inserts claims; /* of the save under way */
    struct sqlite_inserts finals;
    struct sqlite_recent *recent[SQLITE_RECENT]; /* by row id */
    unsigned recent_version;                     /* of the file that they are of */
    struct sqlite_state state;                   /* as this transaction leaves it */
    int64_t boot_id;                             /* clock_boot_id; 0: not known */
    int64_t clock_offset;                        /* store time minus boot time, at the last load */
    int64_t token_seen;                          /* the highest that was committed, as seen last */
    int64_t serve;                               /* this process, once it is the store's; else 0 */
    struct backend_owner owner;    /* the last one that was looked up, not this process */
    struct backend_holder drainer; /* where that one is or was one */
    struct arena texts;            /* of the row that is swept or listed */
    int wal_pages;                 /* in the WAL after the last commit */
    int checkpoint_pages;          /* at which it is checkpointed */
    int64_t space_due;             /* boot time of the next look at free space */
    int64_t data_version;          /* at the last look; 0: not yet */
    bool maintained;               /* by this transaction: something was written */
    int64_t lock_span_us;          /* how long to wait for other processes */
};

/* A call of struct backend_ops begins, and nothing has failed in it yet; see `status`. */
static inline struct sqlite_backend *sqlite_call(struct backend *backend)
{
    struct sqlite_backend *sqlite = (struct sqlite_backend *)backend;
    sqlite->status = BACKEND_OK;
    return sqlite;
}

static inline bool sqlite_ok(const struct sqlite_backend *sqlite)
{
    return sqlite->status == BACKEND_OK;
}

/* What an SQLite result code means, noted in status and in backend.problem if it is the first
 * failure: false. */
bool sqlite_fail(struct sqlite_backend *sqlite, int code);

/* The same of a call that returns SQLITE_OK where it did not fail. */
static inline void sqlite_note(struct sqlite_backend *sqlite, int code)
{
    if (code != SQLITE_OK)
        sqlite_fail(sqlite, code);
}

/* A prepared statement whose parameters are bound one after the other, all of them: what was in
 * them before is not cleared. What could not be bound is a failure: a row with a NULL for want of
 * memory or space would be found later. */
struct sqlite_binding {
    struct sqlite_backend *sqlite;
    sqlite3_stmt *statement;
    struct sqlite_parameter *held; /* by each of its parameters; NULL: not known */
    int at;                        /* bound so far */
};

/* Prepares every statement now, and not at its first use: for a process that stays. False:
 * sqlite3_errmsg says why. */
bool sqlite_prepare_all(struct sqlite_backend *sqlite);
/* Prepares what is needed where nothing may fail any more. */
bool sqlite_prepare_rollback(struct sqlite_backend *sqlite);

/* Frees all that were prepared, when nothing runs any more. */
void sqlite_finalize_all(struct sqlite_backend *sqlite);

/* A statement to be bound, which is prepared by now; its parameters, in their order. */
struct sqlite_binding sqlite_bind(struct sqlite_backend *sqlite, enum sqlite_statement name);
void sqlite_bind_number(struct sqlite_binding *binding, int64_t number);
void sqlite_bind_null(struct sqlite_binding *binding);
/* Borrowed until the statement has run. */
void sqlite_bind_text(struct sqlite_binding *binding, struct slice text);
void sqlite_bind_bytes(struct sqlite_binding *binding, struct slice bytes);

/* The one value of a statement, outside of a call: an SQLite result code. */
int sqlite_ask_number(sqlite3 *db, const char *sql, int64_t *ret_number);
int sqlite_ask_word(sqlite3 *db, const char *sql, char *room, size_t size);

/* A column of the row under a statement, valid until its next step; `.at` NULL: NULL, or empty. */
struct slice sqlite_column_bytes(sqlite3_stmt *s, int at);
struct slice sqlite_column_text(const struct sqlite_backend *sqlite, sqlite3_stmt *s, int at);

/* Whether there is a further row; the caller resets the statement. */
bool sqlite_step(const struct sqlite_binding *binding);
/* Runs a statement that returns no row, and resets it. As sqlite_ok; whether it changed a row. */
bool sqlite_run(const struct sqlite_binding *binding);
bool sqlite_change(const struct sqlite_binding *binding);
/* The same of one without parameters. */
bool sqlite_run_named(struct sqlite_backend *sqlite, enum sqlite_statement name);

/* Finds by row id; record.status is RECORD_ABSENT when there is none. Texts go into the arena. As
 * sqlite_ok. */
bool sqlite_find_row(struct sqlite_backend *sqlite, int64_t id, struct arena *texts,
                     struct store_row *ret_row);
/* Reads the row of state and the time. BACKEND_AWAY: the row is implausible, or another `serve`
 * wrote it. */
void sqlite_read_state(struct sqlite_backend *sqlite);
/* Fills in what a load reports, after its rows were read. */
void sqlite_fill_read(struct sqlite_backend *sqlite, const struct backend_name *names, size_t n,
                      struct backend_read *ret_read);
/* Writes the row of state with what is saved; the other one follows the commit. */
void sqlite_write_state(struct sqlite_backend *sqlite, const struct backend_save *save);
void sqlite_state_committed(struct sqlite_backend *sqlite, struct backend_save *save);

/* Fills in what the name leads to. */
void sqlite_find(struct sqlite_backend *sqlite, struct backend_name *name, struct arena *arena);
/* Writes the row of a bound key alone. */
void sqlite_insert_bound(struct sqlite_backend *sqlite, const struct backend_bound *bound);
/* Deletes a row, and with it all names that lead to it. */
void sqlite_remove(struct sqlite_backend *sqlite, const struct store_row *row);

/* Remembers a row of pawl_pending as it is being written; every change of it drops it. */
void sqlite_recent_add(struct sqlite_backend *sqlite, const struct store_row *row);
void sqlite_recent_drop(struct sqlite_backend *sqlite, int64_t id);
/* Texts go into the arena. False: it is to be read. */
bool sqlite_recent_find(struct sqlite_backend *sqlite, int64_t id, struct arena *texts,
                        struct store_row *ret_row);
/* A transaction has begun: forgets all if somebody else wrote; it was committed. */
void sqlite_recent_begin(struct sqlite_backend *sqlite);
void sqlite_recent_committed(struct sqlite_backend *sqlite);
/* Forgets everything: a transaction was rolled back, or many rows changed. */
void sqlite_recent_clear(struct sqlite_backend *sqlite);

/* `usual`: keys at which a run is closed, at most KEY_RUN_USUAL; 0: that. False: no memory. */
bool sqlite_keys_init(struct sqlite_keys *keys, size_t usual);
void sqlite_keys_fini(struct sqlite_keys *keys);
/* A transaction has begun: reads what the log holds that is not known yet. `records`: how many the
 * store holds. */
void sqlite_keys_begin(struct sqlite_backend *sqlite, const struct sqlite_key_marks *marks,
                       int64_t records);
/* Before its commit: writes the log, merges a slice. Then the marks are to be written, when
 * `keys.touched` says so. */
void sqlite_keys_commit(struct sqlite_backend *sqlite);
/* The commit returned OK. */
void sqlite_keys_committed(struct sqlite_backend *sqlite);
/* It was rolled back, or nobody knows. */
void sqlite_keys_rollback(struct sqlite_backend *sqlite);
/* The row that the key names; 0: none. From now on it names `row`; 0: none. */
int64_t sqlite_keys_find(struct sqlite_backend *sqlite, const struct digest *key);
void sqlite_keys_set(struct sqlite_backend *sqlite, const struct digest *key, int64_t row);

/* transaction.c; and what of it open.c needs: remembers which log is open. */
extern const struct backend_ops sqlite_ops;
void sqlite_note_wal(struct sqlite_backend *sqlite);

/* The operations of one row and of many (backend.h). */
/* Writes what the groups say; the counts of the state follow. */
void sqlite_save_groups(struct sqlite_backend *sqlite, struct backend_group *groups);
enum backend_status sqlite_outcome(struct backend *backend, const struct store_row *row,
                                   uint64_t most, struct outcome **ret_outcome, uint64_t *ret_size);
/* Does what is due, in the open transaction. */
void sqlite_do_chores(struct sqlite_backend *sqlite, struct backend_chores *chores);
enum backend_status sqlite_list(struct backend *backend, const struct store_list *list,
                                const struct record_world *world, int64_t *ret_seen);

/* Which processes hold leases: owners.c. */
/* Leases of this process that a save begins and ends. */
struct sqlite_leases {
    int64_t taken;
    int64_t ended;
    int64_t longest_us; /* of those taken */
};
/* How long the lease of a record lasts, and whether it has lapsed. As sqlite_ok. */
bool sqlite_judge_lease(struct sqlite_backend *sqlite, struct record *record);
/* Counts what a change of a row does to leases: those of others at once, its own in `own`, which is
 * saved behind the last one. */
void sqlite_count_lease(struct sqlite_backend *sqlite, struct sqlite_leases *own,
                        const struct backend_change *change);
void sqlite_save_leases(struct sqlite_backend *sqlite, const struct sqlite_leases *own);
/* As the records say, which an operator may have deleted; at the start of a process with a role.
 * The drainers before this one are dead. */
void sqlite_register_owner(struct sqlite_backend *sqlite);
/* This process lives. Whether it holds leases: else nothing is written. */
bool sqlite_beat(struct sqlite_backend *sqlite);

/* Names beside the key (core/once.h): names.c. */
/* Whether a once value leads to this row. */
bool sqlite_is_named(const struct sqlite_backend *sqlite, const struct store_row *row,
                     const struct digest *once);
/* A once value that the row had before leads to it no more. */
void sqlite_drop_once(struct sqlite_backend *sqlite, const struct store_row *row,
                      struct slice once);
/* A key leads to the record of another one. */
void sqlite_bind_key(struct sqlite_backend *sqlite, const struct backend_bound *bound);
/* Names that still lead to the row lead nowhere any more. */
void sqlite_unname_row(struct sqlite_backend *sqlite, const struct store_row *row);
/* Deletes at most `max` bound keys whose time is over; returns how many. */
size_t sqlite_sweep_bound(struct sqlite_backend *sqlite, int64_t now, size_t max);

/* Rows of modules: tables.c. Which tables there are, NULL behind the last; makes what is not there
 * yet: an SQLite result code. */
void sqlite_tables_init(struct sqlite_backend *sqlite, const struct table *const *tables);
int sqlite_tables_install(struct sqlite_backend *sqlite);
void sqlite_tables_fini(struct sqlite_backend *sqlite);
/* Runs a CREATE VIEW IF NOT EXISTS, where nothing has its name: an SQLite result code. */
int sqlite_view_install(struct sqlite_backend *sqlite, const char *view);
/* Writes the rows that a group brings, which are first in it, or with GROUP_CONFLICT none of them.
 * The first change behind them. */
const struct backend_change *sqlite_write_rows(struct sqlite_backend *sqlite,
                                               struct backend_group *group);
/* Its columns; and the condition that one of them is set. */
void sqlite_table_names(const struct table *table, struct buf *sql);
void sqlite_table_is_set(const struct table_column *column, struct buf *sql);
struct sqlite_table *sqlite_table_find(struct sqlite_backend *sqlite, const struct table *table);
int sqlite_table_prepare(struct sqlite_backend *sqlite, const struct buf *sql,
                         sqlite3_stmt **ret_statement);
struct sqlite_binding sqlite_table_bind(struct sqlite_backend *sqlite, const struct table *table,
                                        enum sqlite_table_statement which);
void sqlite_bind_column(struct sqlite_binding *binding, const struct table_column *column,
                        const struct table_row *row);
enum backend_status sqlite_query(struct backend *backend, const struct table_query *query,
                                 int64_t now, int64_t *ret_next);
/* Looks for rows that no pawl wrote: backend.odd_rows. */
void sqlite_find_odd(struct sqlite_backend *sqlite);
/* Deletes at most `max` rows whose time is over, of all tables; returns how many. */
size_t sqlite_sweep_tables(struct sqlite_backend *sqlite, size_t max);

/* Whether the file is ours or new, before anything is changed in it. NULL: yes, with its format;
 * else one line that says what is wrong. */
const char *sqlite_schema_check(sqlite3 *db, int64_t *ret_format);
/* The same of a store that is to be read: a new file is none. */
const char *sqlite_schema_check_kept(sqlite3 *db, int64_t *ret_format);
/* Of the whole file, as this transaction sees it. Returns SQLite's code. */
int sqlite_ask_file_size(sqlite3 *db, int64_t *ret_bytes);

/* The schema, and what brings an older file to it. Runs inside a transaction. NULL: done; else one
 * line that says what is wrong with the file. */
const char *sqlite_schema_install(struct sqlite_backend *sqlite);

/* What people read of the records. An application may have a table of that name, and keeps it. */
#define SQLITE_KEYS_VIEW                                                                           \
    "CREATE VIEW IF NOT EXISTS idempotency_keys AS"                                                \
    " SELECT key, lower(hex(payload_hash)) AS payload_hash,"                                       \
    "  CASE status WHEN 1 THEN 'pending' ELSE 'unknown' END AS status,"                            \
    "  NULL AS result_ref, NULL AS http_code,"                                                     \
    "  strftime('%Y-%m-%dT%H:%M:%f', created_at / 1e6, 'unixepoch') || 'Z' AS created_at,"         \
    "  strftime('%Y-%m-%dT%H:%M:%f', CASE WHEN expires_at < 253402300799000000 THEN expires_at"    \
    "   WHEN expires_at IS NULL AND ttl_us < 253402300799000000 - created_at"                      \
    "   THEN created_at + ttl_us END / 1e6, 'unixepoch') || 'Z' AS expires_at,"                    \
    "  tenant, rule, NULL AS completed_at, lower(hex(target_hash)) AS target_hash, token, "        \
    "attempts"                                                                                     \
    " FROM pawl_pending"                                                                           \
    " WHERE status IN (1, 4) AND (expires_at IS NULL"                                              \
    "  OR expires_at > CAST(strftime('%s', 'now') AS INTEGER) * 1000000)"                          \
    " UNION ALL"                                                                                   \
    " SELECT key, lower(hex(payload_hash)),"                                                       \
    "  CASE status WHEN 2 THEN 'complete' ELSE 'failed' END, result_ref, nullif(http_code, 0),"    \
    "  strftime('%Y-%m-%dT%H:%M:%f', created_at / 1e6, 'unixepoch') || 'Z',"                       \
    "  CASE WHEN expires_at < 253402300799000000 THEN"                                             \
    "   strftime('%Y-%m-%dT%H:%M:%f', expires_at / 1e6, 'unixepoch') || 'Z' END,"                  \
    "  tenant, rule, strftime('%Y-%m-%dT%H:%M:%f', completed_at / 1e6, 'unixepoch') || 'Z',"       \
    "  lower(hex(target_hash)), token, attempts"                                                   \
    " FROM pawl_outcome"                                                                           \
    " WHERE gone_at > CAST(strftime('%s', 'now') AS INTEGER) * 1000000;"

#define SQLITE_REVISION 3 /* pawl_state.revision: columns that were added within a format */

/* Draws the secret of a new store. An SQLite result code. */
int sqlite_secret_insert(struct sqlite_backend *sqlite);

/* Makes the schema in a file of an application, in its transaction. False:
 * sqlite3_errmsg says why. */
bool sqlite_foreign_install(struct sqlite_backend *sqlite);
/* A lease that a COMMIT may leave. */
#define SQLITE_LEASE_UNGUARDED 1
/* Whether it is there, and how the file's texts are; whether the file can be written beside others
 * as its journal mode is, with `problem` where it cannot: an SQLite result code. */
int sqlite_foreign_find(struct sqlite_backend *sqlite, bool *ret_there);
int sqlite_foreign_journal(struct sqlite_backend *sqlite, bool *ret_is_good);
/* One line; NULL: it is today's. */
const char *sqlite_foreign_format_problem(int64_t format);

#define PAWL_APPLICATION_ID 0x7061776c /* "pawl" */
#define PAWL_FORMAT 5                  /* user_version */

#endif
