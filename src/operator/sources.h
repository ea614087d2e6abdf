/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sources: those of `inbox:`, as operators act on them. They are declared in configs and nowhere
 * else; what the store has of one is a row of the roster (webhook/endpoints/census.h).
 */
#ifndef PAWL_OPERATOR_SOURCES_H
#define PAWL_OPERATOR_SOURCES_H

#include "store/store.h"
#include "store/tables/acts.h"

enum sources_end {
    SOURCES_REMOVED,
    SOURCES_ALREADY,   /* it was removed before */
    SOURCES_NOT_FOUND, /* the store knows none of that name */
    SOURCES_SERVED,    /* it is in a config that is in force */
};

/* Removes one that no living process declares, and writes down who did: its events that wait are
 * dead once they are next due. A config that has it brings it back. */
enum store_status sources_remove(struct store *store, struct parker *parker, struct slice name,
                                 const struct store_actor *actor, enum sources_end *ret_end);

#endif
