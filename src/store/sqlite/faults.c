/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sqlite/faults.h"

#ifdef PAWL_HOOKS
#include "base/check.h"
#include "base/crash.h"
#include "base/slice.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static atomic_uint armed_calls;
static atomic_int armed_error;
static atomic_long calls_left;
static atomic_bool has_fired;

/* What SQLite sees; the system's own file stands behind it in the same memory. */
struct faults_file {
    sqlite3_file file;
    bool is_main;
    bool is_wal;
};

static sqlite3_vfs *system_vfs(void)
{
    static sqlite3_vfs *found;
    if (!found)
        found = sqlite3_vfs_find(NULL);
    CHECK(found);
    return found;
}

static sqlite3_file *behind(sqlite3_file *file)
{
    return (sqlite3_file *)(void *)((struct faults_file *)(void *)file + 1);
}

static struct faults_file *faults_of(sqlite3_file *file)
{
    return (struct faults_file *)(void *)file;
}

/* SQLITE_OK: the call may go on; `code` is what its kind of I/O error is called. */
static int pass(enum sqlite_fault_calls call, int code)
{
    if (!(atomic_load(&armed_calls) & call) || atomic_load(&calls_left) <= 0 ||
        atomic_fetch_sub(&calls_left, 1) != 1)
        return SQLITE_OK;
    atomic_store(&has_fired, true);
    errno = atomic_load(&armed_error) == SQLITE_FAULT_QUOTA ? EDQUOT : EIO;
    return atomic_load(&armed_error) == SQLITE_FULL ? SQLITE_FULL : code;
}

/* ---- a file ---- */

static int faults_close(sqlite3_file *file)
{
    return behind(file)->pMethods->xClose(behind(file));
}

static int faults_read(sqlite3_file *file, void *to, int n, sqlite3_int64 at)
{
    int code = pass(SQLITE_FAULT_READ, SQLITE_IOERR_READ);
    return code ? code : behind(file)->pMethods->xRead(behind(file), to, n, at);
}

/* A process may die, and a disk fill up, in the midst of a write. */
static int faults_write(sqlite3_file *file, const void *from, int n, sqlite3_int64 at)
{
    if (faults_of(file)->is_wal || faults_of(file)->is_main)
        behind(file)->pMethods->xWrite(behind(file), from, n / 2, at);
    if (faults_of(file)->is_wal)
        CRASH_POINT(inside_commit);
    if (faults_of(file)->is_main)
        CRASH_POINT(inside_checkpoint);
    int code = pass(SQLITE_FAULT_WRITE, SQLITE_IOERR_WRITE);
    return code ? code : behind(file)->pMethods->xWrite(behind(file), from, n, at);
}

static int faults_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    int code = pass(SQLITE_FAULT_TRUNCATE, SQLITE_IOERR_TRUNCATE);
    return code ? code : behind(file)->pMethods->xTruncate(behind(file), size);
}

static int faults_sync(sqlite3_file *file, int flags)
{
    if (faults_of(file)->is_wal)
        CRASH_POINT(before_commit_sync);
    if (faults_of(file)->is_main)
        CRASH_POINT(before_checkpoint_sync);
    int code = pass(SQLITE_FAULT_SYNC, SQLITE_IOERR_FSYNC);
    return code ? code : behind(file)->pMethods->xSync(behind(file), flags);
}

static int faults_size(sqlite3_file *file, sqlite3_int64 *ret_size)
{
    return behind(file)->pMethods->xFileSize(behind(file), ret_size);
}

static int faults_lock(sqlite3_file *file, int level)
{
    return behind(file)->pMethods->xLock(behind(file), level);
}

static int faults_unlock(sqlite3_file *file, int level)
{
    return behind(file)->pMethods->xUnlock(behind(file), level);
}

static int faults_reserved(sqlite3_file *file, int *ret_reserved)
{
    return behind(file)->pMethods->xCheckReservedLock(behind(file), ret_reserved);
}

static int faults_control(sqlite3_file *file, int what, void *argument)
{
    return behind(file)->pMethods->xFileControl(behind(file), what, argument);
}

static int faults_sector(sqlite3_file *file)
{
    return behind(file)->pMethods->xSectorSize(behind(file));
}

static int faults_traits(sqlite3_file *file)
{
    return behind(file)->pMethods->xDeviceCharacteristics(behind(file));
}

static int faults_shm_map(sqlite3_file *file, int page, int size, int extend,
                          void volatile **ret_at)
{
    int code = pass(SQLITE_FAULT_READ, SQLITE_IOERR_SHMMAP);
    if (extend && page > 0 && code == SQLITE_OK)
        code = pass(SQLITE_FAULT_WRITE, SQLITE_IOERR_SHMSIZE);
    return code ? code : behind(file)->pMethods->xShmMap(behind(file), page, size, extend, ret_at);
}

