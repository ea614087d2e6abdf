/* SPDX-License-Identifier: Apache-2.0 */
/* The SQLite backend's file, its locks, and its transactions. */
#include "store/sqlite/sqlite.h"

#include "base/check.h"
#include "base/crash.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SPACE_US CLOCK_US_PER_S /* between two looks at free space */

static bool note_lost_file(struct sqlite_backend *sqlite, const char *suffix, const char *advice)
{
    snprintf(sqlite->backend.problem, sizeof sqlite->backend.problem,
             "%s%s was removed or replaced while in use; %s", sqlite->path, suffix, advice);
    sqlite->status = BACKEND_AWAY;
    return false;
}

/* Whether the files are those that were opened: a name may lead to another by now. */
static bool check_files(struct sqlite_backend *sqlite)
{
    int moved = 0;
    sqlite3_file_control(sqlite->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    if (moved)
        return note_lost_file(sqlite, "", "restore it and restart");
    if (sqlite->wal_lost)
        return note_lost_file(sqlite, "-wal", "restart pawl");
    if (store_lock_is_unlinked(&sqlite->lock))
        return note_lost_file(sqlite, "-pawl", "restart every pawl process that uses the store");
    return true;
}

/* By which file the log's name leads to. Not by stat: it asks for the times too, and a file whose
 * times were asked for writes its inode with the next sync (Linux 6.13 and later). */
static bool find_wal(const struct sqlite_backend *sqlite, struct sqlite_file_id *ret_id)
{
    struct statx info = {0};
    *ret_id = (struct sqlite_file_id){0};
    if (statx(AT_FDCWD, sqlite->wal_path, 0, STATX_INO, &info) != 0)
        return false;
    *ret_id = (struct sqlite_file_id){info.stx_ino, info.stx_dev_major, info.stx_dev_minor};
    return true;
}

void sqlite_note_wal(struct sqlite_backend *sqlite)
{
    sqlite->wal_path = sqlite3_filename_wal(sqlite3_db_filename(sqlite->db, "main"));
    find_wal(sqlite, &sqlite->wal_id);
}

/* After a commit, before it is reported: what is in a log without a name is lost with this
 * process. While the name is free nobody has begun another log, and a checkpoint saves it all. */
static void check_wal(struct sqlite_backend *sqlite)
{
    struct sqlite_file_id id, opened = sqlite->wal_id;
    if (!sqlite->is_wal)
        return;
    bool there = find_wal(sqlite, &id);
    if (there && id.inode == opened.inode && id.major == opened.major && id.minor == opened.minor)
        return;
    sqlite->wal_lost = true;
    if (!there)
        sqlite3_wal_checkpoint_v2(sqlite->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    check_files(sqlite);
}

static void look_at_space(struct sqlite_backend *sqlite, int64_t boot)
{
    struct statvfs space;
    if (boot < sqlite->space_due)
        return;
    sqlite->space_due = boot + SPACE_US;
    sqlite->backend.space = (struct backend_space){.free = UINT64_MAX};
    if (statvfs(sqlite->path, &space) == 0)
        sqlite->backend.space =
            (struct backend_space){.free = (uint64_t)space.f_bavail * space.f_frsize,
                                   .size = (uint64_t)space.f_blocks * space.f_frsize};
}

/* However much failed before. */
static void roll_back_sqlite(struct sqlite_backend *sqlite)
{
    sqlite3_stmt *s = sqlite->statements[SQL_ROLLBACK];
    if (sqlite3_get_autocommit(sqlite->db))
        return;
    sqlite3_step(s);
    sqlite3_reset(s);
}

static void sqlite_abandon(struct backend *backend)
{
    struct sqlite_backend *sqlite = (struct sqlite_backend *)backend;
    roll_back_sqlite(sqlite);
    sqlite_keys_rollback(sqlite);
    sqlite_recent_clear(sqlite);
    store_lock_free(&sqlite->lock);
}

/* What the call came to, which has abandoned where it failed. */
static enum backend_status conclude_call(struct sqlite_backend *sqlite)
{
    if (!sqlite_ok(sqlite))
        sqlite_abandon(&sqlite->backend);
    return sqlite->status;
}

static bool take_lock(struct sqlite_backend *sqlite)
{
    int locked = store_lock_take(&sqlite->lock, sqlite->lock_span_us);
    if (locked == 0)
        return true;
    snprintf(sqlite->backend.problem, sizeof sqlite->backend.problem,
             "%s-pawl: another pawl process holds the store", sqlite->path);
    sqlite->status = locked == -EAGAIN ? BACKEND_BUSY : BACKEND_FATAL;
    return false;
}

/* An application may have changed that of its file since the last transaction. */
static bool check_journal(struct sqlite_backend *sqlite)
{
    bool was_wal = sqlite->is_wal, is_good = true;
    if (!sqlite->is_foreign)
        return true;
    sqlite_note(sqlite, sqlite_foreign_journal(sqlite, &is_good));
    if (sqlite_ok(sqlite) && !is_good)
        sqlite->status = BACKEND_AWAY;
    if (sqlite_ok(sqlite) && sqlite->is_wal && !was_wal)
        sqlite_note_wal(sqlite);
    return sqlite_ok(sqlite);
}

/* Takes the locks, and begins. False: it took none, or has abandoned. */
static bool enter_transaction(struct sqlite_backend *sqlite)
{
    if (!check_files(sqlite) || !take_lock(sqlite))
        return false;
    sqlite->maintained = false;
    if (sqlite_run_named(sqlite, SQL_BEGIN) && check_journal(sqlite))
        sqlite_read_state(sqlite);
    if (sqlite_ok(sqlite))
        sqlite_recent_begin(sqlite);
    return conclude_call(sqlite) == BACKEND_OK;
}

/* On the connection of its batch: beside a second one that writes or checkpoints some versions of
 * SQLite lose what is in the log. So it costs no sync of its own. */
static enum backend_status sqlite_maintain(struct backend *backend, struct backend_chores *chores)
{
    struct sqlite_backend *sqlite = sqlite_call(backend);
    if (!enter_transaction(sqlite))
        return sqlite->status;
    sqlite_do_chores(sqlite, chores);
    sqlite->maintained = chores->beaten || chores->swept > 0;
    return conclude_call(sqlite);
}

static enum backend_status sqlite_load(struct backend *backend, struct backend_name *names,
                                       size_t n, struct arena *arena, struct backend_read *ret_read)
{
    struct sqlite_backend *sqlite = sqlite_call(backend);
    bool entered = !sqlite3_get_autocommit(sqlite->db); /* by maintain */
    if (!entered && !enter_transaction(sqlite))
        return sqlite->status;
    for (size_t i = 0; i < n && sqlite_ok(sqlite); i++)
        sqlite_find(sqlite, &names[i], arena);
    if (!sqlite_ok(sqlite))
        return conclude_call(sqlite);
    sqlite_fill_read(sqlite, names, n, ret_read);
    look_at_space(sqlite, ret_read->boot);
    return BACKEND_OK;
}

static void commit_batch(struct sqlite_backend *sqlite, const struct backend_save *save)
{
    CHECK(save->changed || !sqlite->keys.touched);
    sqlite_keys_commit(sqlite);
    if (save->changed)
        sqlite_write_state(sqlite, save);
    CRASH_POINT(before_commit);
    if (sqlite_run_named(sqlite, SQL_COMMIT) && save->changed)
        check_wal(sqlite);
}

static enum backend_status sqlite_save(struct backend *backend, struct backend_save *save)
{
    struct sqlite_backend *sqlite = sqlite_call(backend);
    if (save->registers)
        sqlite_register_owner(sqlite);
    sqlite_save_groups(sqlite, save->groups);
    save->changed = save->registers || save->groups || sqlite->maintained;
    if (sqlite_ok(sqlite))
        commit_batch(sqlite, save);
    if (!sqlite_ok(sqlite))
        return conclude_call(sqlite);
    sqlite_state_committed(sqlite, save);
    sqlite_keys_committed(sqlite);
    sqlite_recent_committed(sqlite);
    return BACKEND_OK;
}

/* Checkpoints by hand: SQLite's own automatic checkpoint swallows a failed sync. */
static enum backend_status sqlite_rest(struct backend *backend)
{
    struct sqlite_backend *sqlite = sqlite_call(backend);
    if (sqlite->wal_pages >= sqlite->checkpoint_pages) {
        CRASH_POINT(before_checkpoint);
        sqlite_note(sqlite, sqlite3_wal_checkpoint_v2(sqlite->db, NULL, SQLITE_CHECKPOINT_PASSIVE,
                                                      NULL, NULL));
        CRASH_POINT(after_checkpoint);
        backend->checkpoints++;
    }
    store_lock_free(&sqlite->lock);
    return sqlite->status == BACKEND_BUSY ? BACKEND_OK : sqlite->status;
}

/* Whether another process committed since the last look. */
static bool note_change(struct sqlite_backend *sqlite)
{
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_DATA_VERSION);
    int64_t seen = sqlite->data_version;
    bool any = sqlite_step(&binding);
    sqlite->data_version = any ? sqlite3_column_int64(binding.statement, 0) : 0;
    sqlite3_reset(binding.statement);
    return any && sqlite->data_version != seen;
}

static void watch_row(struct sqlite_backend *sqlite, const bool *alive,
                      struct backend_watch *watched)
{
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_WATCH);
    sqlite_bind_number(&binding, watched->row);
    sqlite_bind_number(&binding, watched->token);
    sqlite_bind_number(&binding, alive[0]);
    sqlite_bind_number(&binding, alive[1]);
    bool held = sqlite_step(&binding);
    sqlite3_reset(binding.statement);
    watched->ended = !held && sqlite_ok(sqlite);
}

