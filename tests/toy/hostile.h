/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostile: a backend in front of another one, that fails as it is told, and with a seed at random:
 * groups that conflict or are locked, saves that are unsure, written or not.
 */
#ifndef PAWL_TESTS_HOSTILE_H
#define PAWL_TESTS_HOSTILE_H

#include "store/backend.h"
#include <stdatomic.h>

/* Of one backend; any thread may turn them. */
struct hostile_faults {
    atomic_int next_save;     /* enum backend_status: what the next one of operations or leases
                                 comes to; UNSURE: it was written. Afterwards OK again */
    atomic_bool gone;         /* every load: the file was removed */
    atomic_bool refuses;      /* the next save: what it changes cannot be written */
    atomic_llong n_tokens;    /* of each load from now on; 0: as it comes */
    atomic_llong token;       /* the next load draws from here on; 0: as it comes */
    atomic_ullong space_free; /* bytes, with space_size */
    atomic_ullong space_size; /* 0: as it comes */
    atomic_ullong commits;    /* how many wrote so far; only read it */
    atomic_ullong locked;     /* groups that met what a transaction holds; likewise */
    atomic_ullong beats;      /* likewise: how often it said that it lives */
    void (*loaded)(void *argument); /* by the caller's thread, behind the next load: what another
                                       process does before the save */
    void *argument;
};

/* Takes over `behind`. A seed of 0: only what it is told happens. `waits`: what is tried again
 * after a while happens, too, and not only conflicts; a store that stands still would not get on.
 */
struct backend *hostile_over(struct backend *behind, uint64_t seed, bool waits);

/* In front of a toy, as it is told; of the same array as `with`, which came from here. */
struct backend *hostile_toy(struct backend *with);

/* It has pairs from now on, in front of one that has: what goes without a load is in batches of its
 * own, so that what is queued together is not decided together. */
void hostile_let_pair(struct backend *backend);

struct hostile_faults *hostile_faults(struct backend *backend);

/* Somebody's transaction holds a key, and its row, or lets them go: meanwhile whatever would change
 * them, or saw them, is locked. So it is in front of all toys with this array. */
void hostile_hold(struct backend *backend, const struct digest *key, bool held);

#endif
