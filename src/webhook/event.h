/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event: events on their way into the outbox (store/tables/events.h). One that has an id which is
 * there already is the same event, if it says the same: its type, tenant and data (JSON values,
 * however they are spelled); its time does not count.
 */
#ifndef PAWL_WEBHOOK_EVENT_H
#define PAWL_WEBHOOK_EVENT_H

#include "base/arena.h"
#include "store/store.h"
#include "store/tables/events.h"

#define WEBHOOK_BATCH_MOST ((size_t)TABLE_BRINGS_MAX) /* events of one commit */
#define WEBHOOK_ID_SIZE 37                            /* of a minted one: `evt_` and 32 digits */

/* An event as it is given. Slices are borrowed. */
struct webhook_event {
    struct slice id;     /* empty: one is minted */
    struct slice tenant; /* empty: none */
    struct slice type;
    struct slice time; /* empty: now */
    struct slice data; /* JSON; empty: null */
};

enum webhook_publish_end {
    WEBHOOK_STORED,
    WEBHOOK_REPLAYED, /* it is there */
    WEBHOOK_MISMATCH, /* another one is, under its id */
};

struct webhook_published {
    enum webhook_publish_end end;
    char id[EVENT_ID_MAX + 1];
};

/* Whether it can be published. False: `*ret_problem` is a literal, as in "the event ...". Data is
 * parsed in `arena`. */
bool webhook_event_check(const struct webhook_event *event, struct arena *arena,
                         const char **ret_problem);

/* The same of all but its data: NULL, or such a literal. */
const char *webhook_event_problem(const struct webhook_event *event);

/* Whether a row says the same as another one. False: no memory. */
bool webhook_event_same(const struct store_event *a, const struct store_event *b,
                        struct arena *arena, bool *ret_same);

/* Reads an event from JSON: {"type": "..", "data": any value, "id", "time", "tenant"}, whose data
 * stays byte for byte as it is. It lives in `arena` or `text`. False: `*ret_problem` is a literal,
 * as in "the event ...". */
bool webhook_event_read(struct slice text, struct arena *arena, struct webhook_event *ret_event,
                        const char **ret_problem);

/* Publishes events that were checked, at most WEBHOOK_BATCH_MOST, in one commit: those that are
 * there already, or of which another one is, apart. */
enum store_status webhook_publish(struct store *store, const struct webhook_event *events, size_t n,
                                  struct parker *parker, struct webhook_published *published);

#endif
