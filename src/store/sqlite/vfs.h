/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The VFS of the store's connections: the system's own, but what SQLite writes to the write-ahead
 * log goes to the file in one call a transaction. SQLite writes each page of a transaction in two
 * calls, a frame's header and the page (wal.c, sqlite3WalFrames), and syncs the log once. Here
 * these bytes are held in memory, and written as one stretch when
 *
 *   - the log is synced, truncated or asked for its size;
 *   - the bytes of a read or of a write overlap them, or a write does not go on where they end;
 *   - HELD_MAX of them are there.
 *
 * So every byte gets to the place where SQLite wrote it, in the order in which it wrote it, and all
 * of a transaction is in the file before the sync that its commit waits for. Nobody else misses
 * them meanwhile: other connections read the log up to where the wal-index says that it ends, and
 * this end is moved after that sync, beside a barrier (walIndexWriteHdr), at which nothing may be
 * held. This belief, which is CHECKed, rests on `synchronous=FULL`: weaker settings commit without
 * a sync.
 *
 * What is still held when the write lock of the wal-index is given back belongs to a transaction
 * that was rolled back: pages that had no place in the cache. It is thrown away. To write it later
 * would destroy the log: the frames of another writer may be there by then.
 *
 *      none --write--> held --written--> none
 *                       |--write lock freed, log closed--> none
 *                       |--the system's write failed--> held
 *
 * A checkpoint syncs the log before it writes the database. Where this connection wrote every byte
 * of the log, and its last commit synced them, that is a flush of the disk for nothing, and left
 * out: the file ends where its own bytes do and still begins with the header that it wrote, which
 * has random numbers; nobody wrote over its frames, since others write behind the end that its
 * commit told them. What it wrote and did not tell (a rollback, a commit that failed behind its
 * sync) is not its own any more once the write lock is free.
 *
 * Errors: a call that was to write what is held fails as the system's write failed (SQLITE_FULL,
 * SQLITE_IOERR_WRITE, with errno as it left it), whichever call that is: a commit fails in its sync
 * with the code of a write. Nothing is lost by it: the bytes stay held and each later call begins
 * with them, so no commit can get past them; a rollback drops them. However much of them is in the
 * file after all, the transaction's last frame is not valid without all of those before it.
 *
 * The faults of builds with hooks (faults.h) lie beneath, where the calls are those that the
 * system sees. A connection's files belong to one thread at a time, as the connection does. The
 * memory (HELD_MAX, touched as it is needed) is taken when a log is opened. Not for
 * `locking_mode=EXCLUSIVE`, where SQLite does not give the lock back.
 */
#ifndef PAWL_STORE_SQLITE_VFS_H
#define PAWL_STORE_SQLITE_VFS_H

#include <sqlite3.h>
#include <stddef.h>

/* What a VFS over `system` keeps of a file is in the same memory, behind the system's own file: a
 * call that is not overridden finds the file as the system left it. Where it begins; of a file. */
static inline size_t sqlite_vfs_offset(const sqlite3_vfs *system)
{
    size_t size = (size_t)system->szOsFile, unit = _Alignof(max_align_t);
    return (size + unit - 1) / unit * unit;
}

static inline void *sqlite_vfs_beside(const sqlite3_vfs *system, sqlite3_file *file)
{
    return (char *)file + sqlite_vfs_offset(system);
}

/* Its name, for sqlite3_open_v2; the first call registers it, over what is the default then. To be
 * called beside no other thread that opens a store. */
const char *sqlite_vfs_name(void);

#endif
