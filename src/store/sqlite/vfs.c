/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sqlite/vfs.h"

#include "base/check.h"
#include "base/mem.h"
#include <stdbool.h>
#include <string.h>

#define HELD_MAX ((size_t)124 * 1024) /* 30 frames; os_unix.c writes less than 128 KiB a call */
#define WRITE_LOCK 0                  /* of the wal-index: WAL_WRITE_LOCK in wal.c */
#define HEADER_SIZE 32                /* of a log: WAL_HDRSIZE */

struct held_file {
    sqlite3_io_methods methods; /* the system's, with some of ours */
    const sqlite3_io_methods *system;
    struct held_file *partner; /* of a database: its log; and back. NULL: there is none */
    unsigned char *bytes;      /* of a log alone */
    size_t n;
    sqlite3_int64 at; /* where they belong in the file */

    /* Of a log: what is this connection's own, from its first byte on. */
    unsigned char header[HEADER_SIZE];
    sqlite3_int64 own; /* so many bytes; 0: none, or not known */
    bool is_synced;    /* nothing was written since the last sync */
    bool is_told;      /* and what that sync made durable is in the wal-index */
};

static sqlite3_vfs *system_vfs; /* NULL: not registered yet */

static struct held_file *held_of(sqlite3_file *file)
{
    return sqlite_vfs_beside(system_vfs, file);
}

/* ---- the log ---- */

/* A log that begins anew is only known as far as it was written since. */
static void note_written(struct held_file *held, const unsigned char *from, sqlite3_int64 n,
                         sqlite3_int64 at)
{
    held->is_synced = held->is_told = false;
    if (at == 0)
        held->own = 0;
    if (at == 0 && n >= HEADER_SIZE)
        memcpy(held->header, from, HEADER_SIZE);
    if (at <= held->own && held->own < at + n)
        held->own = at + n;
}

static int write_through(sqlite3_file *file, const void *from, int n, sqlite3_int64 at)
{
    struct held_file *held = held_of(file);
    int code = held->system->xWrite(file, from, n, at);
    if (code == SQLITE_OK)
        note_written(held, from, n, at);
    else
        held->own = 0;
    return code;
}

static int write_held_bytes(sqlite3_file *file)
{
    struct held_file *held = held_of(file);
    if (held->n == 0)
        return SQLITE_OK;
    int code = write_through(file, held->bytes, (int)held->n, held->at);
    if (code == SQLITE_OK)
        held->n = 0;
    return code;
}

static int write_logged(sqlite3_file *file, const void *from, int n, sqlite3_int64 at)
{
    struct held_file *held = held_of(file);
    bool goes_on = at == held->at + (sqlite3_int64)held->n && held->n + (size_t)n <= HELD_MAX;
    int code = goes_on ? SQLITE_OK : write_held_bytes(file);
    if (code != SQLITE_OK)
        return code;
    if ((size_t)n > HELD_MAX)
        return write_through(file, from, n, at);
    if (held->n == 0)
        held->at = at;
    memcpy(held->bytes + held->n, from, (size_t)n);
    held->n += (size_t)n;
    return SQLITE_OK;
}

static int log_read(sqlite3_file *file, void *to, int n, sqlite3_int64 at)
{
    struct held_file *held = held_of(file);
    bool overlap = at < held->at + (sqlite3_int64)held->n && held->at < at + n;
    int code = overlap ? write_held_bytes(file) : SQLITE_OK;
    return code == SQLITE_OK ? held->system->xRead(file, to, n, at) : code;
}

/* Whether this connection wrote every byte of the log, and has synced it. */
static bool check_durable(sqlite3_file *file)
{
    const struct held_file *held = held_of(file);
    unsigned char header[HEADER_SIZE];
    sqlite3_int64 size = 0;
    return held->is_synced && held->is_told && held->system->xFileSize(file, &size) == SQLITE_OK &&
           size == held->own && held->system->xRead(file, header, HEADER_SIZE, 0) == SQLITE_OK &&
           memcmp(header, held->header, HEADER_SIZE) == 0;
}

