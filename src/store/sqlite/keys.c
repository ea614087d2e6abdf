/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which row a key names. Keys come in random order, and each would dirty a page of the index of its
 * own. So a batch appends its keys to a log (pawl_key_log), one row a batch, and memory holds what
 * the log says. At `usual` keys, or twice as many entries where the same keys come and go, that run
 * is closed: a new one fills, while the closed one goes into
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
 * How far a merge must be follows from how full the newest run is: at half of it the closed one is
 * merged, whoever added the keys and however often a process was killed. So runs are bounded.
 *
 * In a file of an application there is no log: its writers are many processes, each of which would
 * read it anew, and a transaction of theirs is not a batch.
 *
 * A filter says of most new keys that the index does not hold them. It sees every key that enters a
 * run, by this process or from the log, and those that were in the index before in a scan, a slice
 * a batch; until that has ended the index itself is asked. When rows of the log were merged and
 * deleted that this process never saw, the filter is made anew.
 */
#include "base/check.h"
#include "base/crash.h"
#include "base/mem.h"
#include "store/sqlite/sqlite.h"
#include <stdio.h>

#define MERGE_PACE 2         /* times as fast as the newest run fills */
#define LOGGED_A_KEY 2       /* entries of the log: it comes and goes */
#define MERGE_SHARE 1024     /* of a run: less is not worth the pages it touches */
#define SCAN_SHARE 64        /* of a run: keys of the index shown to the filter in one batch */
#define LOG_FIRST INT64_C(0) /* before the first row of the log */

bool sqlite_keys_init(struct sqlite_keys *keys, size_t usual)
{
    keys->usual = usual == 0 || usual > KEY_RUN_USUAL ? KEY_RUN_USUAL : usual;
    if (!key_run_init(&keys->newest, keys->usual))
        return false;
    if (key_run_init(&keys->closed, keys->usual))
        return true;
    key_run_fini(&keys->newest);
    return false;
}

void sqlite_keys_fini(struct sqlite_keys *keys)
{
    key_run_fini(&keys->newest);
    key_run_fini(&keys->closed);
    key_filter_fini(&keys->filter);
}

static void bind_key_hash(struct sqlite_binding *binding, const unsigned char *key)
{
    sqlite_bind_bytes(binding, slice_make((const char *)key, KEY_RUN_KEY_SIZE));
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
static bool load_entries(struct sqlite_keys *keys, int64_t seq, const unsigned char *bytes,
                         size_t len)
{
    bool closed = seq <= keys->marks.closed;
    if (closed && keys->marks.bucket == KEY_RUN_BUCKETS)
        return true;
    if (len % SQLITE_LOG_ENTRY_SIZE != 0)
        return false;
    struct key_run *run = closed ? &keys->closed : &keys->newest;
    keys->newest_logged += closed ? 0 : len / SQLITE_LOG_ENTRY_SIZE;
    for (size_t at = 0; at < len; at += SQLITE_LOG_ENTRY_SIZE) {
        if (!key_run_set(run, bytes + at, row_of(bytes + at)))
            return false;
        key_filter_add(&keys->filter, bytes + at);
    }
    return true;
}

/* Rows of the log follow each other without a gap: the first one there shows whether all that the
 * filter has not seen are still in it. */
static void check_filter(struct sqlite_keys *keys, int64_t first_seq)
{
    if (first_seq > keys->filter_seq + 1 || keys->marks.seq < keys->filter_seq)
        key_filter_fini(&keys->filter);
}

static void load_after(struct sqlite_backend *sqlite, int64_t seq)
{
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_LOG_READ);
    sqlite3_stmt *s = binding.statement;
    sqlite_bind_number(&binding, seq);
    int64_t first_seq = 0;
    while (sqlite_step(&binding)) {
        if (first_seq == 0)
            first_seq = sqlite3_column_int64(s, 0);
        const unsigned char *bytes = sqlite3_column_blob(s, 1);
        size_t len = (size_t)sqlite3_column_bytes(s, 1);
        /* A row that is not read for want of memory would be keys that are missed. */
        if (!bytes && sqlite3_errcode(sqlite->db) == SQLITE_NOMEM)
            sqlite_fail(sqlite, SQLITE_NOMEM);
        else if (!bytes || !load_entries(&sqlite->keys, sqlite3_column_int64(s, 0), bytes, len))
            sqlite_fail(sqlite, SQLITE_CORRUPT);
    }
    sqlite3_reset(s);
    check_filter(&sqlite->keys, first_seq ? first_seq : sqlite->keys.marks.seq + 1);
}

