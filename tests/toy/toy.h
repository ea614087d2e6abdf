/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The toy backend: what a backend has to do (store/backend.h) and nothing else, as an array of rows
 * behind a mutex. It holds no lock between load and save, so that save compares. Several backends
 * over one table stand for several processes; the table goes with the last of them.
 */
#ifndef PAWL_TESTS_TOY_H
#define PAWL_TESTS_TOY_H

#include "store/backend.h"
#include <stdatomic.h>

/* Of one backend; any thread may turn them. */
struct toy_faults {
    atomic_int next_save;     /* enum backend_status: what the next one of operations or leases
                                 comes to; UNSURE: it was written. Afterwards OK again */
    atomic_bool gone;         /* every load: the file was removed */
    atomic_bool serve_alive;  /* some `serve` of this table lives */
    atomic_llong n_tokens;    /* of each load from now on */
    atomic_llong token;       /* the next load draws from here on; 0: from what was not drawn yet */
    atomic_bool changed;      /* the next look says that another process committed */
    atomic_ullong space_free; /* bytes, with space_size */
    atomic_ullong space_size; /* 0: not known */
    atomic_ullong commits;    /* how many wrote so far; only read it */
    atomic_ullong locked;     /* groups that met what a transaction holds; likewise */
    atomic_ullong beats;      /* likewise: how often it said that it lives */
    void (*loaded)(void *argument); /* by the caller's thread, behind the next load: what another
                                       process does before the save */
    void *argument;
};

/* Another backend over the table of `with`; NULL: over one of its own. */
struct backend *toy_share(struct backend *with);
static inline struct backend *toy_open(void)
{
    return toy_share(NULL);
}

struct toy_faults *toy_faults(struct backend *backend);

/* Somebody's transaction holds a key, and its row, or lets them go: meanwhile whatever would change
 * them, or saw them, is locked. */
void toy_hold(struct backend *backend, const struct digest *key, bool held);

#endif
