/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which row a key names. Keys come in random order, and each would dirty a page of the index of its
 * own. So a batch appends its keys to a log (pawl_key_log), one row a batch, and memory holds what
 * the log says. At `usual` keys that run is closed: a new one fills, while the closed one goes into
 * the index (pawl_key_index) in the order of the keys, a slice a batch, many keys a page. When all
 * of it is there its rows of the log are deleted.
 *
 *      set: log, newest run       find: newest run, closed run, index: the first that says anything
 *
 * What is in the log, where the closed run ends and how far its merge has come is changed in the
 * transaction that changes the rows, and read at the start of the next one: a process that was
 * killed, a rollback and other processes leave nothing that the file does not say. The runs are a
 * copy of the log: read again as a whole after a rollback and when another process closed a run,
 * else by what was added.
 *
 * A merge takes two keys for each that is added, so a run is merged before the next one is closed.
 */
#include "base/check.h"
#include "base/crash.h"
#include "base/mem.h"
#include "store/sqlite.h"

#define MERGE_EACH 2         /* keys merged for each one added */
#define MERGE_SHARE 1024     /* of a run: less is not worth the pages it touches */
#define LOG_FIRST INT64_C(0) /* before the first row of the log */

bool sqlite_keys_init(struct sqlite_keys *keys, size_t usual)
{
    keys->usual = usual == 0 || usual > KEY_RUN_USUAL ? KEY_RUN_USUAL : usual;
    if (!key_run_init(&keys->newest))
        return false;
    if (key_run_init(&keys->closed))
        return true;
    key_run_fini(&keys->newest);
    return false;
}

void sqlite_keys_fini(struct sqlite_keys *keys)
{
    key_run_fini(&keys->newest);
    key_run_fini(&keys->closed);
}

/* ---- reading the log ---- */

static int64_t row_of(const unsigned char *entry)
{
    uint64_t row = 0;
    for (size_t i = KEY_RUN_KEY_SIZE; i < SQLITE_LOG_ENTRY_SIZE; i++)
        row = row << 8 | entry[i];
    return (int64_t)row;
}

/* One row of the log; what a run that was merged left is not looked at. */
static bool load(struct sqlite_keys *keys, int64_t seq, const unsigned char *bytes, size_t len)
{
    bool closed = seq <= keys->marks.closed;
    if (closed && keys->marks.bucket == KEY_RUN_BUCKETS)
        return true;
    if (len % SQLITE_LOG_ENTRY_SIZE != 0)
        return false;
    struct key_run *run = closed ? &keys->closed : &keys->newest;
    for (size_t at = 0; at < len; at += SQLITE_LOG_ENTRY_SIZE)
        if (!key_run_set(run, bytes + at, row_of(bytes + at)))
            return false;
    return true;
}

static enum backend_status load_after(struct sqlite_backend *sqlite, int64_t seq)
{
    sqlite3_stmt *s = sqlite_use(sqlite, SQL_LOG_READ);
    sqlite3_bind_int64(s, 1, seq);
    int code = SQLITE_ROW;
    while (code == SQLITE_ROW && (code = sqlite3_step(s)) == SQLITE_ROW) {
        const unsigned char *bytes = sqlite3_column_blob(s, 1);
        size_t len = (size_t)sqlite3_column_bytes(s, 1);
        /* A row that is not read for want of memory would be keys that are missed. */
        if (!bytes && sqlite3_errcode(sqlite->db) == SQLITE_NOMEM)
            code = SQLITE_NOMEM;
        else if (!bytes || !load(&sqlite->keys, sqlite3_column_int64(s, 0), bytes, len))
            code = SQLITE_CORRUPT;
    }
    sqlite3_reset(s);
    return sqlite_status(sqlite, code);
}

enum backend_status sqlite_keys_begin(struct sqlite_backend *sqlite,
                                      const struct sqlite_key_marks *marks)
{
    struct sqlite_keys *keys = &sqlite->keys;
    CHECK(!keys->touched && keys->n_log == 0);
    if (marks->bucket < 0 || marks->bucket > KEY_RUN_BUCKETS || marks->closed > marks->seq)
        return sqlite_status(sqlite, SQLITE_CORRUPT);
    int64_t known = keys->marks.seq;
    bool goes_on = keys->loaded && marks->closed == keys->marks.closed && marks->seq >= known;
    keys->marks = *marks;
    keys->loaded = false;
    if (!goes_on)
        key_run_clear(&keys->newest);
    if (!goes_on || marks->bucket == KEY_RUN_BUCKETS)
        key_run_clear(&keys->closed);
    enum backend_status status = BACKEND_OK;
    if (!goes_on || marks->seq > known)
        status = load_after(sqlite, goes_on ? known : LOG_FIRST);
    keys->loaded = status == BACKEND_OK;
    return status;
}

void sqlite_keys_rollback(struct sqlite_backend *sqlite)
{
    struct sqlite_keys *keys = &sqlite->keys;
    keys->loaded &= !keys->touched;
    keys->touched = false;
    keys->n_log = 0;
}

/* ---- find, set ---- */

static enum backend_status find_in_index(struct sqlite_backend *sqlite, const struct digest *key,
                                         int64_t *ret_row)
{
    sqlite3_stmt *s = sqlite_use(sqlite, SQL_KEY_FIND);
    sqlite3_bind_blob(s, 1, key->bytes, KEY_RUN_KEY_SIZE, SQLITE_STATIC);
    int code = sqlite3_step(s);
    if (code == SQLITE_ROW)
        *ret_row = sqlite3_column_int64(s, 0);
    else if (code == SQLITE_DONE)
        *ret_row = 0;
    sqlite3_reset(s);
    return sqlite_status(sqlite, code);
}