void sqlite_keys_begin(struct sqlite_backend *sqlite, const struct sqlite_key_marks *marks,
                       int64_t records)
{
    struct sqlite_keys *keys = &sqlite->keys;
    if (sqlite->is_foreign) {
        keys->marks = *marks; /* as they were made: the log stays empty */
        return;
    }
    CHECK(!keys->touched && keys->n_log == 0);
    if (marks->bucket < 0 || marks->bucket > KEY_RUN_BUCKETS || marks->closed > marks->seq) {
        sqlite_fail(sqlite, SQLITE_CORRUPT);
        return;
    }
    int64_t known = keys->marks.seq;
    bool goes_on = keys->loaded && marks->closed == keys->marks.closed && marks->seq >= known;
    keys->marks = *marks;
    if (!goes_on) {
        key_run_clear(&keys->newest);
        keys->newest_logged = 0;
    }
    if (!goes_on || marks->bucket == KEY_RUN_BUCKETS)
        key_run_clear(&keys->closed);
    if (!goes_on || marks->seq > known)
        load_after(sqlite, goes_on ? known : LOG_FIRST);
    keys->loaded = sqlite_ok(sqlite);
    keys->records = records;
    if (keys->loaded)
        keys->filter_seq = keys->marks.seq;
}

void sqlite_keys_committed(struct sqlite_backend *sqlite)
{
    struct sqlite_keys *keys = &sqlite->keys;
    if (!keys->touched)
        return;
    keys->touched = false;
    keys->filter_seq = keys->marks.seq;
    memcpy(keys->scanned, keys->scan_next, sizeof keys->scanned);
    keys->filter.whole = keys->filter.words && (keys->filter.whole || keys->scan_ended);
}

void sqlite_keys_rollback(struct sqlite_backend *sqlite)
{
    struct sqlite_keys *keys = &sqlite->keys;
    keys->loaded &= !keys->touched;
    keys->touched = false;
    keys->n_log = 0;
}

/* ---- find, set ---- */

static int64_t find_in_index(struct sqlite_backend *sqlite, const unsigned char *key)
{
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_KEY_FIND);
    bind_key_hash(&binding, key);
    int64_t row = sqlite_step(&binding) ? sqlite3_column_int64(binding.statement, 0) : 0;
    sqlite3_reset(binding.statement);
    return row;
}

/* Whether that changed anything. `row` 0: the statement takes none. */
static bool put_entry(struct sqlite_backend *sqlite, enum sqlite_statement name,
                      const unsigned char *key, int64_t row)
{
    struct sqlite_binding binding = sqlite_bind(sqlite, name);
    bind_key_hash(&binding, key);
    if (row)
        sqlite_bind_number(&binding, row);
    return sqlite_change(&binding);
}

int64_t sqlite_keys_find(struct sqlite_backend *sqlite, const struct digest *key)
{
    const struct sqlite_keys *keys = &sqlite->keys;
    int64_t row = 0;
    if (sqlite->is_foreign)
        return find_in_index(sqlite, key->bytes);
    CHECK(keys->loaded);
    if (!key_run_find(&keys->newest, key->bytes, &row) &&
        !key_run_find(&keys->closed, key->bytes, &row) &&
        key_filter_may_hold(&keys->filter, key->bytes))
        row = find_in_index(sqlite, key->bytes);
    return row;
}

/* Appends what was set since to the log. */
static void write_log(struct sqlite_backend *sqlite)
{
    struct sqlite_keys *keys = &sqlite->keys;
    struct slice log = slice_make((const char *)keys->log, keys->n_log * SQLITE_LOG_ENTRY_SIZE);
    if (keys->n_log == 0)
        return;
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_LOG_ADD);
    sqlite_bind_number(&binding, ++keys->marks.seq);
    sqlite_bind_bytes(&binding, log);
    keys->n_log = 0;
    sqlite_run(&binding);
}

