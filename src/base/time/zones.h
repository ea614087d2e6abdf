/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zones: the time zones that a config needs, read from ZONE_FOLDER when the config is, and looked
 * up by name while it serves: no file is read then, whatever name a request brings.
 */
#ifndef PAWL_BASE_ZONES_H
#define PAWL_BASE_ZONES_H

#include "base/time/zone.h"

#define ZONES_MAX 1024

struct zones {
    size_t n;
    const struct zone *at[ZONES_MAX]; /* by name, ascending */
};

/* Reads one zone. False: there is none of this name, or no memory (arena->failed). */
bool zones_add(struct zones *zones, struct slice name, struct arena *arena);

/* Reads all that this machine has; files of other sorts are passed over. */
void zones_add_all(struct zones *zones, struct arena *arena);

/* NULL: there is none of this name. */
const struct zone *zones_find(const struct zones *zones, struct slice name);

#endif
