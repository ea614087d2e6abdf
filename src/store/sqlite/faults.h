/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An SQLite VFS that fails on purpose, in builds with hooks alone: it is over the system's own,
 * below the store's (vfs.h), and is the default for every file opened after. It passes the
 * crash points that lie inside SQLite's own work (inside_commit, before_commit_sync,
 * inside_checkpoint, before_checkpoint_sync) and makes the n-th I/O call fail. A write of the
 * database or of its log that fails, or in which the process dies, has come half way. `serve`
 * installs it when the environment says so:
 *
 *     PAWL_STORE_FAULTS=points          only the crash points
 *     PAWL_STORE_FAULTS=CALLS:ERROR:N   and the N-th of CALLS (write, sync, truncate, read, any)
 *                                       fails once with ERROR (io, full)
 */
#ifndef PAWL_STORE_SQLITE_FAULTS_H
#define PAWL_STORE_SQLITE_FAULTS_H

#ifdef PAWL_HOOKS

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>

enum sqlite_fault_calls {
    SQLITE_FAULT_WRITE = 1,
    SQLITE_FAULT_SYNC = 2,
    SQLITE_FAULT_TRUNCATE = 4,
    SQLITE_FAULT_READ = 8, /* reads, and what maps or opens a file */
    SQLITE_FAULT_ANY = 15,
};

#define SQLITE_FAULT_QUOTA (-1) /* no code of SQLite's: its file system says EDQUOT */

/* Once or more. The only one that may be called beside other threads is sqlite_faults_fired. */
void sqlite_faults_install(void);
/* By $PAWL_STORE_FAULTS; nothing without it. A text it does not know ends the process. */
void sqlite_faults_by_environment(void);

/* $PAWL_STORE_KEY_RUN: store_config's key_run, so that a few keys make a merge. */
size_t sqlite_faults_key_run(size_t otherwise);

/* From now on the n-th of `calls` fails once with SQLITE_IOERR (the extended code of its kind),
 * SQLITE_FULL or SQLITE_FAULT_QUOTA; 0: none does. */
void sqlite_faults_arm(unsigned calls, int error, long n);
/* Whether it has failed. */
bool sqlite_faults_fired(void);

#endif
#endif