void sqlite_keys_set(struct sqlite_backend *sqlite, const struct digest *key, int64_t row)
{
    struct sqlite_keys *keys = &sqlite->keys;
    if (sqlite->is_foreign) {
        put_entry(sqlite, row ? SQL_KEY_SET : SQL_KEY_DELETE, key->bytes, row);
        return;
    }
    CHECK(keys->loaded);
    keys->touched = true;
    if (keys->n_log == SQLITE_LOG_ENTRIES)
        write_log(sqlite);
    /* Only a file whose marks do not fit its log lets a run grow so far. */
    if (!key_run_set(&keys->newest, key->bytes, row))
        sqlite_fail(sqlite, SQLITE_CORRUPT);
    key_filter_add(&keys->filter, key->bytes);
    keys->newest_logged++;
    unsigned char *entry = keys->log + keys->n_log++ * SQLITE_LOG_ENTRY_SIZE;
    memcpy(entry, key->bytes, KEY_RUN_KEY_SIZE);
    for (size_t i = SQLITE_LOG_ENTRY_SIZE; i > KEY_RUN_KEY_SIZE; i--, row >>= 8)
        entry[i - 1] = (unsigned char)row;
}

/* ---- merging ---- */

/* Two rows have one key, and nobody may take its record over: the store stops. Deleting the first
 * leaves no name that leads nowhere: this key leads to the second, and a value it has none. */
static void refuse_entry(struct sqlite_backend *sqlite, const struct store_row *row,
                         const struct key_run_entry *entry)
{
    enum record_status status = row->record.status;
    bool is_final = record_is_final(status);
    snprintf(sqlite->backend.problem, sizeof sqlite->backend.problem,
             "%s: records %lld and %lld have one key: it may have run twice; report this; to go on "
             "without the first, stop pawl and DELETE FROM %s WHERE id=%lld",
             sqlite->path, (long long)row->id, (long long)entry->row,
             is_final ? "pawl_outcome" : "pawl_pending", (long long)row->id);
    sqlite->status = BACKEND_FATAL;
}

/* The one look at what runs and filter said: a key is created anew only once its record is gone.
 * One that is still there was missed, and its operation may have run twice. Not so where a once
 * value keeps the row: its key is used again meanwhile, and where the value is the name that is
 * taken over. */
static void check_replaced(struct sqlite_backend *sqlite, const struct key_run_entry *entry)
{
    struct store_row row = {.record.status = RECORD_ABSENT};
    int64_t before = find_in_index(sqlite, entry->key);
    arena_reset(&sqlite->texts);
    if (!sqlite_ok(sqlite) || before == entry->row ||
        !sqlite_find_row(sqlite, before, &sqlite->texts, &row))
        return;
    if (row.record.status != RECORD_ABSENT && row.once.len == 0 &&
        memcmp(row.key_hash.bytes, entry->key, KEY_RUN_KEY_SIZE) == 0)
        refuse_entry(sqlite, &row, entry);
}

static void merge_entry(struct sqlite_backend *sqlite, const struct key_run_entry *entry)
{
    bool changed =
        put_entry(sqlite, entry->row ? SQL_KEY_ADD : SQL_KEY_DELETE, entry->key, entry->row);
    if (changed || entry->row == 0)
        return;
    check_replaced(sqlite, entry);
    put_entry(sqlite, SQL_KEY_SET, entry->key, entry->row);
}

/* The closed run is in the index, and its rows of the log have said all. */
static void end_merge(struct sqlite_backend *sqlite)
{
    key_run_clear(&sqlite->keys.closed);
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_LOG_DROP);
    sqlite_bind_number(&binding, sqlite->keys.marks.closed);
    sqlite_run(&binding);
}

/* Size of the newest run, in keys: a few keys reused often fill the log as fast as many keys used
 * once. */
static size_t newest_run_size(const struct sqlite_keys *keys)
{
    size_t by_entries = keys->newest_logged / LOGGED_A_KEY;
    return keys->newest.n > by_entries ? keys->newest.n : by_entries;
}

/* How many buckets must be merged by now. */
static int64_t merge_goal(const struct sqlite_keys *keys)
{
    uint64_t goal = MERGE_PACE * (uint64_t)newest_run_size(keys) * KEY_RUN_BUCKETS / keys->usual;
    return goal < KEY_RUN_BUCKETS ? (int64_t)goal : KEY_RUN_BUCKETS;
}