static int faults_shm_lock(sqlite3_file *file, int offset, int n, int flags)
{
    return behind(file)->pMethods->xShmLock(behind(file), offset, n, flags);
}

static void faults_shm_barrier(sqlite3_file *file)
{
    behind(file)->pMethods->xShmBarrier(behind(file));
}

static int faults_shm_unmap(sqlite3_file *file, int remove)
{
    return behind(file)->pMethods->xShmUnmap(behind(file), remove);
}

/* Version 2: nothing is read through mmap, so that every read passes here. */
static const sqlite3_io_methods faults_methods = {
    .iVersion = 2,
    .xClose = faults_close,
    .xRead = faults_read,
    .xWrite = faults_write,
    .xTruncate = faults_truncate,
    .xSync = faults_sync,
    .xFileSize = faults_size,
    .xLock = faults_lock,
    .xUnlock = faults_unlock,
    .xCheckReservedLock = faults_reserved,
    .xFileControl = faults_control,
    .xSectorSize = faults_sector,
    .xDeviceCharacteristics = faults_traits,
    .xShmMap = faults_shm_map,
    .xShmLock = faults_shm_lock,
    .xShmBarrier = faults_shm_barrier,
    .xShmUnmap = faults_shm_unmap,
};

/* ---- the VFS ---- */

static int faults_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                       int *ret_flags)
{
    (void)vfs;
    struct faults_file *self = faults_of(file);
    *self = (struct faults_file){
        .is_main = flags & SQLITE_OPEN_MAIN_DB,
        .is_wal = flags & SQLITE_OPEN_WAL,
    };
    int code = pass(SQLITE_FAULT_READ, SQLITE_CANTOPEN);
    if (code == SQLITE_OK)
        code = system_vfs()->xOpen(system_vfs(), name, behind(file), flags, ret_flags);
    if (code == SQLITE_OK)
        self->file.pMethods = &faults_methods;
    return code;
}

void sqlite_faults_install(void)
{
    static sqlite3_vfs vfs;
    if (vfs.zName)
        return;
    vfs = *system_vfs();
    vfs.zName = "pawl-faults";
    vfs.szOsFile += (int)sizeof(struct faults_file);
    vfs.pNext = NULL;
    vfs.xOpen = faults_open;
    CHECK(sqlite3_vfs_register(&vfs, 1) == SQLITE_OK);
}

void sqlite_faults_arm(unsigned calls, int error, long n)
{
    atomic_store(&calls_left, 0);
    atomic_store(&armed_calls, calls);
    atomic_store(&armed_error, error);
    atomic_store(&has_fired, false);
    atomic_store(&calls_left, n);
}

bool sqlite_faults_fired(void)
{
    return atomic_load(&has_fired);
}

static unsigned calls_named(struct slice name)
{
    static const struct {
        const char *name;
        unsigned calls;
    } known[] = {{"write", SQLITE_FAULT_WRITE},
                 {"sync", SQLITE_FAULT_SYNC},
                 {"truncate", SQLITE_FAULT_TRUNCATE},
                 {"read", SQLITE_FAULT_READ},
                 {"any", SQLITE_FAULT_ANY}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (slice_eq(name, slice_of(known[i].name)))
            return known[i].calls;
    CHECK(!"$PAWL_STORE_FAULTS names calls that exist");
    UNREACHABLE();
}

void sqlite_faults_by_environment(void)
{
    const char *text = getenv("PAWL_STORE_FAULTS");
    struct slice calls = {0}, error = {0};
    uint64_t n = 0;
    if (!text)
        return;
    sqlite_faults_install();
    if (strcmp(text, "points") == 0)
        return;
    struct slice rest = slice_cut(slice_of(text), ':', &calls);
    struct slice count = slice_cut(rest, ':', &error);
    bool full = slice_eq(error, SLICE("full"));
    CHECK(full || slice_eq(error, SLICE("io")));
    CHECK(slice_to_u64(count, INT32_MAX, &n) && n > 0);
    sqlite_faults_arm(calls_named(calls), full ? SQLITE_FULL : SQLITE_IOERR, (long)n);
}

size_t sqlite_faults_key_run(size_t otherwise)
{
    const char *text = getenv("PAWL_STORE_KEY_RUN");
    uint64_t n = 0;
    if (!text)
        return otherwise;
    CHECK(slice_to_u64(slice_of(text), INT32_MAX, &n) && n > 0);
    return (size_t)n;
}
#endif
