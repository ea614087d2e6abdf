/* SPDX-License-Identifier: Apache-2.0 */
/* The SQLite backend's file, its locks, and its transactions. */
#include "store/sqlite/sqlite.h"

#include "base/check.h"
#include "base/crash.h"
#include "base/mem.h"
#include "store/sqlite/faults.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SPACE_US CLOCK_US_PER_S /* between two looks at free space */

/* A file that could not grow, for a reason that passes. Not a failed sync: what it was to make
 * durable may be lost (contract section 2, invariant 8). */
static bool lacks_space(int code)
{
    /* What the failed call left: sqlite3_system_errno knows nothing of one inside a COMMIT. */
    bool no_room = errno == ENOSPC || errno == EDQUOT;
    return no_room && (code == SQLITE_IOERR_WRITE || code == SQLITE_IOERR_SHMSIZE);
}

enum backend_status sqlite_status(struct sqlite_backend *sqlite, int code)
{
    if (code == SQLITE_OK || code == SQLITE_DONE || code == SQLITE_ROW)
        return BACKEND_OK;
    bool no_space = lacks_space(code);
    snprintf(sqlite->backend.problem, sizeof sqlite->backend.problem, "%s: %s", sqlite->path,
             sqlite3_errstr(no_space ? SQLITE_FULL : code));
    if (no_space)
        return BACKEND_FULL;
    if (code == SQLITE_READONLY_DBMOVED)
        return BACKEND_GONE;
    switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL: /* a race for the WAL's locks */
    case SQLITE_SCHEMA:   /* somebody made an index meanwhile */
        return BACKEND_BUSY;
    case SQLITE_FULL:
        return BACKEND_FULL;
    case SQLITE_NOMEM:
        return BACKEND_NO_MEMORY;
    default:
        return BACKEND_FATAL;
    }
}

sqlite3_stmt *sqlite_use(struct sqlite_backend *sqlite, enum sqlite_statement name)
{
    sqlite3_stmt *statement = sqlite->statements[name];
    CHECK(statement);
    return statement;
}

enum backend_status sqlite_run(struct sqlite_backend *sqlite, sqlite3_stmt *statement)
{
    int code = sqlite3_step(statement);
    sqlite3_reset(statement);
    return sqlite_status(sqlite, code);
}

struct sqlite_binding sqlite_bind(struct sqlite_backend *sqlite, enum sqlite_statement name)
{
    return (struct sqlite_binding){.statement = sqlite_use(sqlite, name), .code = SQLITE_OK};
}

static void note_bound(struct sqlite_binding *binding, int code)
{
    if (binding->code == SQLITE_OK)
        binding->code = code;
}

void sqlite_bind_number(struct sqlite_binding *b, int64_t number)
{
    note_bound(b, sqlite3_bind_int64(b->statement, ++b->at, number));
}

void sqlite_bind_null(struct sqlite_binding *b)
{
    note_bound(b, sqlite3_bind_null(b->statement, ++b->at));
}

void sqlite_bind_text(struct sqlite_binding *b, struct slice text)
{
    note_bound(b, sqlite3_bind_text64(b->statement, ++b->at, text.at ? text.at : "", text.len,
                                      SQLITE_STATIC, SQLITE_UTF8));
}

void sqlite_bind_bytes(struct sqlite_binding *b, struct slice bytes)
{
    note_bound(b, sqlite3_bind_blob64(b->statement, ++b->at, bytes.at ? bytes.at : "", bytes.len,
                                      SQLITE_STATIC));
}

int sqlite_step(const struct sqlite_binding *binding)
{
    CHECK(binding->at == sqlite3_bind_parameter_count(binding->statement));
    return binding->code == SQLITE_OK ? sqlite3_step(binding->statement) : binding->code;
}

enum backend_status sqlite_run_bound(struct sqlite_backend *sqlite,
                                     const struct sqlite_binding *binding)
{
    int code = sqlite_step(binding);
    sqlite3_reset(binding->statement);
    return sqlite_status(sqlite, code);
}

static enum backend_status run(struct sqlite_backend *sqlite, enum sqlite_statement name)
{
    return sqlite_run(sqlite, sqlite_use(sqlite, name));
}