static void merge_slice(struct sqlite_backend *sqlite)
{
    struct sqlite_keys *keys = &sqlite->keys;
    struct sqlite_key_marks *marks = &keys->marks;
    int64_t goal = merge_goal(keys);
    if (goal < KEY_RUN_BUCKETS && goal - marks->bucket < KEY_RUN_BUCKETS / MERGE_SHARE)
        return;
    while (sqlite_ok(sqlite) && marks->bucket < goal) {
        const struct key_run_entry *entry = key_run_first(&keys->closed, (size_t)marks->bucket++);
        for (; entry && sqlite_ok(sqlite); entry = key_run_next(&keys->closed, entry)) {
            CRASH_POINT(inside_merge);
            merge_entry(sqlite, entry);
        }
    }
    if (sqlite_ok(sqlite) && marks->bucket == KEY_RUN_BUCKETS)
        end_merge(sqlite);
}

/* Everything set so far is one run, which is to be merged. */
static void close_run(struct sqlite_keys *keys)
{
    struct key_run merged = keys->closed;
    CHECK(merged.n == 0);
    keys->closed = keys->newest;
    keys->newest = merged;
    keys->newest_logged = 0;
    keys->marks.closed = keys->marks.seq;
    keys->marks.bucket = 0;
}

/* ---- the filter ---- */

static void show_run(struct key_filter *filter, const struct key_run *run)
{
    for (size_t i = 0; i < run->n; i++)
        key_filter_add(filter, run->entries[i].key);
}

/* Without memory there is none, and the index is asked. */
static void start_filter(struct sqlite_keys *keys)
{
    if (!key_filter_start(&keys->filter, keys->records > 0 ? (size_t)keys->records : 0))
        return;
    show_run(&keys->filter, &keys->newest);
    show_run(&keys->filter, &keys->closed);
    memset(keys->scanned, 0, sizeof keys->scanned);
}

/* Shows the filter a slice of the index, as it is once this transaction is committed. */
static void scan_index(struct sqlite_backend *sqlite)
{
    struct sqlite_keys *keys = &sqlite->keys;
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_KEY_SCAN);
    bind_key_hash(&binding, keys->scanned);
    /* The first one was the last one of the slice before. */
    const int slice = (int)(keys->usual / SCAN_SHARE) + 2;
    sqlite_bind_number(&binding, slice);
    int n = 0;
    for (; sqlite_step(&binding); n++) {
        const void *key = sqlite3_column_blob(binding.statement, 0);
        if (!key || sqlite3_column_bytes(binding.statement, 0) != KEY_RUN_KEY_SIZE) {
            sqlite_fail(sqlite, SQLITE_CORRUPT);
            break;
        }
        memcpy(keys->scan_next, key, KEY_RUN_KEY_SIZE);
        key_filter_add(&keys->filter, key);
    }
    sqlite3_reset(binding.statement);
    keys->scan_ended = sqlite_ok(sqlite) && n < slice;
}

static void tend_filter(struct sqlite_backend *sqlite)
{
    struct sqlite_keys *keys = &sqlite->keys;
    keys->scan_ended = false;
    /* A small index is in memory as it is. */
    if (keys->records < (int64_t)keys->usual && !keys->filter.words)
        return;
    if (!keys->filter.words || (keys->filter.whole && keys->filter.added > keys->filter.room))
        start_filter(keys);
    memcpy(keys->scan_next, keys->scanned, sizeof keys->scanned);
    if (keys->filter.words && !keys->filter.whole)
        scan_index(sqlite);
}

void sqlite_keys_commit(struct sqlite_backend *sqlite)
{
    struct sqlite_keys *keys = &sqlite->keys;
    if (!keys->touched || !sqlite_ok(sqlite))
        return;
    write_log(sqlite);
    if (keys->marks.bucket < KEY_RUN_BUCKETS)
        merge_slice(sqlite);
    if (!sqlite_ok(sqlite))
        return;
    if (keys->marks.bucket == KEY_RUN_BUCKETS && newest_run_size(keys) >= keys->usual)
        close_run(keys);
    tend_filter(sqlite);
}
