/* SPDX-License-Identifier: Apache-2.0 */
/*
 * roster: the endpoints that events are sent to, as they are now: those of the config, and those
 * that the registry has beside them. Made anew where one of the latter changes, with references: a
 * delivery keeps the roster that it began with. Used by the delivering loop alone, so without
 * locks.
 */
#ifndef PAWL_WEBHOOK_ROSTER_H
#define PAWL_WEBHOOK_ROSTER_H

#include "base/text/url.h"
#include "webhook/endpoints/registry.h"

/* An endpoint, and its state as it was read last. */
struct webhook_target {
    const struct webhook_endpoint *endpoint;
    struct url url;
    struct store_endpoint state; /* row.id 0: it has no row */
    bool is_stored;              /* it is one that a command made */
    int64_t envelope;            /* its rule's row (envelope.h); 0: it is not looked up yet */
};

struct roster {
    size_t refs;
    struct arena arena;             /* what the stored ones say */
    struct webhook_target *targets; /* ordered by name */
    size_t n;
    struct webhook_target *held; /* ordered: stored ones that this version cannot read (held.h) */
    size_t n_held;
    bool is_whole;            /* false: those that are stored are not known */
    bool needs_tls;           /* one of them is https */
    struct table_row *stored; /* of which rows of settings it was made */
    size_t n_stored;
    int64_t until; /* store time at which a secret ends */
};

/* Of those of the config alone (is_whole is false), whose texts outlive it; or with those of the
 * registry, which `read` reads. NULL: no memory. */
struct roster *roster_new(const struct webhook_settings *settings, const struct registry *registry,
                          webhook_reader *read);
struct roster *roster_ref(struct roster *roster);
/* Accepts NULL. */
void roster_unref(struct roster *roster);

/* Whether one made of this registry would be the same. */
bool roster_is_of(const struct roster *roster, const struct registry *registry);

/* Takes the states of the registry. */
void roster_take_states(struct roster *roster, const struct registry *registry);

/* Of a former name the target that has another name now; else itself: whose state counts. */
struct webhook_target *roster_heir(const struct roster *roster, struct webhook_target *target);

/* NULL: there is none of that name. */
struct webhook_target *roster_find(const struct roster *roster, struct slice name);
/* Whether there is one that this version cannot read. */
bool roster_holds(const struct roster *roster, struct slice name);

#endif