static enum backend_status lost(struct sqlite_backend *sqlite, const char *suffix,
                                const char *advice)
{
    snprintf(sqlite->backend.problem, sizeof sqlite->backend.problem,
             "%s%s was removed or replaced while in use; %s", sqlite->path, suffix, advice);
    return BACKEND_GONE;
}

/* Whether the files are those that were opened: a name may lead to another by now. */
static enum backend_status check_files(struct sqlite_backend *sqlite)
{
    int moved = 0;
    sqlite3_file_control(sqlite->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    if (moved)
        return lost(sqlite, "", "restore it and restart");
    if (sqlite->wal_lost)
        return lost(sqlite, "-wal", "restart pawl");
    if (store_lock_is_unlinked(&sqlite->lock))
        return lost(sqlite, "-pawl", "restart every pawl process that uses the store");
    return BACKEND_OK;
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

/* After a commit, before anybody is told: what stands in a log without a name is lost with this
 * process. While the name is free nobody has begun another log, and a checkpoint saves it all. */
static enum backend_status check_wal(struct sqlite_backend *sqlite)
{
    struct sqlite_file_id id, opened = sqlite->wal_id;
    bool there = find_wal(sqlite, &id);
    if (there && id.inode == opened.inode && id.major == opened.major && id.minor == opened.minor)
        return BACKEND_OK;
    sqlite->wal_lost = true;
    if (!there)
        sqlite3_wal_checkpoint_v2(sqlite->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    return check_files(sqlite);
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

static void sqlite_abandon(struct backend *backend)
{
    struct sqlite_backend *sqlite = sqlite_of(backend);
    if (!sqlite3_get_autocommit(sqlite->db))
        run(sqlite, SQL_ROLLBACK);
    sqlite_keys_rollback(sqlite);
    sqlite_recent_clear(sqlite);
    store_lock_free(&sqlite->lock);
}

/* Takes the locks, and begins. */
static enum backend_status enter(struct sqlite_backend *sqlite)
{
    enum backend_status status = check_files(sqlite);
    if (status != BACKEND_OK)
        return status;
    int locked = store_lock_take(&sqlite->lock, sqlite->lock_span_us);
    if (locked != 0) {
        snprintf(sqlite->backend.problem, sizeof sqlite->backend.problem,
                 "%s-pawl: another pawl process holds the store", sqlite->path);
        return locked == -EAGAIN ? BACKEND_BUSY : BACKEND_FATAL;
    }
    status = run(sqlite, SQL_BEGIN);
    if (status == BACKEND_OK)
        status = sqlite_read_state(sqlite);
    if (status == BACKEND_OK)
        sqlite_recent_begin(sqlite);
    else
        sqlite_abandon(&sqlite->backend);
    sqlite->maintained = false;
    return status;
}

/* On the connection of its batch: beside a second one that writes or checkpoints some versions of
 * SQLite lose what is in the log. So it costs no sync of its own. */
static enum backend_status sqlite_maintain(struct backend *backend, struct backend_chores *chores)
{
    struct sqlite_backend *sqlite = sqlite_of(backend);
    enum backend_status status = enter(sqlite);
    if (status != BACKEND_OK)
        return status;
    status = sqlite_do_chores(sqlite, chores);
    sqlite->maintained = chores->beaten || chores->swept > 0;
    if (status != BACKEND_OK)
        sqlite_abandon(backend);
    return status;
}

static enum backend_status sqlite_load(struct backend *backend, struct backend_name *names,
                                       size_t n, struct arena *arena, struct backend_read *ret_read)
{
    struct sqlite_backend *sqlite = sqlite_of(backend);
    bool entered = !sqlite3_get_autocommit(sqlite->db); /* by maintain */
    enum backend_status status = entered ? BACKEND_OK : enter(sqlite);
    if (status != BACKEND_OK)
        return status;
    status = sqlite_find(sqlite, names, n, arena);
    if (status != BACKEND_OK) {
        sqlite_abandon(backend);
        return status;
    }
    sqlite_tell_state(sqlite, names, n, ret_read);
    look_at_space(sqlite, ret_read->boot);
    return BACKEND_OK;
}

static enum backend_status commit(struct sqlite_backend *sqlite, const struct backend_save *save)
{
    CHECK(save->changed || !sqlite->keys.touched);
    enum backend_status status = sqlite_keys_commit(sqlite);
    if (save->changed && status == BACKEND_OK)
        status = sqlite_write_state(sqlite, save);
    CRASH_POINT(before_commit);
    if (status == BACKEND_OK)
        status = run(sqlite, SQL_COMMIT);
    if (status == BACKEND_OK && save->changed)
        status = check_wal(sqlite);
    return status;
}

static enum backend_status sqlite_save(struct backend *backend, struct backend_save *save)
{
    struct sqlite_backend *sqlite = sqlite_of(backend);
    enum backend_status status = save->registers ? sqlite_recount_owners(sqlite) : BACKEND_OK;
    if (status == BACKEND_OK)
        status = sqlite_save_groups(sqlite, save->groups);
    save->changed = save->registers || save->groups || sqlite->maintained;
    if (status == BACKEND_OK)
        status = commit(sqlite, save);
    if (status != BACKEND_OK) {
        sqlite_abandon(backend);
        return status;
    }
    sqlite_state_committed(sqlite, save);
    sqlite_keys_committed(sqlite);
    sqlite_recent_committed(sqlite);
    return BACKEND_OK;
}

/* Checkpoints by hand: SQLite's own automatic checkpoint swallows a failed sync. */
static enum backend_status sqlite_rest(struct backend *backend)
{
    struct sqlite_backend *sqlite = sqlite_of(backend);
    enum backend_status status = BACKEND_OK;
    if (sqlite->wal_pages >= sqlite->checkpoint_pages) {
        CRASH_POINT(before_checkpoint);
        int code =
            sqlite3_wal_checkpoint_v2(sqlite->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
        CRASH_POINT(after_checkpoint);
        backend->checkpoints++;
        status = sqlite_status(sqlite, code);
        if (status == BACKEND_BUSY)
            status = BACKEND_OK;
    }
    store_lock_free(&sqlite->lock);
    return status;
}

/* Whether another process committed since the last look. */
static enum backend_status has_changed(struct sqlite_backend *sqlite, bool *ret_changed)
{
    sqlite3_stmt *s = sqlite_use(sqlite, SQL_DATA_VERSION);
    int code = sqlite3_step(s);
    int64_t version = code == SQLITE_ROW ? sqlite3_column_int64(s, 0) : 0;
    sqlite3_reset(s);
    *ret_changed = code == SQLITE_ROW && version != sqlite->data_version;
    sqlite->data_version = version;
    return sqlite_status(sqlite, code);
}

static enum backend_status watch(struct sqlite_backend *sqlite, bool serve_alive,
                                 struct backend_watch *watched)
{
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_WATCH);
    sqlite_bind_number(&binding, watched->row);
    sqlite_bind_number(&binding, watched->token);
    sqlite_bind_number(&binding, serve_alive);
    int code = sqlite_step(&binding);
    sqlite3_reset(binding.statement);
    watched->ended = code == SQLITE_DONE;
    return sqlite_status(sqlite, code);
}

static enum backend_status sqlite_look(struct backend *backend, struct backend_watch *watches,
                                       size_t n)
{
    struct sqlite_backend *sqlite = sqlite_of(backend);
    bool changed = false;
    enum backend_status status = check_files(sqlite);
    if (status == BACKEND_OK)
        status = has_changed(sqlite, &changed);
    if (status != BACKEND_OK || !changed)
        return status;
    bool serve_alive = store_lock_life_held(&sqlite->lock);
    status = run(sqlite, SQL_READ);
    for (size_t i = 0; i < n && status == BACKEND_OK; i++)
        status = watch(sqlite, serve_alive, &watches[i]);
    if (!sqlite3_get_autocommit(sqlite->db))
        run(sqlite, SQL_ROLLBACK);
    if (status != BACKEND_OK)
        sqlite->data_version = 0; /* to be looked at again */
    return status;
}

static void sqlite_close(struct backend *backend)
{
    struct sqlite_backend *sqlite = sqlite_of(backend);
    for (int i = 0; i < SQL_COUNT; i++)
        sqlite3_finalize(sqlite->statements[i]);
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
    .close = sqlite_close,
};