static enum backend_status sqlite_look(struct backend *backend, struct backend_watch *watches,
                                       size_t n)
{
    struct sqlite_backend *sqlite = sqlite_call(backend);
    if (!check_files(sqlite) || !note_change(sqlite))
        return sqlite->status;
    const bool alive[] = {store_lock_life_held(&sqlite->lock, STORE_SERVE),
                          store_lock_life_held(&sqlite->lock, STORE_DRAINER)};
    sqlite_run_named(sqlite, SQL_READ);
    for (size_t i = 0; i < n && sqlite_ok(sqlite); i++)
        watch_row(sqlite, alive, &watches[i]);
    roll_back_sqlite(sqlite);
    if (!sqlite_ok(sqlite))
        sqlite->data_version = 0; /* to be looked at again */
    return sqlite->status;
}

static size_t sqlite_others(struct backend *backend)
{
    struct sqlite_backend *sqlite = sqlite_call(backend);
    return (size_t)store_lock_life_held(&sqlite->lock, STORE_SERVE) +
           (size_t)store_lock_life_held(&sqlite->lock, STORE_DRAINER);
}

static void sqlite_close(struct backend *backend)
{
    struct sqlite_backend *sqlite = sqlite_call(backend);
    sqlite_finalize_all(sqlite);
    sqlite_tables_fini(sqlite);
    /* Closing may checkpoint: never beside another process that writes. */
    bool locked = sqlite->lock.fd >= 0 && store_lock_take(&sqlite->lock, sqlite->lock_span_us) == 0;
    if (sqlite->db && !locked)
        sqlite3_db_config(sqlite->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_close_v2(sqlite->db);
    if (locked)
        store_lock_free(&sqlite->lock);
    store_lock_close(&sqlite->lock);
    sqlite_keys_fini(&sqlite->keys);
    sqlite_recent_clear(sqlite);
    arena_fini(&sqlite->texts);
    mem_free(sqlite->path);
    mem_free(sqlite);
}

const struct backend_ops sqlite_ops = {
    .load = sqlite_load,
    .maintain = sqlite_maintain,
    .save = sqlite_save,
    .abandon = sqlite_abandon,
    .rest = sqlite_rest,
    .outcome = sqlite_outcome,
    .list = sqlite_list,
    .query = sqlite_query,
    .look = sqlite_look,
    .others = sqlite_others,
    .close = sqlite_close,
};