enum backend_status sqlite_keys_find(struct sqlite_backend *sqlite, const struct digest *key,
                                     int64_t *ret_row)
{
    struct sqlite_keys *keys = &sqlite->keys;
    CHECK(keys->loaded);
    if (key_run_find(&keys->newest, key->bytes, ret_row) ||
        key_run_find(&keys->closed, key->bytes, ret_row))
        return BACKEND_OK;
    return find_in_index(sqlite, key, ret_row);
}

/* Appends what was set since to the log. */
static enum backend_status write_log(struct sqlite_backend *sqlite)
{
    struct sqlite_keys *keys = &sqlite->keys;
    if (keys->n_log == 0)
        return BACKEND_OK;
    sqlite3_stmt *s = sqlite_use(sqlite, SQL_LOG_ADD);
    sqlite3_bind_int64(s, 1, ++keys->marks.seq);
    sqlite3_bind_blob64(s, 2, keys->log, keys->n_log * SQLITE_LOG_ENTRY_SIZE, SQLITE_STATIC);
    bool merging = keys->marks.bucket < KEY_RUN_BUCKETS;
    keys->owed = merging ? keys->owed + MERGE_EACH * keys->n_log : 0;
    keys->n_log = 0;
    return sqlite_run(sqlite, s);
}

enum backend_status sqlite_keys_set(struct sqlite_backend *sqlite, const struct digest *key,
                                    int64_t row)
{
    struct sqlite_keys *keys = &sqlite->keys;
    CHECK(keys->loaded);
    keys->touched = true;
    enum backend_status status = BACKEND_OK;
    if (keys->n_log == SQLITE_LOG_ENTRIES)
        status = write_log(sqlite);
    if (status != BACKEND_OK)
        return status;
    /* Only a file whose marks do not fit its log lets a run grow so far. */
    if (!key_run_set(&keys->newest, key->bytes, row))
        return sqlite_status(sqlite, SQLITE_CORRUPT);
    unsigned char *entry = keys->log + keys->n_log++ * SQLITE_LOG_ENTRY_SIZE;
    memcpy(entry, key->bytes, KEY_RUN_KEY_SIZE);
    for (size_t i = SQLITE_LOG_ENTRY_SIZE; i > KEY_RUN_KEY_SIZE; i--, row >>= 8)
        entry[i - 1] = (unsigned char)row;
    return BACKEND_OK;
}

/* ---- merging ---- */

static enum backend_status merge_entry(struct sqlite_backend *sqlite,
                                       const struct key_run_entry *entry)
{
    sqlite3_stmt *s = sqlite_use(sqlite, entry->row ? SQL_KEY_SET : SQL_KEY_DELETE);
    sqlite3_bind_blob(s, 1, entry->key, KEY_RUN_KEY_SIZE, SQLITE_STATIC);
    if (entry->row)
        sqlite3_bind_int64(s, 2, entry->row);
    return sqlite_run(sqlite, s);
}

/* The closed run is in the index, and its rows of the log have said all. */
static enum backend_status end_merge(struct sqlite_backend *sqlite)
{
    key_run_clear(&sqlite->keys.closed);
    sqlite3_stmt *s = sqlite_use(sqlite, SQL_LOG_DROP);
    sqlite3_bind_int64(s, 1, sqlite->keys.marks.closed);
    return sqlite_run(sqlite, s);
}

/* Merges what is owed, by whole buckets. */
static enum backend_status merge(struct sqlite_backend *sqlite)
{
    struct sqlite_keys *keys = &sqlite->keys;
    struct sqlite_key_marks *marks = &keys->marks;
    enum backend_status status = BACKEND_OK;
    while (status == BACKEND_OK && keys->owed > 0 && marks->bucket < KEY_RUN_BUCKETS) {
        const struct key_run_entry *entry = key_run_first(&keys->closed, (size_t)marks->bucket++);
        for (; entry && status == BACKEND_OK; entry = key_run_next(&keys->closed, entry)) {
            CRASH_POINT(inside_merge);
            status = merge_entry(sqlite, entry);
            keys->owed -= keys->owed > 0;
        }
    }
    if (status == BACKEND_OK && marks->bucket == KEY_RUN_BUCKETS)
        status = end_merge(sqlite);
    return status;
}

/* Everything set so far is one run, which is to be merged. */
static void close_run(struct sqlite_keys *keys)
{
    struct key_run merged = keys->closed;
    CHECK(merged.n == 0);
    keys->closed = keys->newest;
    keys->newest = merged;
    keys->marks.closed = keys->marks.seq;
    keys->marks.bucket = 0;
    keys->owed = 0;
}

enum backend_status sqlite_keys_commit(struct sqlite_backend *sqlite)
{
    struct sqlite_keys *keys = &sqlite->keys;
    if (!keys->touched)
        return BACKEND_OK;
    enum backend_status status = write_log(sqlite);
    if (status == BACKEND_OK && keys->marks.bucket < KEY_RUN_BUCKETS &&
        keys->owed >= keys->usual / MERGE_SHARE)
        status = merge(sqlite);
    if (status == BACKEND_OK && keys->marks.bucket == KEY_RUN_BUCKETS &&
        keys->newest.n >= keys->usual)
        close_run(keys);
    return status;
}
