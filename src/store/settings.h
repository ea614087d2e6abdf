/* SPDX-License-Identifier: Apache-2.0 */
/* What a store may take, as the config says it: values only. */
#ifndef PAWL_STORE_SETTINGS_H
#define PAWL_STORE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* These may change while a store is open. */
struct store_limits {
    size_t max_waiting;         /* begins that wait for another attempt */
    size_t max_waiting_per_key; /* of them, for one record */
    int64_t timeout_us;         /* a batch that takes longer makes the store count as down */
    uint64_t disk_reserve;      /* bytes to stay free; 0: the smaller of 64 MiB and 10 % */
};

/* What a process is to its store: of a `serve` and of a drainer there is one a file each, by a lock
 * that ends with the process. The numbers are kept. */
enum store_role { STORE_COMMAND, STORE_SERVE, STORE_DRAINER };

#define STORE_SESSIONS_MOST 8

struct table;

struct store_config {
    const char *path;    /* of the SQLite file; created 0600 when absent */
    bool read_only_file; /* never create the file: commands that look */
    bool may_be_foreign; /* it may be an application's own: no record is to begin here */
    bool counts_others;  /* processes that have it open: store_others */
    bool accepts_weaker; /* one that may lose what it acknowledged is good enough */
    enum store_role role;
    bool owns_sqlite;  /* nothing else in this process uses SQLite; without it, only where the role
                          says so */
    bool no_thread;    /* the caller steps the committer by hand (simulation) */
    size_t max_queued; /* a session */
    size_t sessions;   /* 0: by what is in flight, up to STORE_SESSIONS_MOST; a backend that has
                          but one keeps to one */
    struct store_limits limits;
    int checkpoint_pages;              /* of the WAL, at which it is checkpointed; 0: 1000 */
    const struct table *const *tables; /* NULL behind the last */
    size_t key_run; /* new keys that gather before they go into the index; 0: 65536, of a command
                       4096 */
    /* Called on the committer's thread at the first I/O error of a write or sync (invariant 8).
     * `what` is one line. When it returns, or is NULL, everything ends as STORE_DEAD. */
    void (*fail_stop)(void *argument, const char *what);
    void *fail_stop_argument;
};

enum store_open_result {
    STORE_OPENED,
    STORE_OPEN_FAILED, /* cannot be opened, foreign, newer, corrupt, locked, read-only */
    STORE_OPEN_IN_USE, /* another process has it: in that role, or with its older format */
};

#endif