static int log_sync(sqlite3_file *file, int flags)
{
    struct held_file *held = held_of(file);
    int code = write_held_bytes(file);
    if (code != SQLITE_OK || check_durable(file))
        return code;
    code = held->system->xSync(file, flags);
    held->is_synced = code == SQLITE_OK;
    return code;
}

static int log_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    int code = write_held_bytes(file);
    held_of(file)->own = 0;
    return code == SQLITE_OK ? held_of(file)->system->xTruncate(file, size) : code;
}

static int log_size(sqlite3_file *file, sqlite3_int64 *ret_size)
{
    int code = write_held_bytes(file);
    return code == SQLITE_OK ? held_of(file)->system->xFileSize(file, ret_size) : code;
}

static int log_close(sqlite3_file *file)
{
    struct held_file *held = held_of(file);
    mem_free(held->bytes);
    held->partner->partner = NULL;
    return held->system->xClose(file);
}

/* ---- the database: it has the locks of its log ---- */

static int database_shm_lock(sqlite3_file *file, int first, int n, int flags)
{
    struct held_file *held = held_of(file);
    bool ends_write = first == WRITE_LOCK && flags == (SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE);
    if (ends_write && held->partner) {
        held->partner->n = 0;
        if (!held->partner->is_told)
            held->partner->own = 0;
    }
    return held->system->xShmLock(file, first, n, flags);
}

static void database_shm_barrier(sqlite3_file *file)
{
    struct held_file *held = held_of(file);
    CHECK(!held->partner || held->partner->n == 0);
    if (held->partner)
        held->partner->is_told = held->partner->is_synced;
    held->system->xShmBarrier(file);
}

/* ---- opening ---- */

static void take_over(sqlite3_file *file, struct held_file *held)
{
    held->system = file->pMethods;
    held->methods = *file->pMethods;
    file->pMethods = &held->methods;
}

static int open_vfs_file(const char *name, sqlite3_file *file, int flags, int *ret_flags)
{
    struct held_file *held = held_of(file);
    int code = system_vfs->xOpen(system_vfs, name, file, flags, ret_flags);
    if (code != SQLITE_OK)
        return code;
    *held = (struct held_file){0};
    take_over(file, held);
    held->methods.xShmLock = database_shm_lock;
    held->methods.xShmBarrier = database_shm_barrier;
    return SQLITE_OK;
}

static int open_log(const char *name, sqlite3_file *file, int flags, int *ret_flags)
{
    struct held_file *held = held_of(file);
    unsigned char *bytes = mem_alloc(HELD_MAX);
    int code = SQLITE_NOMEM;
    if (bytes)
        code = system_vfs->xOpen(system_vfs, name, file, flags, ret_flags);
    if (code != SQLITE_OK) {
        mem_free(bytes);
        return code;
    }
    *held = (struct held_file){.bytes = bytes};
    held->partner = held_of(sqlite3_database_file_object(name));
    held->partner->partner = held;
    take_over(file, held);
    held->methods.xClose = log_close;
    held->methods.xRead = log_read;
    held->methods.xWrite = write_logged;
    held->methods.xTruncate = log_truncate;
    held->methods.xSync = log_sync;
    held->methods.xFileSize = log_size;
    return SQLITE_OK;
}

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                    int *ret_flags)
{
    (void)vfs;
    file->pMethods = NULL;
    if (flags & SQLITE_OPEN_MAIN_DB)
        return open_vfs_file(name, file, flags, ret_flags);
    if (flags & SQLITE_OPEN_WAL)
        return open_log(name, file, flags, ret_flags);
    return system_vfs->xOpen(system_vfs, name, file, flags, ret_flags);
}

const char *sqlite_vfs_name(void)
{
    static sqlite3_vfs vfs;
    if (vfs.zName)
        return vfs.zName;
    system_vfs = sqlite3_vfs_find(NULL);
    CHECK(system_vfs);
    vfs = *system_vfs;
    vfs.szOsFile = (int)(sqlite_vfs_offset(system_vfs) + sizeof(struct held_file));
    vfs.pNext = NULL;
    vfs.zName = "pawl";
    vfs.xOpen = vfs_open;
    CHECK(sqlite3_vfs_register(&vfs, 0) == SQLITE_OK);
    return vfs.zName;
}
