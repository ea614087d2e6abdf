/* SPDX-License-Identifier: Apache-2.0 */
/*
 * freeze: a store in which an operator lets nothing begin, for a move or a repair.
 *
 *      open --freeze_set--> frozen, and what began goes on --> nothing is in flight --> open again
 *
 * In a frozen store nothing is begun, claimed or added, by any process (store/tables/terms.h;
 * STORE_FROZEN says so). What began before ends as it ends, and is stored; what is stored is
 * replayed; what people do, sweeps and beats go on. docs/decisions/0051-freeze.md has the table.
 *
 * What is in flight only becomes less: once it is nothing, no process of pawl is about to have an
 * effect. Transactions of applications (PostgreSQL) are not among it: nobody sees them.
 */
#ifndef PAWL_OPERATOR_FREEZE_H
#define PAWL_OPERATOR_FREEZE_H

#include "store/store.h"
#include "store/tables/acts.h"

/* Freezes the store, or thaws it, and writes it into the audit. `*ret_changed`: it was not so
 * already; a store that was frozen stays frozen since then. */
enum store_status freeze_set(struct store *store, const struct store_actor *actor, bool frozen,
                             struct parker *parker, bool *ret_changed);

struct freeze_view {
    bool is_frozen;
    int64_t since;     /* store time; 0: not known, or not frozen */
    size_t operations; /* records with a live lease: an owner runs them */
    size_t deliveries; /* tasks that are being sent */
};

enum store_status freeze_look(struct store *store, struct parker *parker,
                              struct freeze_view *ret_view);

#endif
