/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sqlite/faults.h"

#ifdef PAWL_HOOKS
#include "base/check.h"
#include "base/crash.h"
#include "base/slice.h"
#include "store/sqlite/vfs.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static atomic_uint armed_calls;
static atomic_int armed_error;
static atomic_long calls_left;
static atomic_bool has_fired;

struct faults_file {
    sqlite3_io_methods methods; /* the system's, with some of ours */
    const sqlite3_io_methods *system;
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

static struct faults_file *faults_of(sqlite3_file *file)
{
    return sqlite_vfs_beside(system_vfs(), file);
}

/* SQLITE_OK: the call may go on; `code` is what its kind of I/O error is called. */
static int pass_call(enum sqlite_fault_calls call, int code)
{
    if (!(atomic_load(&armed_calls) & call) || atomic_load(&calls_left) <= 0 ||
        atomic_fetch_sub(&calls_left, 1) != 1)
        return SQLITE_OK;
    atomic_store(&has_fired, true);
    errno = atomic_load(&armed_error) == SQLITE_FAULT_QUOTA ? EDQUOT : EIO;
    return atomic_load(&armed_error) == SQLITE_FULL ? SQLITE_FULL : code;
}

/* ---- a file ---- */

static int faults_read(sqlite3_file *file, void *to, int n, sqlite3_int64 at)
{
    int code = pass_call(SQLITE_FAULT_READ, SQLITE_IOERR_READ);
    return code ? code : faults_of(file)->system->xRead(file, to, n, at);
}

/* A process may die, and a disk fill up, in the midst of a write. */
static int faults_write(sqlite3_file *file, const void *from, int n, sqlite3_int64 at)
{
    const struct faults_file *faults = faults_of(file);
    if (faults->is_wal || faults->is_main)
        faults->system->xWrite(file, from, n / 2, at);
    if (faults->is_wal)
        CRASH_POINT(inside_commit);
    if (faults->is_main)
        CRASH_POINT(inside_checkpoint);
    int code = pass_call(SQLITE_FAULT_WRITE, SQLITE_IOERR_WRITE);
    return code ? code : faults->system->xWrite(file, from, n, at);
}

static int faults_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    int code = pass_call(SQLITE_FAULT_TRUNCATE, SQLITE_IOERR_TRUNCATE);
    return code ? code : faults_of(file)->system->xTruncate(file, size);
}

static int faults_sync(sqlite3_file *file, int flags)
{
    const struct faults_file *faults = faults_of(file);
    if (faults->is_wal)
        CRASH_POINT(before_commit_sync);
    if (faults->is_main)
        CRASH_POINT(before_checkpoint_sync);
    int code = pass_call(SQLITE_FAULT_SYNC, SQLITE_IOERR_FSYNC);
    return code ? code : faults->system->xSync(file, flags);
}

static int faults_shm_map(sqlite3_file *file, int page, int size, int extend,
                          void volatile **ret_at)
{
    int code = pass_call(SQLITE_FAULT_READ, SQLITE_IOERR_SHMMAP);
    if (extend && page > 0 && code == SQLITE_OK)
        code = pass_call(SQLITE_FAULT_WRITE, SQLITE_IOERR_SHMSIZE);
    return code ? code : faults_of(file)->system->xShmMap(file, page, size, extend, ret_at);
}

/* ---- the VFS ---- */

static int faults_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                       int *ret_flags)
{
    (void)vfs;
    file->pMethods = NULL;
    int code = pass_call(SQLITE_FAULT_READ, SQLITE_CANTOPEN);
    if (code == SQLITE_OK)
        code = system_vfs()->xOpen(system_vfs(), name, file, flags, ret_flags);
    if (code != SQLITE_OK)
        return code;
    struct faults_file *faults = faults_of(file);
    *faults = (struct faults_file){.methods = *file->pMethods,
                                   .system = file->pMethods,
                                   .is_main = flags & SQLITE_OPEN_MAIN_DB,
                                   .is_wal = flags & SQLITE_OPEN_WAL};
    faults->methods.iVersion = 2; /* nothing is read through mmap: every read passes here */
    faults->methods.xRead = faults_read;
    faults->methods.xWrite = faults_write;
    faults->methods.xTruncate = faults_truncate;
    faults->methods.xSync = faults_sync;
    faults->methods.xShmMap = faults_shm_map;
    file->pMethods = &faults->methods;
    return SQLITE_OK;
}

void sqlite_faults_install(void)
{
    static sqlite3_vfs vfs;
    if (vfs.zName)
        return;
    vfs = *system_vfs();
    vfs.zName = "pawl-faults";
    vfs.szOsFile = (int)(sqlite_vfs_offset(&vfs) + sizeof(struct faults_file));
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
