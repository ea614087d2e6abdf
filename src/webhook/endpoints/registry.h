/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry: the endpoints that the store knows. Of each its name and state; of those that commands
 * made also what they are: the map that the config would have of them, as JSON, and apart from it
 * their secrets, of which one that was rotated out ends at a time. One reader, the config's, reads
 * both kinds (webhook_reader of settings.h).
 */
#ifndef PAWL_WEBHOOK_REGISTRY_H
#define PAWL_WEBHOOK_REGISTRY_H

#include "base/buf.h"
#include "store/store.h"
#include "store/tables/events.h"
#include "webhook/settings.h"

#define REGISTRY_MOST ((size_t)1000) /* that commands make */

struct registry_entry {
    const struct store_endpoint *state;
    const struct store_endpoint_settings *settings; /* NULL: it is one of a config */
};

/* Ordered by name; all of it is in the arena that it was read into. */
struct registry {
    struct registry_entry *at;
    size_t n;
    size_t n_stored; /* those with settings */
    int64_t now;     /* store time */
};

enum store_status registry_read(struct store *store, struct parker *parker, struct arena *arena,
                                struct registry *ret_registry);

/* NULL: there is none of that name. */
const struct registry_entry *registry_find(const struct registry *registry, struct slice name);

/* One that is in the config as well as stored. NULL: none. */
const struct webhook_endpoint *registry_conflict(const struct registry *registry,
                                                 const struct webhook_settings *settings);

struct registry_secret {
    struct slice text;
    int64_t until; /* store time; 0: for good */
};

/* The next of what is left of `secrets`. False: there is none. */
bool registry_next_secret(struct slice *secrets, struct registry_secret *ret_secret);

/* Whether it signs at that time. */
bool registry_secret_signs(const struct registry_secret *secret, int64_t now);

/* Appends a map as the config would have it, with the secrets that sign at that time. `*ret_until`:
 * when the first of them ends; CLOCK_NEVER: none does. */
void registry_add_map(const struct registry_entry *entry, int64_t now, struct buf *map,
                      int64_t *ret_until);

#endif
