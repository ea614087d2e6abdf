/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory backend's test side: faults, and one table under several backends. Two backends over
 * one table stand for two processes on one file.
 */
#ifndef PAWL_STORE_MEMORY_H
#define PAWL_STORE_MEMORY_H

#include "store/backend.h"
#include <stdatomic.h>

/* What the next commit that writes does; afterwards the knob is back at OK. */
enum memory_commit {
    MEMORY_COMMIT_OK,
    MEMORY_COMMIT_FULL,           /* no space; rolled back */
    MEMORY_COMMIT_FATAL,          /* I/O error; rolled back */
    MEMORY_COMMIT_LOST,           /* BUSY; rolled back */
    MEMORY_COMMIT_LOST_BUT_THERE, /* BUSY, though everything was committed */
};

/* Of one backend; any thread may turn them. */
struct memory_faults {
    atomic_int next_commit;   /* enum memory_commit */
    atomic_bool gone;         /* every begin: the file was removed */
    atomic_bool serve_alive;  /* some `serve` of this table lives */
    atomic_bool changed;      /* the next look says that another process committed */
    atomic_ullong space_free; /* bytes, with space_size */
    atomic_ullong space_size; /* 0: not known */
    atomic_ullong commits;    /* how many wrote so far; only read it */
};

struct memory_faults *memory_backend_faults(struct backend *backend);

/* Another backend over the table of `backend`. NULL: no memory. */
struct backend *memory_backend_share(struct backend *backend);

#endif
