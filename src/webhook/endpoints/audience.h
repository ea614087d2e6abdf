/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audience: the endpoints that an event may be told to: those of this process (roster.h), and those
 * that others declare (census.h). Borrows both.
 */
#ifndef PAWL_WEBHOOK_AUDIENCE_H
#define PAWL_WEBHOOK_AUDIENCE_H

#include "webhook/endpoints/census.h"
#include "webhook/endpoints/roster.h"

struct audience_member {
    struct slice name;
    bool ordered;
    bool skips;
    enum retry_profile retry;
    int64_t envelope; /* row ids */
    int64_t row;
    const struct webhook_endpoint *endpoint; /* NULL: this process has none of that name */
    const struct census_entry *entry;        /* NULL: nobody declares it */
};

struct audience {
    struct audience_member *at;
    size_t n;
    int64_t keep_us; /* how long an event's id is known, at least */
};

/* In the arena. `keep_us`: what this config says; 0: nothing. False: no memory. */
bool audience_make(struct arena *arena, const struct roster *roster, const struct census *census,
                   int64_t keep_us, struct audience *ret_audience);

/* Whether it is told of the event. */
bool audience_wants(const struct audience_member *member, const struct store_event *event);

#endif
