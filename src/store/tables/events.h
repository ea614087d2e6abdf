/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events: what is sent to others, as rows (store/table.h): the events themselves, the endpoints
 * that they are sent to, and the forms in which they are. The row of an event is the outbox:
 * whoever publishes writes that alone, in SQL by pawl.publish; the courier makes a task for each
 * endpoint that wants it, in the commit that marks the event.
 */
#ifndef PAWL_STORE_EVENTS_H
#define PAWL_STORE_EVENTS_H

#include "store/table.h"

#define EVENT_ID_MAX ((size_t)255)
#define EVENT_DATA_MAX ((size_t)1024 * 1024)

struct store_event {
    struct table_row row; /* first */
    struct slice id;      /* unique: A-Za-z0-9_- */
    struct slice tenant;  /* empty: of none */
    struct slice type;    /* words of A-Za-z0-9_ joined by dots */
    struct slice time;    /* RFC 3339, as it was given */
    struct slice data;    /* JSON, byte for byte as it was given */
    int64_t created_at;
    bool is_new;       /* its tasks are not all made yet */
    int64_t fanned_at; /* when they were; 0: they are not */
    int64_t gone_at;   /* to look whether it may be removed; CLOCK_NEVER: new */
};

/* An endpoint's name and state: of those of a config, and of those that commands made. */
struct store_endpoint {
    struct table_row row; /* first */
    struct slice name;    /* unique */
    bool is_disabled;
    struct slice why;
    int64_t failing_since; /* of its first failure with no success since; 0: none */
    int64_t changed_at;
};

/* What one that commands made is: it goes with its endpoint, by having its id. */
struct store_endpoint_settings {
    struct table_row row;  /* first */
    struct slice settings; /* a JSON object: members of an endpoint of the config, without `name`
                              and `secret` */
    struct slice secrets;  /* lines `UNTIL SECRET`: store time until which it signs, 0 for good */
    int64_t created_at;
};

/* How an event is told: deliveries name theirs, so that each attempt has the same bytes. */
struct store_envelope {
    struct table_row row; /* first */
    struct slice rule;    /* unique: webhook/envelope.h */
};

extern const struct table event_table, endpoint_table, endpoint_settings_table, envelope_table;

/* By which events are found, behind those columns by row id: those that are new; when one may be
 * removed. */
enum event_index { EVENT_BY_NEW, EVENT_BY_GONE, EVENT_INDEX_COUNT };
extern const struct table_index event_indexes[EVENT_INDEX_COUNT];

#endif
