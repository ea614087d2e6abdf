/* SPDX-License-Identifier: Apache-2.0 */
/*
 * endpoints: those that the store knows (webhook/endpoints/registry.h), as operators see them and
 * act on them: made, rotated, removed, enabled and disabled by a command or over HTTP, each act
 * written down with what it changed. What is in a config is declared there and nowhere else: of it
 * there is only the state.
 *
 * Secrets are shown once, where one is made, and afterwards as their last four characters.
 */
#ifndef PAWL_OPERATOR_ENDPOINTS_H
#define PAWL_OPERATOR_ENDPOINTS_H

#include "store/tables/acts.h"
#include "webhook/endpoints/registry.h"

#define ENDPOINTS_OVERLAP_US (INT64_C(86400) * CLOCK_US_PER_S) /* where nobody says otherwise */

struct endpoints_source {
    struct store *store;
    struct parker *parker;
    webhook_reader *read;
};

enum endpoints_act {
    ENDPOINTS_ENABLE,
    ENDPOINTS_DISABLE,
    ENDPOINTS_ROTATE, /* another secret signs from now on, and those before for some time yet */
    ENDPOINTS_REMOVE, /* its deliveries are dead */
};
/* In that order, divided by '|'. */
#define ENDPOINTS_ACT_NAMES "enable|disable|rotate|remove"

struct endpoints_wish {
    struct slice name;
    enum endpoints_act act;
    struct store_actor actor; /* force: ENDPOINTS_REMOVE of one that no config has any more */
    struct slice secret;      /* ENDPOINTS_ROTATE; empty: one is minted */
    int64_t overlap_us;       /* ENDPOINTS_ROTATE: how long the others sign yet */
};

enum endpoints_end {
    ENDPOINTS_DONE,
    ENDPOINTS_ALREADY,   /* it is so */
    ENDPOINTS_NOT_FOUND, /* the store knows none of that name */
    ENDPOINTS_TAKEN,     /* add: there is one of that name */
    ENDPOINTS_OF_CONFIG, /* rotate, remove: it is one of a config */
    ENDPOINTS_SERVED,    /* remove: it is one of a config that is in force */
    ENDPOINTS_RENAMED,   /* enable, disable: it is called `heir` now, by which its state goes */
    ENDPOINTS_BAD,       /* add, rotate: `problem` says what is wrong */
};

struct endpoints_acted {
    enum endpoints_end end;
    const char *problem; /* a literal, or in the arena */
    struct slice name;   /* in the arena */
    struct slice heir;   /* in the arena */
    struct slice secret; /* that was minted, in the arena; empty: none was */
};

/* Makes one of a JSON object: an endpoint of the config. Without `secret` one is minted. */
enum store_status endpoints_add(const struct endpoints_source *source, struct slice map,
                                const struct store_actor *actor, struct arena *arena,
                                struct endpoints_acted *ret_acted);

/* Acts on one. */
enum store_status endpoints_act(const struct endpoints_source *source,
                                const struct endpoints_wish *wish, struct arena *arena,
                                struct endpoints_acted *ret_acted);

/* What is shown of a secret. */
struct slice endpoints_secret_end(struct slice secret);

/* Appends one JSON object: what is known of it. */
void endpoints_add_json(struct buf *buf, const struct registry_entry *entry, int64_t now);

#endif
